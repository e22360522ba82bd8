// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// Nodes and parameters of kernels that other code launched, of which the driver knows the layout alone, and with their
// arguments in one block, as cuLaunchKernel takes them in `extra`; and nodes that the driver does not describe.

namespace reprise::graphs::test {
namespace {

/// Arguments in one block, in the form of CUDA.
struct OneBlock {
  std::vector<std::byte> bytes;
  std::size_t size = 0;
  void* extra[5] = {reinterpret_cast<void*>(1), nullptr, reinterpret_cast<void*>(2), nullptr, nullptr};

  OneBlock(const KernelRecord& record, void* const* params) : bytes(record.params_bytes), size(record.params_bytes) {
    for (std::size_t i = 0; i < record.params.size(); ++i)
      std::memcpy(bytes.data() + record.params[i].offset, params[i], record.params[i].size);
    extra[1] = bytes.data();
    extra[3] = &size;
  }
  OneBlock(const OneBlock&) = delete;
  OneBlock& operator=(const OneBlock&) = delete;
};

class ForeignKernels final : public backend::test::FaultyBackend {
 public:
  using FaultyBackend::FaultyBackend;

  backend::Result graph_node_params(GraphNodeHandle node, backend::NodeParams* params) override {
    backend::Result result = FaultyBackend::graph_node_params(node, params);
    if (const auto other = pretended.find(node); other != pretended.end()) *params = other->second;
    auto* const kernel = std::get_if<backend::KernelNodeParams>(params);
    if (result != ErrorCode::success || kernel == nullptr) return result;
    auto& block = blocks_[node];
    block = std::make_unique<OneBlock>(record_of(*kernel), kernel->params);
    kernel->extra = block->extra;
    kernel->params = nullptr;
    return result;
  }
  backend::Result graph_node_set_params(GraphNodeHandle node, const backend::NodeParams& params) override {
    return with_pointers(params, [&](const auto& same) { return FaultyBackend::graph_node_set_params(node, same); });
  }
  backend::Result graph_exec_node_set_params(GraphExecHandle exec, GraphNodeHandle node,
                                             const backend::NodeParams& params) override {
    return with_pointers(params,
                         [&](const auto& same) { return FaultyBackend::graph_exec_node_set_params(exec, node, same); });
  }
  backend::Result function_param_info(FunctionHandle function, std::size_t index, KernelParam* param) override {
    backend::Result result = FaultyBackend::function_param_info(function, index, param);
    param->type = nullptr;
    return result;
  }

  std::map<GraphNodeHandle, backend::NodeParams> pretended;  ///< what nodes are described as

 private:
  static const KernelRecord& record_of(const backend::KernelNodeParams& kernel) {
    return *reinterpret_cast<const KernelRecord*>(kernel.function);  // that of a host device
  }

  template <class F>
  static backend::Result with_pointers(const backend::NodeParams& params, const F& call) {
    const auto* const packed = std::get_if<backend::KernelNodeParams>(&params);
    if (packed == nullptr) return call(params);
    const auto block = backend::packed_arguments(packed->extra);
    if (packed->params != nullptr || !block) return ErrorCode::invalid_value;  // as they were read
    backend::KernelNodeParams kernel = *packed;
    std::vector<void*> pointers;
    for (const KernelParam& param : record_of(kernel).params)
      pointers.push_back(const_cast<std::byte*>(block->data()) + param.offset);
    kernel.params = pointers.data();
    kernel.extra = nullptr;
    return call(backend::NodeParams{kernel});
  }

  std::map<GraphNodeHandle, std::unique_ptr<OneBlock>> blocks_;
};

class ForeignNodes : public ::testing::Test {
 protected:
  static ForeignKernels& runtime() {
    static auto& runtime = *new ForeignKernels(default_device().backend());  // devices live until the process ends
    return runtime;
  }
  ~ForeignNodes() override { runtime_.heal(); }

  ForeignKernels& runtime_ = runtime();
  const DeviceGuard guard_{Device(runtime_)};
  const SideStream side_;
  Buffer<int> x_ = zeros(4), y_ = zeros(4);
  CUDAGraph graph_{KeepGraph::yes};  // values are read each time
};

TEST_F(ForeignNodes, AnArgumentInABlockIsReadAndChanged) {
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "it takes the kernel's record for its function";
  capture(graph_, [&] { add(x_, 2); });
  graph_.instantiate();
  const GraphNode node = graph_.node("Add");
  ASSERT_EQ(node.args().size(), 3U);
  EXPECT_EQ(node.args()[1].type, "") << "it is not known";
  EXPECT_EQ(node.arg<int>(1), 2);
  EXPECT_EQ(node.arg<unsigned>(1), 2U) << "the size alone is compared";
  EXPECT_TRUE(contains(text_of<UsageError>([&] { node.set_arg(1, 2.0); }), "(node 0) is 4 bytes; found double, 8"));
  node.set_arg(1, 5);
  graph_.replay();
  EXPECT_EQ(first(x_), 5);
  graph_.set(graph_.parameter(x_.data()), y_.data());
  graph_.replay();
  EXPECT_EQ(first(y_), 5);
}

TEST_F(ForeignNodes, AKernelWhoseLayoutIsNotKnownCannotBeChangedButDisabled) {
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "it takes the kernel's record for its function";
  capture(graph_, [&] {
    add(x_, 2);
    add(y_);
  });
  const GraphNode node = graph_.nodes()[0];
  const auto unknown = [&](const auto& call) {
    runtime_.fail(backend::Call::function_param_info, ErrorCode::not_supported);
    const std::string text = text_of<UsageError>(call);
    runtime_.heal();
    return contains(text, "are not known: cuFuncGetParamInfo failed with");
  };
  EXPECT_TRUE(unknown([&] { (void)node.args(); }));
  EXPECT_TRUE(unknown([&] { node.set_arg(1, 1); }));
  EXPECT_TRUE(unknown([&] { node.set_params(LaunchConfig{}); }));
  runtime_.fail(backend::Call::function_param_info, ErrorCode::not_supported);
  node.set_enabled(false);
  runtime_.heal();
  graph_.replay();
  EXPECT_EQ(first(x_), 0);
  EXPECT_EQ(first(y_), 1);
}

TEST_F(ForeignNodes, ACopyOfSeveralDimensionsCannotBeChangedAndTheRuleSaysWhy) {
  capture(graph_, [&] { copy_async(y_.data(), x_.data(), sizeof(int)); });
  (void)graph_.raw_cuda_graph();  // nodes are read in each call from now on
  const GraphNode node = graph_.nodes()[0];
  for (const bool changes : {false, true}) {
    runtime_.fail(backend::Call::graph_node_params, ErrorCode::not_supported);
    const std::string text = text_of<UsageError>([&] {
      if (changes)
        node.set_params(MemcpyNodeParams{y_.data(), x_.data(), 8});
      else
        (void)node.memcpy_params();
    });
    runtime_.heal();
    EXPECT_TRUE(contains(text, "CUDA changes one-dimensional copies and sets only"));
  }
  EXPECT_EQ(node.memcpy_params().bytes, sizeof(int));
}

TEST_F(ForeignNodes, AnAddressThatACopyOrSetOfRowsUsesIsNoParameter) {
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "it takes the kernel's record for its function";
  void* const x = x_.data();
  int* const y = y_.data();
  const auto at = [](void* address) { return static_cast<std::byte*>(address); };
  const struct {
    void* address;
    backend::NodeParams pretended;
  } nodes[] = {{x, backend::PitchedCopyNodeParams{{at(x), 12}, {at(y), 12}, 4, 2}},
               {y, backend::PitchedCopyNodeParams{{at(x), 12}, {at(y), 12}, 4, 2}},
               {x, backend::PitchedSetNodeParams{x, 12, 0, 4, 2}}};
  for (const auto& node : nodes) {
    void* const address = node.address;
    CUDAGraph graph(KeepGraph::yes);
    capture(graph, [&] {
      add(address == x ? x_ : y_);
      copy_async(y, x, sizeof(int));
    });
    runtime_.pretended = {{graph.nodes()[1].native(), node.pretended}};
    const std::string text = text_of<UsageError>([&] { (void)graph.parameter(address); });
    runtime_.pretended.clear();
    EXPECT_TRUE(contains(text, "found 0x")) << text;
    EXPECT_TRUE(contains(text, "which the")) << text;
    EXPECT_TRUE(contains(text, "CUDA changes one-dimensional copies and sets only")) << text;
    (void)graph.parameter(address);
  }
}

}  // namespace
}  // namespace reprise::graphs::test
