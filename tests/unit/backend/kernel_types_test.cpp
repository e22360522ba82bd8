// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "reprise/kernel.h"

// What is a kernel, and which arguments one takes: decided by the compiler.

namespace reprise {
namespace {

struct ThreadKernel {
  REPRISE_KERNEL void operator()(Thread, float, int*) const {}
};
struct ThreadKernelByReference {
  REPRISE_KERNEL void operator()(const Thread&, int) const {}
};
struct BlockKernel {
  REPRISE_KERNEL void operator()(Block&, const double*, std::size_t) const {}
};
struct WithoutParameters {
  REPRISE_KERNEL void operator()(Thread) const {}
};
struct Pair {
  int first;
  double second;
};
struct OfAPair {
  REPRISE_KERNEL void operator()(Thread, Pair) const {}
};

struct WithData {
  int data = 0;
  REPRISE_KERNEL void operator()(Thread) const {}
};
struct WithoutCallOperator {};
struct WithTwoCallOperators {
  REPRISE_KERNEL void operator()(Thread) const {}
  REPRISE_KERNEL void operator()(Thread, int) const {}
};
struct WithTemplate {
  template <class T>
  REPRISE_KERNEL void operator()(Thread, T) const {}
};
class WithoutDefaultConstructor {
 public:
  explicit WithoutDefaultConstructor(int) {}
  REPRISE_KERNEL void operator()(Thread) const {}
};

template <class K, class... Args>
constexpr bool takes() {
  using Values = typename kernel_detail::KernelSignature<decltype(&K::operator())>::Values;
  return kernel_detail::Launcher<Values>::template takes<Args...>();
}
template <class K>
constexpr auto kind = kernel_detail::KernelSignature<decltype(&K::operator())>::kind;

TEST(KernelTypes, AreFunctionObjectsWithoutData) {
  static_assert(kernel_detail::Kernel<ThreadKernel>);
  static_assert(kernel_detail::Kernel<ThreadKernelByReference>);
  static_assert(kernel_detail::Kernel<BlockKernel>);
  static_assert(kernel_detail::Kernel<WithoutParameters>);
  static_assert(!kernel_detail::Kernel<WithData>, "a graph could not show or change the data");
  static_assert(!kernel_detail::Kernel<WithoutDefaultConstructor>, "it could not be constructed on the device");
}

TEST(KernelTypes, HaveOneCallOperatorThatIsNoTemplate) {
  static_assert(!kernel_detail::Kernel<WithoutCallOperator>);
  static_assert(!kernel_detail::Kernel<WithTwoCallOperators>);
  static_assert(!kernel_detail::Kernel<WithTemplate>);
}

TEST(KernelTypes, AreThreadOrBlockKernelsByTheFirstParameter) {
  static_assert(kind<ThreadKernel> == kernel_detail::KernelKind::thread);
  static_assert(kind<ThreadKernelByReference> == kernel_detail::KernelKind::thread);
  static_assert(kind<BlockKernel> == kernel_detail::KernelKind::block);
}

TEST(KernelTypes, TakeTheirParametersAndWhatConvertsToThem) {
  static_assert(takes<ThreadKernel, float, int*>());
  static_assert(takes<ThreadKernel, int, std::nullptr_t>(), "an int is a float, too");
  static_assert(takes<BlockKernel, double*, unsigned>(), "a pointer becomes one to const");
  static_assert(takes<WithoutParameters>());
  static_assert(takes<OfAPair, Pair>());
  static_assert(takes<OfAPair, const Pair&>());
}

struct NoexceptKernel {
  REPRISE_KERNEL void operator()(Thread, std::size_t* out) const noexcept { *out = 1; }
};

TEST(KernelTypes, MayBeNoexcept) {
  static_assert(takes<NoexceptKernel, std::size_t*>());
}

TEST(KernelTypes, RefuseAFractionForAnInteger) {
  struct Scale {
    void operator()(Thread, float, const float*, std::size_t) const {}
  };
  static_assert(takes<Scale, float, float*, std::size_t>());
  static_assert(!takes<Scale, std::size_t, float*, float>(), "most likely two arguments were swapped");
}

TEST(LaunchConfigCover, RoundsUpToWholeBlocks) {
  EXPECT_EQ(LaunchConfig::cover(0).grid, Dim3(1));
  EXPECT_EQ(LaunchConfig::cover(256).grid, Dim3(1));
  EXPECT_EQ(LaunchConfig::cover(257).grid, Dim3(2));
  EXPECT_EQ(LaunchConfig::cover(10, 3).grid, Dim3(4));
}

TEST(LaunchConfigCover, OfMoreThanAGridCanHaveIsRefusedByLaunch) {
  std::size_t* const out = nullptr;
  const auto launch_over = [&](std::size_t threads, unsigned block) {
    const Stream stream;
    launch(stream, LaunchConfig::cover(threads, block), NoexceptKernel{}, out);
  };
  EXPECT_THROW(launch_over((std::size_t{1} << 40) + 256, 256), UsageError);
  EXPECT_THROW(launch_over(std::size_t{1} << 41, 256), UsageError);
  EXPECT_THROW(launch_over(100, 0), BackendError);
}

TEST(KernelTypes, RefuseAnotherNumberOfArguments) {
  static_assert(!takes<ThreadKernel>());
  static_assert(!takes<ThreadKernel, float>());
  static_assert(!takes<ThreadKernel, float, int*, int>());
  static_assert(!takes<WithoutParameters, int>());
}

TEST(KernelTypes, RefuseArgumentsThatDoNotConvert) {
  static_assert(!takes<ThreadKernel, std::string, int*>());
  static_assert(!takes<ThreadKernel, int*, float>(), "swapped");
  static_assert(!takes<ThreadKernel, float, const int*>(), "const is not cast away");
  static_assert(!takes<ThreadKernel, float, float*>());
  static_assert(!takes<OfAPair, int>());
}

// A record's name belongs to the compiler, but it is the name that users wrote.
TEST(KernelTypes, HaveTheNameThatTheyWereWrittenWith) {
  EXPECT_NE(kernel_record<ThreadKernel>().name.find("ThreadKernel"), std::string::npos);
  EXPECT_NE(kernel_record<BlockKernel>().name.find("BlockKernel"), std::string::npos);
  EXPECT_EQ(kernel_record<BlockKernel>().name.find("kernels_"), std::string::npos) << kernel_record<BlockKernel>().name;
}

TEST(KernelTypes, HaveOneRecordEach) {
  EXPECT_EQ(&kernel_record<ThreadKernel>(), &kernel_record<ThreadKernel>());
  EXPECT_NE(&kernel_record<ThreadKernel>(), &kernel_record<BlockKernel>());
}

}  // namespace
}  // namespace reprise
