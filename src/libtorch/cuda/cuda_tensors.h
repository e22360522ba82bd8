// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>

#include "reprise/device.h"
#include "reprise/graph.h"
#include "reprise/stream.h"

// CUDA tensors, for the rest of the layer. Where libtorch has no CUDA, no_cuda_tensors.cpp refuses all of it.

namespace reprise::libtorch {

/// Lets CUDA tensors take part in captures. To be called once. Does nothing without a CUDA device.
void let_cuda_tensors_take_part();

/// The device that a device of libtorch's is; -1 is the calling thread's current one.
/// \throws UsageError if there is none.
Device cuda_device_of(c10::Device device);

/// Lets random numbers of CUDA generators take part in captures. To be called once, where there is a CUDA device.
void let_cuda_generators_take_part();

/// Captures of this graph may draw from the generator. Wants let_cuda_generators_take_part().
/// \throws UsageError unless the graph is empty.
void register_cuda_generator(CUDAGraph& graph, const at::Generator& generator);

/// Sets the offset of a CUDA generator. at::Generator::set_offset() also has the next recurrent network with dropout
/// make a new random state for cuDNN, for which it waits: it would not be captured.
void set_cuda_offset(at::Generator& generator, std::uint64_t offset);

/// A stream of libtorch's as this library sees it.
StreamRef cuda_stream_of(const c10::Stream& stream);
/// A stream as libtorch sees it.
c10::Stream cuda_c10_stream(const StreamRef& stream);

}  // namespace reprise::libtorch
