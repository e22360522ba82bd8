// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/graph/parameters/parameters_fixture.h"

// Addresses as parameters: found in all nodes of a graph, and set before a replay.

namespace reprise::graphs::test {
namespace {

/// Two addresses in one argument.
struct Pair {
  const int* from;
  int* to;
};

struct CopyPair {
  REPRISE_KERNEL void operator()(Thread, Pair pair) const { *pair.to = *pair.from; }
};

/// Adds to all values from `begin` to `end`.
struct AddBetween {
  REPRISE_KERNEL void operator()(Thread t, int* begin, int* end, int amount) const {
    if (t.global_x() == 0)
      for (; begin < end; ++begin) *begin += amount;
  }
};

/// Likewise, with another type of the end.
struct AddUntil {
  REPRISE_KERNEL void operator()(Thread t, int* begin, const int* end) const {
    if (t.global_x() == 0)
      for (; begin < end; ++begin) *begin += 1;
  }
};

/// Likewise, every `stride` values, to an end of any type.
template <class Begin, class End>
struct AddStrided {
  REPRISE_KERNEL void operator()(Thread t, Begin begin, End end, int* sum, std::size_t stride) const {
    const auto* const last = reinterpret_cast<const int*>(end);
    if (t.global_x() == 0)
      for (auto at = static_cast<const int*>(begin); at < last; at += stride) *sum += *at;
  }
};

/// Likewise, with what it accesses.
struct AddToDeclared {
  REPRISE_KERNEL void operator()(Thread t, int* begin, int* end) const {
    if (t.global_x() == 0)
      for (; begin < end; ++begin) *begin += 1;
  }
  static auto accesses(int* begin, int* end) {
    const auto count = static_cast<std::size_t>(end - begin);
    return std::array{reads(begin, count), writes(begin, count)};
  }
};

/// to[0] = from[0]
struct CopyFirst {
  REPRISE_KERNEL void operator()(Thread, const int* from, int* to) const { *to = *from; }
};

/// x[i] += y[i]
struct AddFrom {
  REPRISE_KERNEL void operator()(Thread t, int* x, int* y, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] += y[t.global_x()];
  }
};

/// Likewise, with what it accesses.
struct AddDeclared {
  REPRISE_KERNEL void operator()(Thread t, int* x, int* y, std::size_t n) const { AddFrom{}(t, x, y, n); }
  static auto accesses(int* x, int* y, std::size_t n) { return std::array{reads(x, n), writes(x, n), reads(y, n)}; }
};

struct Store {
  REPRISE_KERNEL void operator()(Thread, std::size_t value, int* x) const { *x = value != 0 ? 1 : 2; }
};

class AddressParametersOfGraphs : public GraphWithParameters {};

INSTANTIATE_TEST_SUITE_P(Kept, AddressParametersOfGraphs, ::testing::Values(KeepGraph::no, KeepGraph::yes),
                         name_of_kept);

TEST_P(AddressParametersOfGraphs, TheUsesOfAnAddressAreFoundInKernelsCopiesAndSets) {
  capture(graph_, [&] {
    fill_async(x_.data(), 0, x_.size_bytes());
    add(x_);
    launch(LaunchConfig{}, CopyPair{}, Pair{x_.data(), y_.data()});
    copy_async(z_.data(), x_.data(), sizeof(int));
  });
  Buffer<int> other = zeros(4);
  other.write(std::vector<int>{40, 41, 42, 43});
  const Parameter<int*> x = graph_.parameter(x_.data());
  const Parameter<int*> y = graph_.parameter(y_.data());
  graph_.set({{x, other.data()}, {y, z_.data() + 1}});
  graph_.replay();
  EXPECT_EQ(read(other), std::vector<int>(4, 1));
  EXPECT_EQ(read(z_), (std::vector<int>{1, 1, 0, 0}));
  EXPECT_EQ(read(x_), std::vector<int>(4, 0));
  EXPECT_EQ(read(y_), std::vector<int>(4, 0));
  EXPECT_EQ(graph_.get(x), other.data());
}

TEST_P(AddressParametersOfGraphs, TheUsesOfAnAddressAreFoundInChildGraphsToo) {
  const CUDAGraph inner = capture([&] { add(x_, 1); });
  const CUDAGraph child = capture([&] {
    add_child(inner);
    add(x_, 10);
  });
  capture(graph_, [&] {
    add_child(child);
    add(x_, 100);
    add_child(child);
  });
  const Parameter<int*> x = graph_.parameter(x_.data());
  EXPECT_EQ(replayed(x_), 122);
  graph_.set(x, y_.data());
  EXPECT_EQ(replayed(y_), 122);
  EXPECT_EQ(first(x_), 122);
  EXPECT_EQ(graph_.get(x), y_.data());
  graph_.set(x, z_.data());
  EXPECT_EQ(replayed(z_), 122);
  EXPECT_EQ(first(y_), 122);
  CUDAGraph again = capture([&] { add_child(child); });
  again.replay();
  EXPECT_EQ(first(x_), 133) << "children are copies";
}

TEST_P(AddressParametersOfGraphs, OfChildGraphsAreThoseOfTheOtherGraphAfterAnUpdate) {
  const CUDAGraph child = capture([&] { add(x_, 1); });
  capture(graph_, [&] { add_child(child); });
  graph_.replay();
  CUDAGraph other(GetParam());
  capture(other, [&] { add_child(child); });
  const Parameter<int*> x = other.parameter(x_.data());
  graph_.update(other);
  graph_.set(x, y_.data());
  EXPECT_EQ(replayed(y_), 1);
  EXPECT_EQ(first(x_), 1);
  EXPECT_EQ(other.get(x), x_.data()) << "that graph is its own";
}

TEST_P(AddressParametersOfGraphs, InputsOfChildGraphsFollow) {
  const CUDAGraph child = capture([&] { add(x_, 1); });
  capture(graph_, {.check_input_liveness = true}, [&] { add_child(child); });
  graph_.set(graph_.parameter(x_.data()), y_.data());
  ASSERT_EQ(graph_.inputs().size(), 1U);
  EXPECT_EQ(graph_.inputs()[0].address, y_.data());
  x_.reset();
  EXPECT_EQ(replayed(y_), 1);
}

TEST_P(AddressParametersOfGraphs, AnAddressThatABatchInAChildUsesIsRefusedWithTheNode) {
  const CUDAGraph child = capture([&] {
    add(y_);
    copy_batch_async(std::array{CopyOp{y_.data(), x_.data(), sizeof(int)}});
  });
  capture(graph_, [&] {
    add(z_);
    add_child(child);
  });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)graph_.parameter(x_.data()); }), "(node 1.1)"));
}

TEST_P(AddressParametersOfGraphs, AnAddressAloneLeavesThoseBehindIt) {
  capture(graph_, [&] {
    launch(1, Add{}, x_.data(), 1, std::size_t{1});
    launch(1, Add{}, x_.data() + 2, 1, std::size_t{1});
  });
  graph_.set(graph_.parameter(x_.data()), y_.data());
  graph_.replay();
  EXPECT_EQ(read(x_), (std::vector<int>{0, 0, 1, 0}));
  EXPECT_EQ(read(y_), (std::vector<int>{1, 0, 0, 0}));
}

TEST_P(AddressParametersOfGraphs, OfAWholeBufferItsPartsMoveAlong) {
  capture(graph_, [&] {
    launch(1, Add{}, x_.data() + 1, 1, std::size_t{1});
    launch(1, Add{}, x_.data() + 3, 2, std::size_t{1});
    launch(1, Add{}, y_.data(), 3, std::size_t{1});
  });
  const Parameter<int*> all = graph_.parameter(x_.data(), x_.size());
  graph_.set(all, z_.data());
  EXPECT_EQ(graph_.get(all), z_.data());
  graph_.replay();
  EXPECT_EQ(read(z_), (std::vector<int>{0, 1, 0, 2}));
  EXPECT_EQ(read(x_), std::vector<int>(4, 0));
  EXPECT_EQ(first(y_), 3);
  graph_.set(all, x_.data());
  graph_.replay();
  EXPECT_EQ(read(x_), (std::vector<int>{0, 1, 0, 2}));
}

TEST_P(AddressParametersOfGraphs, OfAWholeBufferNeedAsManyBytesElsewhere) {
  const Buffer<int> large(4096), small(4);
  capture(graph_, [&] { launch(1, Add{}, const_cast<int*>(large.data()) + 1000, 1, std::size_t{1}); });
  const Parameter<int*> all = graph_.parameter(const_cast<int*>(large.data()), large.size());
  const std::string text = text_of<UsageError>([&] { graph_.set(all, const_cast<int*>(small.data())); });
  EXPECT_TRUE(contains(text, "expected an address with 16384 bytes, of which the graph uses some")) << text;
  const Buffer<int> other(4096);
  int* const inside = const_cast<int*>(other.data()) + 1000;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.set(all, inside); }), "byte 4000 of a block of 16384 bytes"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.set(all, nullptr); }), "found a null pointer"));
  int* const last = reinterpret_cast<int*>(~std::uintptr_t{3});
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.set(all, last); }), "at the end of the address space"));
  EXPECT_EQ(graph_.get(all), large.data());
}

TEST_P(AddressParametersOfGraphs, ARangeWhoseEndAKernelUsesTooIsRefusedAndBothAddressesCanBeNamed) {
  int* const end = x_.data() + x_.size();
  capture(graph_, [&] { launch(1, AddBetween{}, x_.data(), end, 3); });
  const std::string text = text_of<UsageError>([&] { (void)graph_.parameter(x_.data(), x_.size()); });
  EXPECT_TRUE(contains(text, "expected a range of addresses whose end no kernel uses")) << text;
  EXPECT_TRUE(contains(text, "behind the 16 bytes of the range, in the kernel")) << text;
  const Parameter<int*> begin = graph_.parameter(x_.data()), behind = graph_.parameter(end);
  graph_.set({{begin, y_.data()}, {behind, y_.data() + 3}});
  graph_.replay();
  EXPECT_EQ(read(y_), (std::vector<int>{3, 3, 3, 0}));
  EXPECT_EQ(read(x_), std::vector<int>(4, 0));
}

TEST_P(AddressParametersOfGraphs, AnEndThatIsConstIsOneToo) {
  capture(graph_, [&] { launch(1, AddUntil{}, x_.data() + 1, x_.data() + 4); });
  EXPECT_THROW((void)graph_.parameter(x_.data(), 4), UsageError);
  graph_.reset();
  capture(graph_, [&] { launch(1, CopyFirst{}, static_cast<const int*>(x_.data()), x_.data() + 2); });
  graph_.set(graph_.parameter(x_.data(), 2), y_.data());
  y_.write(std::vector<int>{5, 0, 0, 0});
  graph_.replay();
  EXPECT_EQ(read(x_), (std::vector<int>{0, 0, 5, 0})) << "what may be written is no end of what may not";
}

template <class Begin, class End>
void capture_strided(CUDAGraph& graph, int* from, int* end, int* sum, std::size_t stride) {
  graph.reset();
  capture(graph, [&] {
    launch(1, AddStrided<Begin, End>{}, static_cast<Begin>(from), reinterpret_cast<End>(end), sum, stride);
  });
}

TEST_P(AddressParametersOfGraphs, AnEndIsOneWhateverNumberTheKernelHasAndWhateverItsType) {
  int* const x = x_.data();
  int* const end = x + 4;
  const auto is_refused = [&] {
    return contains(text_of<UsageError>([&] { (void)graph_.parameter(x, 4); }), "expected a range of addresses");
  };
  for (const std::size_t stride : {1, 2, 4, 16}) {
    capture_strided<const int*, const int*>(graph_, x, end, y_.data(), stride);
    EXPECT_TRUE(is_refused()) << stride;
  }
  capture_strided<const void*, const int*>(graph_, x, end, y_.data(), 1);
  EXPECT_TRUE(is_refused());
  capture_strided<const int*, const char*>(graph_, x, end, y_.data(), 1);
  EXPECT_TRUE(is_refused());
  capture_strided<const int*, std::uintptr_t>(graph_, x, end, y_.data(), 1);
  EXPECT_TRUE(is_refused());
}

TEST_P(AddressParametersOfGraphs, MemoryThatBeginsBehindARangeStaysWhereTheKernelHasTheNumberOfValues) {
  Buffer<int> both = zeros(8);
  both.write(std::vector<int>{1, 1, 1, 1, 2, 2, 2, 2});
  capture(graph_, [&] { launch(4, AddFrom{}, both.data(), both.data() + 4, std::size_t{4}); });
  graph_.set(graph_.parameter(both.data(), 4), z_.data());
  graph_.replay();
  EXPECT_EQ(read(z_), std::vector<int>(4, 2));
  EXPECT_EQ(read(both), (std::vector<int>{1, 1, 1, 1, 2, 2, 2, 2})) << "as before";
}

TEST_P(AddressParametersOfGraphs, ABufferThatAdjoinsIsNoEndWhereTheKernelHasTheNumberOfValues) {
  constexpr std::size_t whole_block = 128;
  std::vector<Buffer<int>> all;
  for (int i = 0; i < 8; ++i) all.push_back(zeros(whole_block));
  const auto found = std::ranges::find_if(all, [&](const Buffer<int>& each) {
    return std::ranges::any_of(all,
                               [&](const Buffer<int>& other) { return other.data() == each.data() + whole_block; });
  });
  ASSERT_NE(found, all.end());
  int* const front = found->data();
  capture(graph_, [&] { launch(whole_block, AddFrom{}, front, front + whole_block, whole_block); });
  EXPECT_NO_THROW((void)graph_.parameter(front, whole_block));
  capture_strided<const int*, const int*>(graph_, front, front + whole_block, y_.data(), 32);
  EXPECT_THROW((void)graph_.parameter(front, whole_block), UsageError) << "32 is the number of values of 16 bytes";
}

TEST_P(AddressParametersOfGraphs, MemoryThatBeginsBehindARangeStaysWhereItIsAParameterItself) {
  Buffer<int> both = zeros(8);
  both.write(std::vector<int>{1, 1, 1, 1, 2, 2, 2, 2});
  capture(graph_, [&] { launch(4, AddFrom{}, both.data(), both.data() + 4, std::size_t{3}); });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)graph_.parameter(both.data(), 4); }),
                       "Make a parameter of that address first, parameter(data + count)"));
  const Parameter<int*> behind = graph_.parameter(both.data() + 4, 4);
  graph_.set(graph_.parameter(both.data(), 4), z_.data());
  graph_.replay();
  EXPECT_EQ(read(z_), (std::vector<int>{2, 2, 2, 0}));
  EXPECT_EQ(read(both), (std::vector<int>{1, 1, 1, 1, 2, 2, 2, 2})) << "as before";
}

TEST_P(AddressParametersOfGraphs, OfBuffersThatAdjoinAreNamedInACaptureInAnyOrder) {
  Buffer<int> both = zeros(8);
  std::optional<Parameter<int*>> front, behind;
  capture(graph_, [&] {
    front = graph_.parameter(both.data(), 4);
    behind = graph_.parameter(both.data() + 4, 4);
    launch(4, AddFrom{}, both.data(), both.data() + 4, std::size_t{4});
  });
  y_.write(std::vector<int>(4, 3));
  graph_.set({{*front, x_.data()}, {*behind, y_.data()}});
  graph_.replay();
  EXPECT_EQ(read(x_), std::vector<int>(4, 3));
  EXPECT_EQ(read(both), std::vector<int>(8, 0));
}

TEST_P(AddressParametersOfGraphs, MemoryThatBeginsBehindARangeStaysWhereTheKernelDeclaresIt) {
  Buffer<int> both = zeros(8);
  both.write(std::vector<int>{1, 1, 1, 1, 2, 2, 2, 2});
  capture(graph_, [&] { launch(4, AddDeclared{}, both.data(), both.data() + 4, std::size_t{3}); });
  graph_.set(graph_.parameter(both.data(), 4), z_.data());
  graph_.replay();
  EXPECT_EQ(read(z_), (std::vector<int>{2, 2, 2, 0}));
  EXPECT_EQ(read(both), (std::vector<int>{1, 1, 1, 1, 2, 2, 2, 2})) << "as before";
}

TEST_P(AddressParametersOfGraphs, TheMemoryInFrontOfAnArgumentMayBeThatOfALaterOne) {
  Buffer<int> both = zeros(8);
  both.write(std::vector<int>{1, 1, 1, 1, 2, 2, 2, 2});
  capture(graph_, [&] { launch(4, AddDeclared{}, both.data() + 4, both.data() + 1, std::size_t{2}); });
  y_.write(std::vector<int>{3, 4, 5, 6});
  graph_.set(graph_.parameter(both.data(), 4), y_.data());
  graph_.replay();
  EXPECT_EQ(read(both), (std::vector<int>{1, 1, 1, 1, 6, 7, 2, 2}));
}

TEST_P(AddressParametersOfGraphs, AnEndThatTheKernelDeclaresOrMemoryThatItDoesNotIsRefused) {
  capture(graph_, [&] { launch(1, AddToDeclared{}, x_.data(), x_.data() + 4); });
  EXPECT_THROW((void)graph_.parameter(x_.data(), 4), UsageError);
  graph_.reset();
  capture(graph_, [&] { launch(4, AddFrom{}, x_.data(), x_.data() + 2, std::size_t{3}); });
  EXPECT_THROW((void)graph_.parameter(x_.data(), 2), UsageError);
  (void)graph_.parameter(x_.data());
}

TEST_P(AddressParametersOfGraphs, ANumberWithTheValueOfAnAddressStays) {
  capture(graph_, [&] {
    launch(1, Store{}, reinterpret_cast<std::size_t>(x_.data()), y_.data());
    add(x_);
  });
  graph_.set(graph_.parameter(x_.data(), x_.size()), z_.data());
  EXPECT_EQ(graph_.node("Store").arg<std::size_t>(0), reinterpret_cast<std::size_t>(x_.data()));
  EXPECT_EQ(replayed(z_), 1);
  EXPECT_THROW((void)capture([&] {
                 launch(1, Store{}, reinterpret_cast<std::size_t>(x_.data()), y_.data());
               }).parameter(x_.data()),
               UsageError);
}

// The other address of a copy may be that of a block which the body freed, and which its pool has used again.
TEST_P(AddressParametersOfGraphs, OfACopyMoveWithoutACheckOfItsOtherMemory) {
  Buffer<int> from(1024), other(1024);
  other.fill_bytes_async(1);
  std::optional<Buffer<int>> kept;
  capture(graph_, [&] {
    const int* freed = nullptr;
    {
      Buffer<int> within(1024);
      freed = within.data();
      copy_async(within.data(), from.data(), from.size_bytes());
      copy_async(x_.data(), within.data() + 1020, x_.size_bytes());
    }
    kept.emplace(256);
    ASSERT_EQ(kept->data(), freed);
  });
  graph_.set(graph_.parameter(from.data()), other.data());
  graph_.set(graph_.parameter(x_.data()), y_.data());
  graph_.replay();
  EXPECT_EQ(read(y_), std::vector<int>(4, 0x01010101));
}

TEST_P(AddressParametersOfGraphs, AnAddressCanBeNamedInTheCapture) {
  std::optional<Parameter<int*>> target;
  {
    reprise::graph scope(graph_);
    target = graph_.parameter(x_.data());
    launch(x_.size(), Add{}, *target, 1, x_.size());
    fill_async(x_.data(), 0, x_.size_bytes());
  }
  graph_.set(*target, z_.data());
  z_.write(std::vector<int>{7, 7, 7, 7});
  x_.write(std::vector<int>{7, 7, 7, 7});
  graph_.replay();
  EXPECT_EQ(first(z_), 0) << "set after the addition";
  EXPECT_EQ(first(x_), 7);
}

TEST_P(AddressParametersOfGraphs, AnAddressThatNothingUsesIsRefused) {
  capture_both();
  const std::string text = text_of<UsageError>([&] { (void)graph_.parameter(z_.data()); });
  EXPECT_TRUE(contains(text, "which none of its nodes has as an argument"));
  EXPECT_THROW((void)graph_.parameter(static_cast<int*>(nullptr)), UsageError);
  EXPECT_THROW((void)graph_.parameter(x_.data() + 1), UsageError);
  EXPECT_THROW((void)graph_.parameter(x_.data(), SIZE_MAX), UsageError);
  EXPECT_THROW(capture(graph_, [&] {}), UsageError);
  graph_.reset();
  EXPECT_THROW(capture(graph_,
                       [&] {
                         (void)graph_.parameter(z_.data());
                         add(x_);
                       }),
               UsageError);
  EXPECT_EQ(first(x_), 0);
  capture_both();
  EXPECT_EQ(replayed(y_), 10);
}

TEST_P(AddressParametersOfGraphs, AnAddressThatABatchUsesIsRefused) {
  capture(graph_, [&] {
    copy_batch_async(std::array{CopyOp{y_.data(), x_.data(), sizeof(int)}});
    add(x_);
  });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)graph_.parameter(x_.data()); }), "the library's own"));
}

TEST_P(AddressParametersOfGraphs, AddressesThatCudaDoesNotTakeAreRefusedAndAllValuesStay) {
  std::vector<int> pageable(4);
  capture(graph_, [&] {
    launch(x_.size(), Add{}, x_.data(), amount_, x_.size());
    copy_async(y_.data(), x_.data(), x_.size_bytes());
  });
  if (GetParam() == KeepGraph::yes) graph_.instantiate();
  const Parameter<int*> x = graph_.parameter(x_.data());
  const std::string text = text_of<UsageError>([&] { graph_.set({{amount_, 5}, {x, pageable.data()}}); });
  EXPECT_TRUE(contains(text, "CUDAGraph::set, memcpy (node 1)"));
  EXPECT_TRUE(contains(text, "nor from memory of a device to pageable memory"));
  EXPECT_EQ(graph_.get(amount_), 1);
  EXPECT_EQ(graph_.get(x), x_.data());
  EXPECT_EQ(replayed(y_), 1);
}

TEST_P(AddressParametersOfGraphs, MayBeNamedByAnyThreadWhileOthersReplay) {
  capture_both();
  const StreamRef stream = side_.ref();
  std::array<std::optional<Parameter<int*>>, 4> named;
  std::vector<std::thread> threads;
  for (auto& each : named)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) each.emplace(graph_.parameter(y_.data()));
    });
  for (int i = 0; i < 50; ++i) graph_.replay(stream);
  for (std::thread& each : threads) each.join();
  for (const auto& each : named) EXPECT_EQ(graph_.get(*each), y_.data());
  graph_.set(*named[3], z_.data());
  graph_.replay(stream);
  stream.synchronize();
  EXPECT_EQ(first(y_), 500);
  EXPECT_EQ(first(z_), 510);
}

TEST_P(AddressParametersOfGraphs, OfAnAddressThatAreNotKeptCanBeMadeAtEachStep) {
  capture(graph_, [&] { add(x_); });
  int* now = x_.data();
  int* next = y_.data();
  for (int i = 0; i < 100; ++i) {
    graph_.set(graph_.parameter(now), next);
    std::swap(now, next);
    graph_.replay();
  }
  EXPECT_EQ(first(x_), 50);
  EXPECT_EQ(first(y_), 50);
}

}  // namespace
}  // namespace reprise::graphs::test
