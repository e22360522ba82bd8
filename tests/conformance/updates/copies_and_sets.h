// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iterator>

#include "executable_changes.h"

// The rows of copies and sets. For measure_updates.cu.

namespace measure_updates {

inline long first_row = 0;
inline bool peer_access = false;
constexpr int marked = 77;  // what copies and sets leave

inline void measure(const Row& row) {
  if (row_number++ < first_row) return;
  line = row.node + "," + row.how + "," + row.before + "," + row.after + "," + (peer_access ? "1" : "0");
  cells_left = std::size(ways);
  for (const Way way : ways) {
    line += "," + cell(way, row);
    --cells_left;
    if (cuCtxSynchronize() != CUDA_SUCCESS) go_on_elsewhere();
  }
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

/// A graph of what `add` adds; null if that fails.
template <class Add>
CUgraph graph_of(const Add& add_node) {
  CUgraph graph = nullptr;
  REQUIRE(cuGraphCreate(&graph, 0));
  if (static_cast<int>(add_node(graph)) == 0) return graph;
  (void)cudaGetLastError();
  REQUIRE(cuGraphDestroy(graph));
  return nullptr;
}

/// What `submit` captures on a stream of the device; null if that fails.
template <class Submit>
CUgraph captured(int device, const Submit& submit) {
  use(device);
  REQUIRE(cuStreamBeginCapture(streams[device], CU_STREAM_CAPTURE_MODE_RELAXED));
  const int result = submit(streams[device]);
  CUgraph graph = nullptr;
  const CUresult ended = cuStreamEndCapture(streams[device], &graph);
  use(0);
  (void)cudaGetLastError();
  return result == 0 && ended == CUDA_SUCCESS ? graph : nullptr;
}

inline Check leaves_mark(const Place& to) {
  return {[=] { fill(to, 1); }, [=] { return first_byte(to) == marked; }};
}

inline Check copies_mark(const Place& to, const Place& from) {
  return {[=] {
            fill(to, 1);
            fill(from, marked);
          },
          [=] { return first_byte(to) == marked; }};
}

// --- copies -------------------------------------------------------------------------------------------------------

inline CUDA_MEMCPY3D copy_params(const Place& to, const Place& from, std::size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = from.at;
  copy.dstDevice = to.at;
  copy.srcHost = from.pointer();
  copy.dstHost = to.pointer();
  copy.srcPitch = copy.dstPitch = bytes;
  copy.srcHeight = copy.dstHeight = copy.Height = copy.Depth = 1;
  copy.WidthInBytes = bytes;
  return copy;
}

inline CUgraph with_copy(const CUDA_MEMCPY3D& copy) {
  return graph_of([&](CUgraph graph) {
    CUgraphNode node = nullptr;
    return cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, contexts[0]);
  });
}

/// added: a node with memory type UNIFIED; unified: captured, likewise, as by cudaMemcpyDefault; typed: captured with
/// DEVICE or HOST, as by the other kinds of cudaMemcpyAsync.
constexpr const char* ways_to_make[] = {"added", "unified", "typed"};

inline CUgraph copy_graph(const std::string& how, const Place& to, const Place& from, int device = 0) {
  if (how == "added") return with_copy(copy_params(to, from, used_bytes));
  return captured(device, [&](CUstream stream) {
    if (how == "unified" || (to.on_host && from.on_host)) return cuMemcpyAsync(to.at, from.at, used_bytes, stream);
    if (to.on_host) return cuMemcpyDtoHAsync(to.pointer(), from.at, used_bytes, stream);
    if (from.on_host) return cuMemcpyHtoDAsync(to.at, from.pointer(), used_bytes, stream);
    return cuMemcpyDtoDAsync(to.at, from.at, used_bytes, stream);
  });
}

struct Ends {
  Place to, from;
  int device = 0;  // whose stream is captured
  std::string text() const { return to.name + "<-" + from.name + (device == 1 ? "@1" : ""); }
};

inline void copy(const char* how, const Ends& before, const Ends& after) {
  measure({"memcpy", how, before.text(), after.text(),
           [&] { return copy_graph(how, before.to, before.from, before.device); },
           [&] { return copy_graph(how, after.to, after.from, after.device); }, copies_mark(after.to, after.from)});
}

inline void copies(const char* how) {
  const Place& device = place("device");
  const Place target = place("device_other").part("device_target", 1 << 20);
  const Place on_host = place("pinned").part("pinned_target", 2048);
  for (const Place& before : places)
    for (const Place& after : places) {
      copy(how, {target, before}, {target, after});
      copy(how, {before, target}, {after, target});
      if (before.on_host && after.on_host) copy(how, {on_host, before}, {on_host, after});
    }
  copy(how, {device, place("device_part")}, {place("vmm"), place("pool")});
  copy(how, {device, place("pinned")}, {place("vmm"), place("pinned_other")});
  copy(how, {device, place("pinned")}, {place("pinned_other"), place("device_part")});
  copy(how, {device, place("device_part")}, {place("pinned_other"), place("pinned")});
  if (devices < 2 || std::strcmp(how, "added") == 0) return;
  const Place &peer = place("peer"), part = peer.part("peer_part", 2048);
  copy(how, {device, place("device_part")}, {peer, part});
  copy(how, {peer, part, 1}, {part, peer, 1});
  copy(how, {peer, part, 1}, {part, peer, 0});
  copy(how, {peer, part, 0}, {part, peer, 1});
  copy(how, {peer, part, 1}, {device, place("device_part"), 1});
  copy(how, {peer, device, 1}, {device, peer, 1});
  copy(how, {peer, place("pinned"), 1}, {part, place("peer_pinned"), 1});
}

inline void copies_from_freed(const char* how) {
  const Place& target = place("device");
  for (const std::string kind : {"device", "pool", "pinned", "registered"})
    for (const char* const after : {"device_other", "vmm", "pinned_other", "pageable"}) {
      Place before{"freed_" + kind, 0, kind == "pinned" || kind == "registered"};
      const auto allocate = [&] {
        before.at = kind == "device"   ? device_memory(4 << 20)
                    : kind == "pool"   ? pool_memory(0)
                    : kind == "pinned" ? pinned_memory(0)
                                       : pageable_memory();
        if (kind == "registered") REQUIRE(cuMemHostRegister(before.pointer(), bytes_of_place, 0));
        return copy_graph(how, target, before);
      };
      const auto release = [&] {
        if (kind == "device") REQUIRE(cuMemFree(before.at));
        if (kind == "pool") REQUIRE(cuMemFreeAsync(before.at, streams[0]));
        if (kind == "pinned") REQUIRE(cuMemFreeHost(before.pointer()));
        if (kind == "registered") REQUIRE(cuMemHostUnregister(before.pointer()));
        REQUIRE(cuStreamSynchronize(streams[0]));
      };
      measure({"memcpy", how, target.name + "<-" + before.name, target.name + "<-" + after, allocate,
               [&] { return copy_graph(how, target, place(after)); }, copies_mark(target, place(after)), release});
    }
}

struct Shape {
  const char* name;
  std::size_t width, height, pitch;
  unsigned depth_or_element;
};

inline void copies_of_other_shapes() {
  const Shape shapes[] = {{"4 bytes", 4, 1, 4, 1},
                          {"256 bytes", 256, 1, 256, 1},
                          {"4 rows of 16 of 32", 16, 4, 32, 1},
                          {"4 rows of 16 of 64", 16, 4, 64, 1},
                          {"8 rows of 16 of 32", 16, 8, 32, 1},
                          {"4 rows of 16", 16, 4, 16, 1},
                          {"2 slices of 4 rows of 16 of 32", 16, 4, 32, 2}};
  const auto params = [](const Shape& shape, const Place& to, const Place& from) {
    CUDA_MEMCPY3D copy = copy_params(to, from, shape.width);
    copy.Height = copy.srcHeight = copy.dstHeight = shape.height;
    copy.Depth = shape.depth_or_element;
    copy.srcPitch = copy.dstPitch = shape.pitch;
    return copy;
  };
  const Ends ends[] = {{place("device_other"), place("device")}, {place("device"), place("pinned")}};
  for (const Ends& before : ends)
    for (const bool moves : {false, true}) {
      const Ends after = moves ? Ends{before.to.part("elsewhere", 1024), before.from.part("elsewhere", 1024)} : before;
      for (const Shape& first : shapes)
        for (const Shape& second : shapes)
          measure({"memcpy", "added", before.text() + " " + first.name, after.text() + " " + second.name,
                   [&] { return with_copy(params(first, before.to, before.from)); },
                   [&] { return with_copy(params(second, after.to, after.from)); }, copies_mark(after.to, after.from)});
    }
}

inline void copies_of_other_memory_types() {
  const CUmemorytype types[] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_UNIFIED};
  const char* const names[] = {"DEVICE", "UNIFIED"};
  const Place &to = place("device_other"), &from = place("device");
  const auto params = [&](int of_to, int of_from) {
    CUDA_MEMCPY3D copy = copy_params(to, from, used_bytes);
    copy.dstMemoryType = types[of_to];
    copy.srcMemoryType = types[of_from];
    return copy;
  };
  const auto text = [&](int of_to, int of_from) { return std::string(names[of_to]) + "<-" + names[of_from]; };
  for (int before = 0; before < 4; ++before)
    for (int after = 0; after < 4; ++after)
      measure({"memcpy", "added", text(before / 2, before % 2), text(after / 2, after % 2),
               [&] { return with_copy(params(before / 2, before % 2)); },
               [&] { return with_copy(params(after / 2, after % 2)); }, copies_mark(to, from)});
}

// --- sets ---------------------------------------------------------------------------------------------------------

inline CUgraph with_set(const Place& to, const Shape& shape, int value, int context = 0) {
  return graph_of([&](CUgraph graph) {
    CUDA_MEMSET_NODE_PARAMS params{};
    params.dst = to.at;
    params.value = static_cast<unsigned>(value);
    params.elementSize = shape.depth_or_element;
    params.width = shape.width;
    params.height = shape.height;
    params.pitch = shape.height > 1 ? shape.pitch : 0;
    CUgraphNode node = nullptr;
    return cuGraphAddMemsetNode(&node, graph, nullptr, 0, &params, contexts[context]);
  });
}

constexpr Shape all_bytes{"256 x 1", used_bytes, 1, 0, 1};

inline void sets() {
  for (const Place& before : places)
    for (const Place& after : places)
      for (int contexts_used = 0; contexts_used < devices * devices; ++contexts_used) {
        const int first = contexts_used / devices, second = contexts_used % devices;
        measure({"memset", "added", before.name + (first == 1 ? "@1" : ""), after.name + (second == 1 ? "@1" : ""),
                 [&] { return with_set(before, all_bytes, 3, first); },
                 [&] { return with_set(after, all_bytes, marked, second); }, leaves_mark(after)});
      }
  const Shape shapes[] = {{"1 x 4", 1, 1, 0, 4},
                          {"64 x 4", 64, 1, 0, 4},
                          {"64 x 2", 64, 1, 0, 2},
                          all_bytes,
                          {"4 rows of 16 of 32", 16, 4, 32, 1},
                          {"4 rows of 16 of 64", 16, 4, 64, 1},
                          {"8 rows of 16 of 32", 16, 8, 32, 1},
                          {"4 rows of 16", 16, 4, 16, 1}};
  const Place &device = place("device"), part = place("device_part");
  for (const Shape& before : shapes)
    for (const Shape& after : shapes)
      measure({"memset", "added", device.name + " " + before.name, part.name + " " + after.name,
               [&] { return with_set(device, before, 3); }, [&] { return with_set(part, after, marked); },
               leaves_mark(part)});
}

}  // namespace measure_updates
