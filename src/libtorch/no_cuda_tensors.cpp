// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/cuda_tensors.h"
#include "reprise/error.h"

// Replaces cuda/ where libtorch was built without CUDA, or its headers are incomplete.

namespace reprise::libtorch {
namespace {

[[noreturn]] void refuse() {
  throw UsageError(
      "CUDA tensors cannot be captured: this library was built with a libtorch without CUDA, or without headers of "
      "CUDA.");
}

}  // namespace

bool has_cuda_tensors() noexcept {
  return false;
}

bool begins_with_cuda_tensors(const captures::Capture& /*capture*/) {
  return false;
}

StreamHandle current_cuda_stream(int /*device*/) noexcept {
  return nullptr;
}

void set_current_cuda_stream(int /*device*/, StreamHandle /*stream*/) noexcept {}

int current_cuda_device() noexcept {
  return 0;
}

void set_current_cuda_device(int /*device*/) noexcept {}

bool is_pooled_cuda_stream(StreamHandle /*stream*/) noexcept {
  return false;
}

std::optional<MempoolId> new_cuda_pool_id(bool /*by_user*/) {
  return std::nullopt;
}

void empty_cuda_cache() noexcept {}

void empty_cuda_pinned_cache() noexcept {}

std::uint64_t cuda_reserved_bytes(c10::DeviceIndex /*device*/) {
  return 0;
}

backend::Framework::PoolBytes cuda_pool_bytes(const Device& /*device*/, MempoolId /*pool*/) noexcept {
  return {};
}

std::vector<backend::Framework::Block> cuda_blocks(const Device& /*device*/) {
  return {};
}

void keep_cuda_stacks() {}

std::unique_ptr<graphs::FrameworkListeners> make_cuda_listeners() {
  return nullptr;
}

std::unique_ptr<inspect::InputSource> make_cuda_inputs(const captures::Capture& /*capture*/) {
  return nullptr;
}

void note_cuda_allocations(const captures::Capture& /*capture*/) {}

void register_cuda_generator(CUDAGraph& /*graph*/, const at::Generator& /*generator*/) {
  refuse();
}

void set_cuda_offset(at::Generator& /*generator*/, std::uint64_t /*offset*/) {
  refuse();
}

Device cuda_device_of(c10::Device /*device*/) {
  refuse();
}

StreamRef cuda_stream_of(const c10::Stream& /*stream*/) {
  refuse();
}

c10::Stream cuda_c10_stream(const StreamRef& /*stream*/) {
  refuse();
}

}  // namespace reprise::libtorch
