// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>

#include "backend/cuda/cupti/cupti_api.h"
#include "tests/cuda_libraries/cuda_test.h"

// The ids of annotated nodes, beside those in CUPTI's own records of replays.

namespace reprise::test {

__global__ void first_of_two(int* x) {
  *x += 1;
}
__global__ void second_of_two(int* x) {
  *x *= 2;
}

namespace {

using backend::cuda::CuptiApi;

/// Collects the records of kernels, as a profiler in the process.
class KernelTrace {
 public:
  /// By a part of the kernel's name.
  static std::uint64_t id_of(const std::string& name) {
    const std::lock_guard lock(mutex);
    for (const auto& [kernel, id] : ids)
      if (kernel.find(name) != std::string::npos) return id;
    return 0;
  }
  static void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* records) {
    *bytes = std::size_t{1} << 20U;
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *bytes));
    *records = 0;
  }
  static void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
    CUpti_Activity* record = nullptr;
    while (api.next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
      if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
      const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel9*>(record);
      const std::lock_guard lock(mutex);
      ids[kernel.name] = kernel.graphNodeId;
    }
    std::free(buffer);
  }

  static inline CuptiApi api;
  static inline std::mutex mutex;
  static inline std::unordered_map<std::string, std::uint64_t> ids;
};

class ProfilerIdsOnCuda : public CudaTest {};

TEST_F(ProfilerIdsOnCuda, AreThoseOfTheRecordsOfReplays) {
  const backend::cuda::OpenedCupti cupti = backend::cuda::opened_cupti();
  ASSERT_EQ(cupti.unavailable, "");
  KernelTrace::api = cupti.api;
  ASSERT_EQ(cupti.api.register_buffers(&KernelTrace::give_buffer, &KernelTrace::take_buffer), CUPTI_SUCCESS);
  const CUptiResult enabled = cupti.api.enable_activity(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (enabled != CUPTI_SUCCESS) GTEST_SKIP() << "CUPTI is in use, perhaps by a sanitizer: " << enabled;

  Buffer<int> x(1);
  x.write(std::vector{1});
  CUDAGraph graph;
  capture(graph, {.enable_annotations = true}, [&] {
    const cudaStream_t on = current_stream().native();
    {
      const annotate scope("first");
      first_of_two<<<1, 1, 0, on>>>(x.data());
    }
    const annotate scope("second");
    second_of_two<<<1, 1, 0, on>>>(x.data());
  });
  graph.replay();
  EXPECT_EQ(x.read(), std::vector{4});
  ASSERT_EQ(cupti.api.flush_activities(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), CUPTI_SUCCESS);
  ASSERT_EQ(cupti.api.disable_activity(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), CUPTI_SUCCESS);

  const std::vector<AnnotatedNode> nodes = graph.annotations();
  ASSERT_EQ(nodes.size(), 2U);
  for (const AnnotatedNode& node : nodes) {
    const std::string& name = node.annotation.at("name");
    ASSERT_TRUE(node.profiler_id.has_value()) << node.no_profiler_id;
    EXPECT_EQ(*node.profiler_id, KernelTrace::id_of(name + "_of_two")) << name;
    std::printf("%s: the node's id and that of CUPTI's record are %#llx\n", name.c_str(),
                static_cast<unsigned long long>(*node.profiler_id));
  }
}

}  // namespace
}  // namespace reprise::test
