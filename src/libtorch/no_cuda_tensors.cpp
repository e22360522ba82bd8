// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/cuda_tensors.h"
#include "reprise/error.h"

// In the place of cuda/, where libtorch was built without CUDA, or its headers are incomplete.

namespace reprise::libtorch {
namespace {

[[noreturn]] void refuse() {
  throw UsageError(
      "CUDA tensors cannot be captured: this library was built with a libtorch without CUDA, or without headers of "
      "CUDA.");
}

}  // namespace

void let_cuda_tensors_take_part() {}

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
