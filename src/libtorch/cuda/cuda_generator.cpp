// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/cuda_generator.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>

#include <mutex>
#include <utility>

#include "backend/check.h"
#include "libtorch/cuda/cuda_tensors.h"

namespace reprise::libtorch {
namespace {

at::Tensor over(std::uint64_t* word, c10::Device device) {
  return at::from_blob(
      word, {1}, {1}, [](void*) {}, at::TensorOptions().dtype(at::kLong).device(device), device);
}

}  // namespace

// The state of a generator is accessed as a graph of libtorch's, to which the generator passes it. The generator counts
// such graphs, and makes new tensors for the first one: while this one is registered, no other is the first.
class CudaGenerator::Registration final : private at::cuda::CUDAGraph {
 public:
  explicit Registration(const c10::intrusive_ptr<c10::GeneratorImpl>& generator) {
    register_generator_state(at::Generator(generator));
  }
  c10::intrusive_ptr<at::CUDAGeneratorState> state() const { return captured_generator_states_.begin()->first; }
};

CudaGenerator::CudaGenerator(const at::Generator& generator)
    : generator_(generator.getIntrusivePtr()), device_(cuda_device_of(generator.device())) {
  const backend::RelaxedCaptureMode relaxed(device_.backend());  // it may allocate
  const c10::DeviceGuard guard(generator_->device());
  registration_ = std::make_unique<Registration>(generator_);
  state_ = registration_->state();
}

CudaGenerator::~CudaGenerator() {
  abandon();
}

GeneratorState CudaGenerator::spend(std::uint64_t increment) {
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
  words_ = words;
  const std::lock_guard lock(generator_->mutex_);
  if (state_->capturing_) return false;
  before_ = Before{std::exchange(state_->seed_extragraph_, std::move(seed)),
                   std::exchange(state_->offset_extragraph_, std::move(offset)),
                   std::exchange(state_->offset_intragraph_, 0)};
  state_->capturing_ = true;
  return true;
}

std::optional<std::uint64_t> CudaGenerator::detach() {
  std::optional<std::uint64_t> drawn;
  {
    const std::lock_guard lock(generator_->mutex_);
    const bool whole = before_ && state_->capturing_ && state_->seed_extragraph_.defined() &&
                       state_->seed_extragraph_.const_data_ptr() == words_;
    if (whole) drawn = state_->offset_intragraph_;
  }
  abandon();
  return drawn;
}

void CudaGenerator::abandon() noexcept {
  {
    const std::lock_guard lock(generator_->mutex_);
    restore();
  }
  words_ = nullptr;
  if (registration_ == nullptr) return;
  try {
    const backend::RelaxedCaptureMode relaxed(device_.backend());
    registration_.reset();
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

void CudaGenerator::restore() noexcept {
  if (!before_) return;
  state_->capturing_ = false;
  state_->offset_intragraph_ = before_->offset_in_graph;
  state_->seed_extragraph_ = std::move(before_->seed);
  state_->offset_extragraph_ = std::move(before_->offset);
  before_.reset();
}

std::uintptr_t CudaGenerator::words_in_use() const {
  const std::lock_guard lock(generator_->mutex_);
  if (!state_->capturing_ || !state_->seed_extragraph_.defined()) return 0;
  return reinterpret_cast<std::uintptr_t>(state_->seed_extragraph_.const_data_ptr());
}

}  // namespace reprise::libtorch
