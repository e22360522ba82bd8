// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <optional>

#include "c_api/status.h"
#include "reprise/c_api.h"
#include "reprise/device.h"
#include "reprise/graph.h"
#include "reprise/stream.h"

/// \file
/// Types behind the handles of C, and structs whose size is the caller's.

/// A device is the device runtime's own object: there is one for each.
struct reprise_stream {
  std::optional<reprise::Stream> own;  ///< empty for a view
  reprise::StreamRef ref;
};

struct reprise_graph {
  reprise::CUDAGraph graph{};
  std::optional<reprise::StreamRef> begun_on;  ///< by reprise_graph_capture_begin(), until that capture is over
};

namespace reprise::c_api {

inline const reprise_device* handle_of(const Device& device) noexcept {
  return reinterpret_cast<const reprise_device*>(&device.backend());
}

inline Device device_of(const reprise_device* device) {
  require(device, "device");
  return Device(*reinterpret_cast<backend::Backend*>(const_cast<reprise_device*>(device)));
}

inline const StreamRef& ref_of(const reprise_stream* stream) {
  return required(stream, "stream").ref;
}

inline CUDAGraph& graph_of(reprise_graph* graph) {
  return required(graph, "graph").graph;
}

inline const CUDAGraph& graph_of(const reprise_graph* graph) {
  return required(graph, "graph").graph;
}

/// \throws UsageError unless `found` can be the size of a struct of any version, of which this one has `known` bytes.
void require_struct_size(std::size_t found, std::size_t known);
/// \throws UsageError unless the bytes from `known` to `found` are zero.
void require_known_members(const void* given, std::size_t known, std::size_t found);

/// Reads a struct of options: what the caller's struct lacks is zero. Null: all is.
/// \throws UsageError for a size that cannot be, or a member that this version does not have.
template <class T>
T read_options(const T* given) {
  T options{};
  if (given == nullptr) return options;
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  require_struct_size(size, sizeof(T));
  require_known_members(given, sizeof(T), size);
  std::memcpy(&options, given, size < sizeof(T) ? size : sizeof(T));
  return options;
}

/// Writes results as far as the caller's struct has members for them; members that this version does not have stay.
/// \throws UsageError for null, and a size that cannot be.
template <class T>
void write_results(T results, T* to) {
  require(to, "result");
  std::memcpy(&results.struct_size, to, sizeof results.struct_size);
  require_struct_size(results.struct_size, sizeof(T));
  std::memcpy(to, &results, results.struct_size < sizeof(T) ? results.struct_size : sizeof(T));
}

}  // namespace reprise::c_api
