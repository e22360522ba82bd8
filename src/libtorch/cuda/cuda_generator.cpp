// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/cuda_generator.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>

#include <mutex>
#include <utility>

#include "backend/check.h"
#include "libtorch/cuda/cuda_tensors.h"
#include "libtorch/cuda/versions/version.h"

namespace reprise::libtorch {
namespace {

at::Tensor over(std::uint64_t* word, c10::Device device) {
  return at::from_blob(
      word, {1}, {1}, [](void*) {}, at::TensorOptions().dtype(at::kLong).device(device), device);
}

}  // namespace

CudaGenerator::CudaGenerator(const at::Generator& generator)
    : generator_(generator.getIntrusivePtr()), device_(cuda_device_of(generator.device())) {
  const backend::RelaxedCaptureMode relaxed(device_.backend());  // it may allocate
  const c10::DeviceGuard guard(generator_->device());
  draws_ = std::make_unique<version::GeneratorDraws>(generator_);
  state_ = draws_->state();
}

CudaGenerator::~CudaGenerator() {
  abandon();
}

[[gnu::hot]] GeneratorState CudaGenerator::spend(std::uint64_t increment) {
  const std::lock_guard lock(generator_->mutex_);
  const GeneratorState before{state_->seed_, state_->philox_offset_per_thread_};
  state_->philox_offset_per_thread_ += increment;
  return before;
}

void CudaGenerator::undo_spend(const GeneratorState& before, std::uint64_t increment) noexcept {
  const std::lock_guard lock(generator_->mutex_);
  if (state_->seed_ == before.seed && state_->philox_offset_per_thread_ == before.offset + increment)
    state_->philox_offset_per_thread_ = before.offset;
}

bool CudaGenerator::attach(std::uint64_t* words) {
  at::TensorBase seed = over(words, generator_->device()), offset = over(words + 1, generator_->device());
  const std::lock_guard lock(generator_->mutex_);
  return draws_->attach(std::move(seed), std::move(offset));
}

std::uint64_t CudaGenerator::draw(std::uint64_t increment) {
  const std::lock_guard lock(generator_->mutex_);
  return draws_ != nullptr ? draws_->draw(increment) : 0;
}

void CudaGenerator::takes_part(std::uint64_t capture_id) {
  const std::lock_guard lock(generator_->mutex_);
  if (draws_ != nullptr) draws_->takes_part(capture_id);
}

std::optional<std::uint64_t> CudaGenerator::detach() {
  std::optional<std::uint64_t> drawn;
  {
    const std::lock_guard lock(generator_->mutex_);
    if (draws_ != nullptr) drawn = draws_->drawn();
  }
  abandon();
  return drawn;
}

void CudaGenerator::abandon() noexcept {
  if (draws_ == nullptr) return;
  {
    const std::lock_guard lock(generator_->mutex_);
    draws_->detach();
  }
  try {
    const backend::RelaxedCaptureMode relaxed(device_.backend());
    draws_.reset();
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

std::uintptr_t CudaGenerator::words_in_use() const {
  const std::lock_guard lock(generator_->mutex_);
  return draws_ != nullptr ? draws_->words_in_use() : 0;
}

}  // namespace reprise::libtorch
