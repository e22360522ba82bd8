// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "graph/capture/framework_captures.h"
#include "inspect/liveness/input_source.h"
#include "reprise/detail/export.h"
#include "reprise/device.h"
#include "reprise/graph.h"
#include "reprise/stream.h"

// CUDA tensors, for the rest of the component. Where libtorch has no CUDA, no_cuda_tensors.cpp stands in for all of it.

namespace reprise::libtorch {

/// True if this library and libtorch both find CUDA devices. The first call initialises CUDA's driver; from then on
/// either allocator that runs out of memory of a CUDA device empties the cache of the other one.
bool has_cuda_tensors() noexcept;

/// True for a capture on a CUDA device with tensors. The first one initialises what libtorch needs for them; it is to
/// come before the runtime captures, and before libtorch's memory is routed: what it allocates here is no graph's.
bool begins_with_cuda_tensors(const captures::Capture& capture);

/// This library's device for a device of libtorch's; -1 is the calling thread's current one.
/// \throws UsageError if there is none.
REPRISE_EXPORT_INTERNAL Device cuda_device_of(c10::Device device);

// --- For torch_framework.cpp --------------------------------------------------------------------------------------

/// libtorch's current streams and current device of CUDA, of the calling thread; these need has_cuda_tensors(). A
/// stream of a pool that was current, or that this library was given, becomes current again as the same c10::Stream.
StreamHandle current_cuda_stream(int device) noexcept;
void set_current_cuda_stream(int device, StreamHandle stream) noexcept;
int current_cuda_device() noexcept;
void set_current_cuda_device(int device) noexcept;
/// True for a stream of libtorch's pools that this library was given: it lives as long as the process.
bool is_pooled_cuda_stream(StreamHandle stream) noexcept;

/// From libtorch's counter, which needs no device.
std::optional<MempoolId> new_cuda_pool_id(bool by_user);
/// Releases what libtorch's allocator has cached, of all devices.
void empty_cuda_cache() noexcept;
/// Releases libtorch's cached pinned memory.
void empty_cuda_pinned_cache() noexcept;
/// The bytes that libtorch's allocator has taken from the driver on a device.
std::uint64_t cuda_reserved_bytes(c10::DeviceIndex device);
/// Framework::pool_bytes() of a CUDA device; with a warning, none, if libtorch's allocator does not say.
backend::Framework::PoolBytes cuda_pool_bytes(const Device& device, MempoolId pool) noexcept;
/// Framework::blocks() of a CUDA device.
/// \throws UsageError if libtorch uses another allocator than its own.
std::vector<backend::Framework::Block> cuda_blocks(const Device& device);
/// Keeps the stacks of allocations of CUDA tensors from now on. Initialises CUDA.
/// \throws UsageError if libtorch uses another allocator than its own.
void keep_cuda_stacks();

/// The listeners of CUDA tensors for one graph.
std::unique_ptr<graphs::FrameworkListeners> make_cuda_listeners();
/// The memory of CUDA tensors as a source of inputs, for a capture that begins_with_cuda_tensors(); else null.
std::unique_ptr<inspect::InputSource> make_cuda_inputs(const captures::Capture& capture);
/// Adds later allocations of CUDA tensors in captures to the memory::AllocationLog of the capture, if it has one.
/// Does nothing unless the capture begins_with_cuda_tensors().
/// \throws UsageError if libtorch uses another allocator than its own.
void note_cuda_allocations(const captures::Capture& capture);

// --- Generators ---------------------------------------------------------------------------------------------------

/// Captures of this graph may draw from the generator.
/// \throws UsageError unless the graph is empty.
void register_cuda_generator(CUDAGraph& graph, const at::Generator& generator);

/// Sets the offset of a CUDA generator. at::Generator::set_offset() would also make the next recurrent network with
/// dropout create a new random state for cuDNN, with a wait that cannot be captured.
void set_cuda_offset(at::Generator& generator, std::uint64_t offset);

// --- Streams ------------------------------------------------------------------------------------------------------

/// Converts a stream of libtorch's.
StreamRef cuda_stream_of(const c10::Stream& stream);
/// Converts a stream to libtorch's.
c10::Stream cuda_c10_stream(const StreamRef& stream);

}  // namespace reprise::libtorch
