// SPDX-License-Identifier: Apache-2.0
// Measures what CUDA changes in executable graphs: docs/changing-graphs.md is written by it, and graph_updates_test.cpp
// compares the host device with it.
//
//   nvcc -std=c++20 -arch=native -o measure_updates tests/conformance/updates/measure_updates.cu -lcuda
//   for peer in 0 1; do next=0; while ./measure_updates $peer $next >>updates.csv; [ $? -eq 3 ]; do
//     next=$(sed -n 's/^# next: //p' updates.csv | tail -n 1); done; done
//   { grep '^# [0-9]' updates.csv; grep '^node,' updates.csv | head -n 1; grep -v '^node,' updates.csv |
//     grep -E '^([^,]*,){9}[^,]*$' | grep -v ',none,none,'; } >graph_updates_h200.csv
//
// recorder_test.cpp says how the file gets into data/measured_h200.tar.gz. The first argument says whether two
// devices have access to each other's memory, the second one where to begin: after a launch that spoils the context,
// or a crash of the driver, a new process has to go on, and the rest of that row is missing.
//
// A row has a node type, how the node was made, what changes, and a field for each way to change it: CUDA's code, for
// an update that is refused also the reason (910/5), and how the launch after it went: + with the right values, ! with
// wrong ones, = nothing to compare, E and its code. -: there is no such way, or it was not measured; crash: of the
// driver; none: the graph cannot be made; i and t with a code: an instantiation or the change of the template was
// refused.

#include "copies_and_sets.h"

__device__ unsigned char variable[measure_updates::bytes_of_place];
__global__ void store(int* to, int value) {
  *to = value;
}
__global__ void add(int* to, int value) {
  *to += value;
}
__global__ void store_with_more(int* to, int value, double) {
  *to = value;
}

namespace measure_updates {
namespace {

// --- kernels ------------------------------------------------------------------------------------------------------

struct Launch {
  const char* name;
  const void* kernel;
  Place to;
  unsigned grid = 1, block = 1, shared = 0, cluster = 0;
  bool cooperative = false;
};

CUgraph with_kernel(const Launch& launch) {
  use(launch.to.device);
  cudaFunction_t function = nullptr;
  REQUIRE(cudaGetFuncBySymbol(&function, launch.kernel));
  use(0);
  return graph_of([&](CUgraph graph) {
    CUdeviceptr to = launch.to.at;
    int value = marked;
    double more = 0;
    void* arguments[] = {&to, &value, &more};
    CUDA_KERNEL_NODE_PARAMS params{};
    params.func = function;
    params.gridDimX = launch.grid;
    params.blockDimX = launch.block;
    params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
    params.sharedMemBytes = launch.shared;
    params.kernelParams = arguments;
    CUgraphNode node = nullptr;
    CUresult result = cuGraphAddKernelNode(&node, graph, nullptr, 0, &params);
    CUlaunchAttributeValue attribute{};
    if (launch.cluster != 0) {
      attribute.clusterDim = {launch.cluster, 1, 1};
      result = cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &attribute);
    }
    if (launch.cooperative) {
      attribute = {};
      attribute.cooperative = 1;
      result = cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &attribute);
    }
    return result;
  });
}

void kernels() {
  const void* const of_store = reinterpret_cast<const void*>(&store);
  const Place& device = place("device");
  std::vector<Launch> launches = {{"store", of_store, device},
                                  {"store elsewhere", of_store, place("vmm")},
                                  {"add", reinterpret_cast<const void*>(&add), device},
                                  {"store_with_more", reinterpret_cast<const void*>(&store_with_more), device},
                                  {"grid 8", of_store, device, 8},
                                  {"block 64", of_store, device, 1, 64},
                                  {"shared 1024", of_store, device, 1, 1, 1024},
                                  {"cluster 2", of_store, device, 4, 1, 0, 2},
                                  {"cluster 4", of_store, device, 4, 1, 0, 4},
                                  {"cooperative", of_store, device, 1, 1, 0, 0, true}};
  if (devices == 2) launches.push_back({"store on the peer", of_store, place("peer")});
  for (const Launch& before : launches)
    for (const Launch& after : launches)
      measure({"kernel",
               "added",
               before.name,
               after.name,
               [&] { return with_kernel(before); },
               [&] { return with_kernel(after); },
               {[&] { fill(after.to, 0); }, [&] { return first_byte(after.to) == marked; }}});
}

// --- the rest -----------------------------------------------------------------------------------------------------

int host_calls[2];

void host_functions() {
  static int one = 1, two = 2;
  const CUhostFn first = [](void* data) { host_calls[0] += *static_cast<int*>(data); };
  const CUhostFn second = [](void* data) { host_calls[1] += *static_cast<int*>(data); };
  const auto graph = [](CUhostFn function, int* data) {
    return graph_of([&](CUgraph made) {
      CUgraphNode node = nullptr;
      const CUDA_HOST_NODE_PARAMS params{function, data};
      return cuGraphAddHostNode(&node, made, nullptr, 0, &params);
    });
  };
  const Check check{[] { host_calls[0] = host_calls[1] = 0; }, [] { return host_calls[0] == 0 && host_calls[1] == 2; }};
  measure({"host", "added", "function", "another function", [&] { return graph(first, &one); },
           [&] { return graph(second, &two); }, check});
  measure({"host", "added", "data", "other data", [&] { return graph(second, &one); },
           [&] { return graph(second, &two); }, check});
}

void events() {
  CUevent made[3] = {};
  const char* const names[] = {"timed", "untimed", "of the peer"};
  REQUIRE(cuEventCreate(&made[0], 0));
  REQUIRE(cuEventCreate(&made[1], CU_EVENT_DISABLE_TIMING));
  if (devices == 2) {
    use(1);
    REQUIRE(cuEventCreate(&made[2], 0));
    use(0);
  }
  const auto graph = [](bool records, CUevent event) {
    return graph_of([&](CUgraph of_node) {
      CUgraphNode node = nullptr;
      return records ? cuGraphAddEventRecordNode(&node, of_node, nullptr, 0, event)
                     : cuGraphAddEventWaitNode(&node, of_node, nullptr, 0, event);
    });
  };
  for (const bool records : {true, false})
    for (int before = 0; before < 1 + devices; ++before)
      for (int after = 0; after < 1 + devices; ++after)
        measure({records ? "event_record" : "event_wait", "added", names[before], names[after],
                 [&] { return graph(records, made[before]); }, [&] { return graph(records, made[after]); }});
}

CUgraph empty_nodes(int count, bool in_a_row = false) {
  return graph_of([&](CUgraph graph) {
    CUgraphNode last = nullptr;
    for (int i = 0; i < count; ++i) {
      CUgraphNode node = nullptr;
      const std::size_t dependencies = in_a_row && last != nullptr ? 1 : 0;
      REQUIRE(cuGraphAddEmptyNode(&node, graph, &last, dependencies));
      last = node;
    }
    return CUDA_SUCCESS;
  });
}

void shapes_of_graphs() {
  measure({"empty", "added", "one", "one", [] { return empty_nodes(1); }, [] { return empty_nodes(1); }});
  measure({"empty", "added", "one", "two", [] { return empty_nodes(1); }, [] { return empty_nodes(2); }});
  measure(
      {"empty", "added", "two", "two in a row", [] { return empty_nodes(2); }, [] { return empty_nodes(2, true); }});
  measure({"empty", "added", "one", "a set", [] { return empty_nodes(1); },
           [] { return with_set(place("device"), all_bytes, marked); }});
}

/// Takes the graph.
CUgraph child_of(CUgraph child) {
  CUgraph const parent = graph_of([&](CUgraph graph) {
    CUgraphNode node = nullptr;
    return cuGraphAddChildGraphNode(&node, graph, nullptr, 0, child);
  });
  REQUIRE(cuGraphDestroy(child));
  return parent;
}

void children() {
  const Place &device = place("device"), &vmm = place("vmm");
  const auto of_set = [](const Place& to) { return child_of(with_set(to, all_bytes, marked)); };
  const auto of_copy = [&](const char* how, const char* from) { return child_of(copy_graph(how, vmm, place(from))); };
  measure({"child", "added", "memset device", "memset vmm", [&] { return of_set(device); }, [&] { return of_set(vmm); },
           leaves_mark(vmm)});
  for (const char* const how : ways_to_make)
    for (const std::string after : {"device_other", "pinned", "peer"}) {
      if (devices < 2 && after == "peer") continue;
      measure({"child", how, "memcpy vmm<-device", "memcpy vmm<-" + after, [&] { return of_copy(how, "device"); },
               [&] { return of_copy(how, after.c_str()); }, copies_mark(vmm, place(after))});
    }
  measure({"child", "added", "memset vmm", "memcpy vmm<-device", [&] { return of_set(vmm); },
           [&] { return of_copy("added", "device"); }});
  measure({"child", "added", "one node", "two nodes", [] { return child_of(empty_nodes(1)); },
           [] { return child_of(empty_nodes(2)); }});
  measure({"child", "added", "no node", "one node", [] { return child_of(empty_nodes(0)); },
           [] { return child_of(empty_nodes(1)); }});
}

/// A conditional node whose first body has sets of the place.
CUgraph with_condition(CUgraphConditionalNodeType type, unsigned bodies, unsigned initial, int sets, const Place& to) {
  return graph_of([&](CUgraph graph) {
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.type = type;
    params.conditional.size = bodies;
    params.conditional.ctx = contexts[0];
    REQUIRE(cuGraphConditionalHandleCreate(&params.conditional.handle, graph, contexts[0], initial,
                                           CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNode node = nullptr;
    const CUresult result = cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params);
    if (result != CUDA_SUCCESS) return result;
    CUDA_MEMSET_NODE_PARAMS set{};
    set.dst = to.at;
    set.value = marked;
    set.elementSize = 1;
    set.width = used_bytes;
    set.height = 1;
    for (int i = 0; i < sets; ++i) {
      CUgraphNode inner = nullptr;
      REQUIRE(cuGraphAddMemsetNode(&inner, params.conditional.phGraph_out[0], nullptr, 0, &set, contexts[0]));
    }
    return CUDA_SUCCESS;
  });
}

void conditions() {
  constexpr CUgraphConditionalNodeType if_ = CU_GRAPH_COND_TYPE_IF, switch_ = CU_GRAPH_COND_TYPE_SWITCH;
  const Place &device = place("device"), &vmm = place("vmm");
  const auto condition = [&](const char* before, const char* after, CUgraph (*from)(const Place&),
                             CUgraph (*to)(const Place&)) {
    measure({"conditional", "added", before, after, [=, &device] { return from(device); },
             [=, &vmm] { return to(vmm); }, leaves_mark(vmm)});
  };
  const auto plain = [](const Place& to) { return with_condition(if_, 1, 1, 1, to); };
  condition("a set", "a set elsewhere", plain, plain);
  condition(
      "initially 0", "initially 1", [](const Place& to) { return with_condition(if_, 1, 0, 1, to); }, plain);
  condition("a set", "two sets", plain, [](const Place& to) { return with_condition(if_, 1, 1, 2, to); });
  condition("if", "while", plain,
            [](const Place& to) { return with_condition(CU_GRAPH_COND_TYPE_WHILE, 1, 0, 1, to); });
  condition("if", "if and else", plain, [](const Place& to) { return with_condition(if_, 2, 1, 1, to); });
  condition(
      "switch of 2", "switch of 3", [](const Place& to) { return with_condition(switch_, 2, 0, 1, to); },
      [](const Place& to) { return with_condition(switch_, 3, 0, 1, to); });
}

void allocations() {
  const auto graph = [](std::size_t bytes, bool frees) {
    return graph_of([&](CUgraph made) {
      CUDA_MEM_ALLOC_NODE_PARAMS params{};
      params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
      params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      params.bytesize = bytes;
      CUgraphNode node = nullptr, free_node = nullptr;
      const CUresult result = cuGraphAddMemAllocNode(&node, made, nullptr, 0, &params);
      return result != CUDA_SUCCESS || !frees ? result : cuGraphAddMemFreeNode(&free_node, made, &node, 1, params.dptr);
    });
  };
  constexpr std::size_t sizes[] = {1 << 20, 4 << 20};
  for (const bool frees : {true, false})
    for (const std::size_t before : sizes)
      for (const std::size_t after : sizes)
        measure({frees ? "mem_alloc and mem_free" : "mem_alloc", "added", std::to_string(before) + " bytes",
                 std::to_string(after) + " bytes", [&] { return graph(before, frees); },
                 [&] { return graph(after, frees); }});
}

}  // namespace

int run(int count, char** arguments) {
  peer_access = count > 1 && std::atoi(arguments[1]) != 0;
  first_row = count > 2 ? std::atol(arguments[2]) : 0;
  std::signal(SIGSEGV, crashed);
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGetCount(&devices));
  devices = devices < 2 ? devices : 2;
  if (peer_access && devices < 2) return 0;
  make_places(variable, peer_access);
  if (first_row == 0) {
    char name[128] = {};
    int version = 0;
    REQUIRE(cuDeviceGetName(name, sizeof name, 0));
    REQUIRE(cuDriverGetVersion(&version));
    if (!peer_access)
      std::printf("# %d x %s, a driver for CUDA %d.%d\n", devices, name, version / 1000, version % 1000 / 10);
    std::printf("node,how,before,after,peer_access,%s\n", ways_header);
  }
  for (const char* const how : ways_to_make) copies(how);
  sets();
  host_functions();
  events();
  shapes_of_graphs();
  children();
  conditions();
  allocations();
  kernels();
  copies_of_other_shapes();
  copies_of_other_memory_types();
  for (const char* const how : ways_to_make) copies_from_freed(how);
  std::printf("# the end\n");
  return 0;
}

}  // namespace measure_updates

int main(int count, char** arguments) {
  return measure_updates::run(count, arguments);
}
