// SPDX-License-Identifier: Apache-2.0
#include "backend/rules/cuda_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "backend/call.h"

namespace reprise::backend {
namespace {

std::string runtime_name_of(std::string_view name) {
  const CudaCall* const call = find_cuda_call(name);
  return call != nullptr ? std::string(call->runtime) : "none";
}

TEST(CudaCalls, AreFoundByTheNameInTheDriverAndInTheRuntime) {
  EXPECT_EQ(class_of(std::string_view("cuMemAllocManaged")), CallClass::potentially_unsafe);
  EXPECT_EQ(find_cuda_call("cudaMallocManaged"), find_cuda_call("cuMemAllocManaged"));
  EXPECT_EQ(class_of(std::string_view("cudaMemcpyToSymbolAsync")), CallClass::stream_work);
}

TEST(CudaCalls, AreFoundWithAVersionAndADefaultStreamInTheName) {
  EXPECT_EQ(runtime_name_of("cuMemAlloc_v2"), "cudaMalloc");
  EXPECT_EQ(runtime_name_of("cudaMalloc_v3020"), "cudaMalloc");
  EXPECT_EQ(runtime_name_of("cuMemcpyAsync_ptsz"), "cudaMemcpyAsync");
  EXPECT_EQ(runtime_name_of("cuMemcpyDtoHAsync_v2_ptsz"), "");
  EXPECT_EQ(runtime_name_of("cudaLaunchKernel_ptsz_v7000"), "cudaLaunchKernel");
}

TEST(CudaCalls, AreNotFoundByAnotherName) {
  for (const char* name : {"", "cu", "_v2", "cuMemAllo", "cuMemAlloc_v", "cuMemAlloc_vx", "cuMemAllocX"})
    EXPECT_EQ(find_cuda_call(name), nullptr) << name;
  EXPECT_FALSE(class_of(std::string_view("cuSomethingElse")));
}

TEST(CudaCalls, AreOfTheClassThatTheCallOfTheInterfaceHas) {
  for (std::size_t i = 0; i < call_count; ++i) {
    const Call call = static_cast<Call>(i);
    const CudaCall* const found = find_cuda_call(cuda_name(call));
    const CallClass expected = found != nullptr ? found->call_class : CallClass::always_allowed;
    EXPECT_EQ(class_of(call), expected) << cuda_name(call);
  }
}

TEST(CudaCalls, HaveEachNameOnceAndAreSorted) {
  std::set<std::string_view> names;
  for (const CudaCall& call : cuda_calls()) {
    EXPECT_TRUE(call.driver.empty() || names.insert(call.driver).second) << call.driver;
    EXPECT_TRUE(call.runtime.empty() || names.insert(call.runtime).second) << call.runtime;
    EXPECT_FALSE(call.driver.empty() && call.runtime.empty());
  }
  const auto before = [](const CudaCall& a, const CudaCall& b) {
    if (a.call_class != b.call_class) return a.call_class < b.call_class;
    if (a.driver.empty() != b.driver.empty()) return b.driver.empty();
    return a.driver.empty() ? a.runtime < b.runtime : a.driver < b.driver;
  };
  EXPECT_TRUE(std::is_sorted(cuda_calls().begin(), cuda_calls().end(), before));
}

}  // namespace
}  // namespace reprise::backend
