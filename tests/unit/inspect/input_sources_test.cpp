// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <vector>

#include "graph/capture/framework_captures.h"
#include "inspect/liveness/input_source.h"
#include "tests/support/scoped_framework.h"
#include "tests/unit/inspect/liveness_fixture.h"

// Inputs in memory of a framework.

namespace reprise::graphs::test {
namespace {

using memory::BlockWatch;
using memory::UsedAddress;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::size_t n = 300;

/// An allocator of two blocks, in memory of the driver.
class OtherAllocator : public memory::BlockOwner {
 public:
  OtherAllocator() {
    for (int*& block : blocks_) {
      void* memory = nullptr;
      backend::Checked(runtime_).memory_allocate(&memory, n * sizeof(int));
      block = static_cast<int*>(memory);
    }
  }
  ~OtherAllocator() {
    for (int* block : blocks_) (void)runtime_.memory_free(block);
  }

  int* block(std::size_t number) const { return blocks_[number]; }
  void free(std::size_t number) {
    BlockWatch& watch = *watches_[number];
    watch.freed_by = {"another function"};
    watch.freed = true;
    ++BlockWatch::frees;
  }

  void find(std::span<UsedAddress> addresses) {
    for (UsedAddress& used : addresses)
      for (std::size_t i = 0; i < blocks_.size(); ++i) {
        const auto begin = reinterpret_cast<std::uintptr_t>(blocks_[i]);
        if (used.value < begin || used.value - begin >= n * sizeof(int)) continue;
        used.in_allocator = true;
        if (watches_[i] != nullptr && watches_[i]->freed) continue;
        if (watches_[i] == nullptr)
          watches_[i].reset(new BlockWatch{this, reinterpret_cast<std::byte*>(blocks_[i]), n * sizeof(int), {}});
        used.watch = watches_[i];
      }
  }

  bool retain(BlockWatch& /*watch*/) override {
    ++kept;
    return true;
  }
  void release(BlockWatch& /*watch*/) noexcept override { --kept; }
  bool frees_retained() const noexcept override { return true; }
  bool needs_query() const noexcept override { return queried; }
  void query(BlockWatch& watch) noexcept override { watch.freed = watch.freed || gone; }
  bool is_given_out_again(const BlockWatch& /*watch*/) override { return true; }

  int kept = 0;
  int sources = 0;  // that live
  bool unused = false;
  bool queried = false;  // frees are not notified
  bool gone = false;     // all blocks, without a notice
  std::vector<std::string> notices;

 private:
  backend::Backend& runtime_ = default_device().backend();
  std::array<int*, 2> blocks_ = {};
  std::array<std::shared_ptr<BlockWatch>, 2> watches_;
};

OtherAllocator* other = nullptr;

class OtherSource : public inspect::InputSource {
 public:
  OtherSource() { ++other->sources; }
  ~OtherSource() override { --other->sources; }
  void started(captures::Capture& capture) override {
    EXPECT_EQ(capture.stream().capture_status(), CaptureStatus::active);
    other->notices.emplace_back("started");
  }
  void ended(GraphHandle /*template_graph*/) override { other->notices.emplace_back("ended"); }
  void find(std::span<UsedAddress> addresses) override { other->find(addresses); }
  bool is_used(GraphNodeHandle node, const BlockWatch& watch, std::uintptr_t /*address*/) override {
    EXPECT_NE(node, nullptr);
    return watch.owner != other || !other->unused;
  }
};

struct NoListeners final : FrameworkListeners {
  std::vector<CaptureListener*> in_order() override { return {}; }
};

class Theirs final : public backend::Framework, public FrameworkCaptures {
 public:
  std::string_view name() const noexcept override { return "theirs"; }
  const FrameworkCaptures* captures() const noexcept override { return this; }
  std::unique_ptr<FrameworkListeners> make_listeners() const override { return std::make_unique<NoListeners>(); }
  std::unique_ptr<inspect::InputSource> make_input_source(const captures::Capture& /*capture*/) const override {
    return std::make_unique<OtherSource>();
  }
};

class InputSources : public ::testing::Test {
 protected:
  InputSources() { other = &allocator_; }
  ~InputSources() override {
    graph_ = CUDAGraph();  // it has a source
    other = nullptr;
  }

  void add_to(std::size_t number) const { launch(n, Add{}, allocator_.block(number), 1, n); }

  const Theirs theirs_;
  const reprise::test::ScopedFramework scope_{theirs_};
  OtherAllocator allocator_;
  CUDAGraph graph_;
};

TEST_F(InputSources, TellOfInputsInOtherMemory) {
  Buffer<int> x = zeros(n);
  capture(graph_, with_check(), [&] {
    add_to(0);
    add(x);
  });
  graph_.replay();
  current_stream().synchronize();
  const std::vector<GraphInput> inputs = graph_.inputs();
  ASSERT_THAT(inputs, SizeIs(2));
  const GraphInput& found = inputs[0].address == x.data() ? inputs[1] : inputs[0];
  EXPECT_EQ(found.address, allocator_.block(0));
  EXPECT_EQ(found.bytes, n * sizeof(int));
  EXPECT_THAT(found.nodes, ElementsAre("kernel reprise::graphs::test::Add (node 0)"));
  EXPECT_THAT(allocator_.notices, ElementsAre("started", "ended"));
  EXPECT_EQ(allocator_.sources, 1) << "values of nodes may be changed";
  graph_.reset();
  EXPECT_EQ(allocator_.sources, 0);
}

TEST_F(InputSources, FindWhatChangedNodesUse) {
  capture(graph_, with_check(), [&] { add_to(0); });
  graph_.node("Add").set_arg(0, allocator_.block(1));
  EXPECT_THAT(addresses(graph_.inputs()), ElementsAre(allocator_.block(1)));
}

TEST_F(InputSources, AReplayIsRefusedWhenTheySayThatABlockWasFreed) {
  capture(graph_, with_check(), [&] {
    add_to(0);
    add_to(1);
  });
  allocator_.free(1);
  const DeadInputError refused = refusal(graph_);
  ASSERT_THAT(refused.inputs(), SizeIs(1));
  EXPECT_EQ(refused.inputs()[0].address, allocator_.block(1));
  EXPECT_TRUE(refused.inputs()[0].given_out_again);
  EXPECT_THAT(refused.what(), HasSubstr("another function"));
}

TEST_F(InputSources, MayKnowThatANodeDoesNotUseAnAddressOfItsParameters) {
  allocator_.unused = true;
  capture(graph_, with_check(), [&] { add_to(0); });
  EXPECT_THAT(graph_.inputs(), IsEmpty());
}

TEST_F(InputSources, MayKeepWhatIsCheckedNevertheless) {
  capture(graph_, with_retain(), [&] { add_to(0); });
  EXPECT_EQ(allocator_.kept, 1);
  EXPECT_TRUE(graph_.inputs()[0].retained);
  graph_.replay();
  current_stream().synchronize();
  allocator_.free(0);
  EXPECT_THAT(dead_inputs(graph_), SizeIs(1));
  graph_.reset();
  EXPECT_TRUE(eventually([&] { return allocator_.kept == 0; }));
}

TEST_F(InputSources, BelongToTheGraphThatTakesTheCaptureOver) {
  capture(graph_, with_check(), [&] { add_to(0); });
  {
    CUDAGraph other;
    capture(other, with_check(), [&] { add_to(1); });
    graph_.update(other);
  }
  graph_.node("Add").set_arg(0, allocator_.block(0));
  EXPECT_THAT(addresses(graph_.inputs()), ElementsAre(allocator_.block(0)));
  graph_.reset();
  EXPECT_EQ(allocator_.sources, 0);
}

TEST_F(InputSources, EndWithACaptureThatFails) {
  EXPECT_THROW(capture(graph_, with_check(),
                       [&] {
                         EXPECT_EQ(allocator_.sources, 1);
                         throw std::runtime_error("the body");
                       }),
               std::runtime_error);
  EXPECT_EQ(allocator_.sources, 0);
  EXPECT_THAT(allocator_.notices, ElementsAre("started"));
}

TEST_F(InputSources, AreAskedOnlyByCapturesThatLookForInputs) {
  capture(graph_, [&] { add_to(0); });
  EXPECT_THAT(allocator_.notices, IsEmpty());
}

}  // namespace
}  // namespace reprise::graphs::test
