// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// CUDAGraph::node(): the node of a graph that has a name.

namespace reprise::graphs::test {
namespace {

/// Stores a value.
template <class T>
struct StoreNamed {
  REPRISE_KERNEL void operator()(Thread, char offset, T value, T* to) const { to[static_cast<int>(offset)] = value; }
};

/// A device on which kernels have the symbols of overloads, as other code on CUDA launches them.
class Overloads : public backend::test::FaultyBackend {
 public:
  using FaultyBackend::FaultyBackend;
  backend::Result function_name(FunctionHandle function, const char** name) override {
    backend::Result result = FaultyBackend::function_name(function, name);
    const std::string_view symbol = *name;
    if (symbol.ends_with("Add")) *name = "_ZN2ns1fEi";                        // ns::f(int)
    if (symbol.ends_with("Multiply")) *name = "_ZN2ns1fEf";                   // ns::f(float)
    if (symbol.ends_with("StoreNamed<int>")) *name = "_ZN2ns1fILi3EEEvi";     // ns::f<3>(int)
    if (symbol.ends_with("StoreNamed<float>")) *name = "_ZN5other1fEPFvifE";  // other::f(void (*)(int, float))
    return result;
  }
};

/// Has a pointer to a function as its parameter.
template <int N>
struct Apply {
  REPRISE_KERNEL void operator()(Thread, int (*)(int), int* to) const { *to = N; }
};

TEST(NodesByName, AreFoundByNumberWithoutALookAtOtherNodes) {
  static auto& counting = *new backend::test::FaultyBackend(default_device().backend());
  const DeviceGuard guard{Device(counting)};
  const SideStream side;
  Buffer<int> x = zeros();
  const CUDAGraph child = capture([&] { add(x), add(x, 2); });
  const CUDAGraph graph = capture({.enable_annotations = true}, [&] {
    for (int i = 0; i < 100; ++i) add(x, i);
    add_child(child);
    const annotate scope("3");
    add(x, -1);
  });
  counting.forget_calls();
  const GraphNode last = graph.node("99"), inner = graph.node("100.1");
  EXPECT_LE(counting.calls(), 12);
  EXPECT_EQ(last.index(), 99U);
  EXPECT_EQ(last.arg<int>(1), 99);
  EXPECT_EQ(inner.number(), "100.1");
  EXPECT_EQ(inner.arg<int>(1), 2);
  EXPECT_EQ(graph.node("3").index(), 101U) << "a name comes before a number";
  for (const char* const none :
       {"102", "100.2", "99.0", "100.1.0", "099", "1.", ".1", "-1", "100.", "4294967296000000000000"})
    EXPECT_THROW((void)graph.node(none), UsageError) << none;
}

TEST(NodesByName, AreFoundByNameWithOrWithoutNamespaceAndArguments) {
  const SideStream side;
  Buffer<int> x = zeros();
  Buffer<float> f(1);
  CUDAGraph graph;
  capture(graph, {.enable_annotations = true}, [&] {
    launch(LaunchConfig{}, StoreNamed<float>{}, char{0}, 1.5F, f.data());
    const annotate scope("the sum");
    add(x);
  });
  const std::string full = graph.nodes()[0].name();
  EXPECT_TRUE(contains(full, "StoreNamed<float>"));
  for (const std::string& name : {full, std::string("StoreNamed<float>"), std::string("StoreNamed")})
    EXPECT_EQ(graph.node(name).index(), 0U) << name;
  EXPECT_EQ(graph.node("the sum").index(), 1U);
  EXPECT_EQ(graph.node("Add").index(), 1U);
  EXPECT_EQ(graph.node("reprise::graphs::test::Add").index(), 1U);
}

TEST(NodesByName, ANameOfSeveralNodesOrOfNoneIsRefusedWithTheNodes) {
  const SideStream side;
  Buffer<int> x = zeros(), y = zeros();
  CUDAGraph graph;
  capture(graph, {.enable_annotations = true}, [&] {
    const annotate scope("both");
    add(x);
    add(y);
  });
  for (const char* name : {"Add", "both"}) {
    const std::string text = text_of<UsageError>([&] { (void)graph.node(name); });
    EXPECT_TRUE(contains(text, "2 nodes have: kernel reprise::graphs::test::Add (node 0) in both; kernel"));
    EXPECT_TRUE(contains(text, "(node 1)"));
  }
  for (const char* name : {"Multiply", "", "Ad", "Add "}) {
    const std::string text = text_of<UsageError>([&] { (void)graph.node(name); });
    EXPECT_TRUE(contains(text, "no node has")) << name;
    EXPECT_TRUE(contains(text, "(node 1) in both"));
  }
}

TEST(NodesByName, OverloadsAreFoundByThePartsOfTheirNames) {
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "nvcc gives kernels of launch() other symbols";
  static auto& backend = *new Overloads(default_device().backend());
  const Device device(backend);
  const DeviceGuard guard(device);
  const SideStream side;
  Buffer<int> x = zeros();
  Buffer<float> y(1);
  const CUDAGraph graph = capture([&] {
    add(x);
    multiply(x, 2, x);
    launch(LaunchConfig{}, StoreNamed<int>{}, char{0}, 1, x.data());
    launch(LaunchConfig{}, StoreNamed<float>{}, char{0}, 1.0F, y.data());
  });
  const std::pair<const char*, std::size_t> names[] = {
      {"f(float)", 1}, {"ns::f(float)", 1}, {"f<3>", 2},     {"ns::f<3>(int)", 2},
      {"other::f", 3}, {"f<3>(int)", 2},    {"ns::f<3>", 2}, {"f(void (*)(int, float))", 3},
  };
  for (const auto& [name, index] : names) EXPECT_EQ(graph.node(name).index(), index) << name;
  const std::string both = text_of<UsageError>([&] { (void)graph.node("f(int)"); });
  EXPECT_TRUE(
      contains(both, "2 nodes have: kernel ns::f (node 0); kernel ns::f<3> (node 2). Name the kernel with its "));
  const std::string all = text_of<UsageError>([&] { (void)graph.node("f"); });
  EXPECT_TRUE(contains(all,
                       "4 nodes have: kernel ns::f (node 0); kernel ns::f (node 1); kernel ns::f<3> "
                       "(node 2); kernel other::f (node 3). Name the kernel with its "));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)graph.node("f(double)"); }), "no node has"));
}

TEST(NodesByName, TemplatesAreFoundByTheirArguments) {
  const SideStream side;
  Buffer<int> x = zeros();
  int (*const none)(int) = nullptr;
  const CUDAGraph graph = capture([&] {
    launch(LaunchConfig{}, Apply<3>{}, none, x.data());
    launch(LaunchConfig{}, Apply<4>{}, none, x.data());
    launch(LaunchConfig{}, StoreNamed<int>{}, char{0}, 1, x.data());
  });
  EXPECT_EQ(graph.node("Apply<3>").index(), 0U);
  EXPECT_EQ(graph.node("Apply<4>").index(), 1U);
  EXPECT_EQ(graph.node("StoreNamed").index(), 2U);
  const std::string text = text_of<UsageError>([&] { (void)graph.node("Apply"); });
  EXPECT_TRUE(contains(text, "Apply<3> (node 0); kernel "));
  EXPECT_TRUE(contains(text, "Apply<4> (node 1). Name the kernel with"));
}

}  // namespace
}  // namespace reprise::graphs::test
