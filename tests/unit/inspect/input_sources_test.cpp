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

/// A table of watch_pointers() in a framework's memory, or that leads there.
class InputSourcesOfTables : public InputSources {
 protected:
  void capture_and_watch(Liveness liveness, const std::vector<int*>& pointers) {
    table_.write(pointers);
    capture(graph_, with_check(liveness), [&] { add(x_); });
    graph_.watch_pointers(table_, pointers.size());
  }
  void* const* in_block(std::size_t number) const { return reinterpret_cast<void**>(allocator_.block(number)); }

  Buffer<int> x_ = zeros(n);
  Buffer<int*> table_{std::size_t{2}};
};

TEST_F(InputSourcesOfTables, KnowWhatTheirEntriesLeadTo) {
  for (const Liveness liveness : {Liveness::allocator, Liveness::all}) {
    capture_and_watch(liveness, {nullptr, allocator_.block(1) + 3});
    graph_.replay();
    const std::vector<GraphInput> inputs = graph_.inputs();
    const auto found = std::ranges::find(inputs, static_cast<const void*>(allocator_.block(1)), &GraphInput::address);
    ASSERT_NE(found, inputs.end());
    EXPECT_EQ(found->bytes, n * sizeof(int)) << "of their block";
    EXPECT_THAT(found->not_checked, IsEmpty());
    graph_.reset();
  }
}

TEST_F(InputSourcesOfTables, AReplayIsRefusedWhenTheySayThatABlockOfAnEntryWasFreed) {
  capture_and_watch(Liveness::all, {allocator_.block(0), allocator_.block(1)});
  graph_.replay();
  allocator_.free(1);
  const DeadInputError refused = refusal(graph_);
  EXPECT_THAT(addresses(refused.inputs()), ElementsAre(allocator_.block(1)));
  EXPECT_THAT(refused.inputs()[0].nodes, ElementsAre(HasSubstr("entry 1 of the pointers at")));
  EXPECT_THAT(refused.what(), HasSubstr("another function"));
}

TEST_F(InputSourcesOfTables, ABlockThatWasFreedBeforeTheTableIsReadIsDead) {
  capture(graph_, with_check(Liveness::all), [&] { add_to(1); });
  graph_.reset();  // it has a watch now
  capture_and_watch(Liveness::all, {allocator_.block(1), nullptr});
  allocator_.free(1);
  EXPECT_THAT(refusal(graph_).what(), HasSubstr("freed; used by entry 0 of the pointers at"));
}

TEST_F(InputSourcesOfTables, BlocksWhoseFreesAreNotNotifiedAreQueriedBeforeEachReplay) {
  allocator_.queried = true;
  capture_and_watch(Liveness::allocator, {allocator_.block(0), nullptr});
  graph_.replay();
  graph_.replay();
  allocator_.gone = true;
  EXPECT_THAT(addresses(dead_inputs(graph_)), ElementsAre(allocator_.block(0)));
}

TEST_F(InputSourcesOfTables, ATableInTheirMemoryIsWatched) {
  capture(graph_, with_check(), [&] { add(x_); });
  fill_async(allocator_.block(0), 0, n * sizeof(int));
  graph_.watch_pointers(in_block(0), 2);
  graph_.replay();
  EXPECT_THAT(addresses(graph_.inputs()), ::testing::Contains(allocator_.block(0)));
  allocator_.free(0);
  const DeadInputError refused = refusal(graph_);
  EXPECT_THAT(addresses(refused.inputs()), ElementsAre(allocator_.block(0)));
  EXPECT_THAT(refused.inputs()[0].nodes, ElementsAre(HasSubstr("the table of 2 pointers at")));
}

TEST_F(InputSourcesOfTables, ATableInMemoryThatTheyFreedIsRefused) {
  capture(graph_, with_check(Liveness::all), [&] { add_to(0); });
  allocator_.free(0);
  EXPECT_THAT(text_of<UsageError>([&] { graph_.watch_pointers(in_block(0), 2); }), HasSubstr("memory that was freed"));
}

TEST_F(InputSourcesOfTables, BelongToTheGraphThatTakesTheCaptureOver) {
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
