// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/unit/cache/cache_fixture.h"

namespace reprise::caches::test {
namespace {

constexpr std::size_t result_bytes = 512;  // rounded

/// y[i] = x[i] up to the address `end`.
struct CopyUntil {
  REPRISE_KERNEL void operator()(Thread t, const int* x, const int* end, int* y) const {
    if (x + t.global_x() < end) y[t.global_x()] = x[t.global_x()];
  }
  static auto accesses(const int* x, const int* end, int* y) {
    const auto count = static_cast<std::size_t>(end - x);
    return std::array{reads(x, count), writes(y, count)};
  }
};

/// Calls a body with inputs in other memory each time, and returns the bytes that its entry has beside the pool.
template <class Body>
std::uint64_t bytes_with(GraphCacheOptions options, Body body, const std::vector<std::size_t>& offsets = {0}) {
  options.capture_after = 0;
  GraphCache cache(options);
  for (int i = 1; i <= 6; ++i) {
    const std::size_t offset = offsets[static_cast<std::size_t>(i) % offsets.size()];
    const Buffer<int> x = counting(n + offset, i);
    const DeviceView<const int> view(x.data() + offset, n);
    std::vector<int> expected;
    for (std::size_t k = 0; k < n; ++k) expected.push_back(i * static_cast<int>(k + offset + 1));
    EXPECT_EQ(cache.run({n}, inputs(view), body).read(), expected) << "call " << i;
  }
  EXPECT_EQ(cache.statistics().hits, 5u);
  return cache.statistics().entry_bytes;
}

TEST(InputsOfGraphCaches, AreChangedInTheGraphWhereEveryUseCanBeRead) {
  EXPECT_EQ(bytes_with({}, Multiplying{1}), result_bytes);
  const auto copies = [](DeviceView<const int> x) {
    Buffer<int> y(x.size());
    copy_async(y.data(), x.data(), x.size_bytes());
    return y;
  };
  EXPECT_EQ(bytes_with({}, copies), result_bytes);
}

TEST(InputsOfGraphCaches, AreChangedWhereThePartsOfABufferAreUsed) {
  const auto halves = [](DeviceView<const int> x) {
    Buffer<int> y(x.size());
    const std::size_t half = x.size() / 2;
    launch(half, Multiply{}, x.data(), 1, y.data(), half);
    launch(half, Multiply{}, x.data() + half, 1, y.data() + half, half);
    return y;
  };
  EXPECT_EQ(bytes_with({}, halves), result_bytes);
}

TEST(InputsOfGraphCaches, AreCopiedWhereThatIsWanted) {
  EXPECT_GT(bytes_with({.inputs = CacheInputs::copy}, Multiplying{1}), result_bytes);
}

TEST(InputsOfGraphCaches, AreCopiedWhereAKernelOfTheLibraryUsesThem) {
  const auto body = [](DeviceView<const int> x) {
    Buffer<int> y(x.size());
    copy_batch_async(std::array{CopyOp{y.data(), x.data(), x.size_bytes()}});
    return y;
  };
  EXPECT_GT(bytes_with({}, body), result_bytes);
}

TEST(InputsOfGraphCaches, AreCopiedWhereTheAddressBehindThemIsUsed) {
  const auto body = [](DeviceView<const int> x) {
    Buffer<int> y(x.size());
    launch(x.size(), CopyUntil{}, x.data(), x.data() + x.size(), y.data());
    return y;
  };
  EXPECT_GT(bytes_with({}, body), result_bytes);
}

TEST(InputsOfGraphCaches, AreCopiedWhereAChildGraphMayUseThem) {
  Buffer<int> state = zeros();
  CUDAGraph child = capture([&] { graphs::test::add(state); });
  const auto body = [&](DeviceView<const int> x) {
    add_child(child);
    return Multiplying{1}(x);
  };
  EXPECT_GT(bytes_with({}, body), result_bytes);
  EXPECT_EQ(read(state), std::vector<int>{6});
}

// Kernels that were chosen in the capture may rely on the alignment of whole buffers.
TEST(InputsOfGraphCaches, AreCopiedInCallsInWhichTheyAreNotAligned) {
  EXPECT_EQ(bytes_with({}, Multiplying{1}, {64}), result_bytes);  // 256 bytes
  EXPECT_GT(bytes_with({}, Multiplying{1}, {0, 3, 64}), result_bytes);
}

TEST(InputsOfGraphCaches, OfCopiesAndSetsAreChangedAfterTheMemoryOfTheLastCallWentBackToTheDriver) {
  const auto body = [](DeviceView<int> x) {
    Buffer<int> y(x.size());
    copy_async(y.data(), x.data(), x.size_bytes());
    fill_async(x.data(), 0, x.size_bytes());
    return y;
  };
  const HostSimulator simulator;
  const DeviceGuard there(simulator.device());
  GraphCache cache({.capture_after = 0});
  std::vector<Buffer<char>> between;
  for (int i = 1; i <= 4; ++i) {
    Buffer<int> x = counting(std::size_t{4} << 20, i);  // a segment of its own
    EXPECT_EQ(cache.run({1}, inputs(inout(x)), body).read().front(), i);
    EXPECT_EQ(read(x).front(), 0);
    const void* const address = x.data();
    x = Buffer<int>();
    CachingAllocator::of(current_device()).empty_cache();
    between.emplace_back(std::size_t{16} << 20);  // the next input lies elsewhere
    EXPECT_EQ(static_cast<const void*>(between.back().data()), address) << "else nothing was tested";
  }
  EXPECT_EQ(cache.statistics().hits, 3u);
}

TEST(InputsOfGraphCaches, InPinnedMemoryAreCopiedWhereACopyUsesThem) {
  const auto body = [](DeviceView<const int> x) {
    Buffer<int> y(x.size());
    copy_async(y.data(), x.data(), x.size_bytes());
    return y;
  };
  GraphCache cache({.capture_after = 0});
  HostBuffer<int> pinned(n);
  for (int i = 1; i <= 4; ++i) {
    for (std::size_t k = 0; k < n; ++k) pinned[k] = i * static_cast<int>(k + 1);
    EXPECT_EQ(cache.run({n}, inputs(DeviceView<const int>(pinned.data(), n)), body).read(), multiples(n, i));
    const Buffer<int> x = counting(n, 10 * i);
    EXPECT_EQ(cache.run({n}, inputs(x), body).read(), multiples(n, 10 * i));
  }
  EXPECT_EQ(cache.statistics().hits, 7u);
}

TEST(InputsOfGraphCaches, ThatTheBodyChangesAreChangedInTheMemoryOfTheCall) {
  for (const CacheInputs how : {CacheInputs::patch, CacheInputs::copy}) {
    GraphCache cache({.capture_after = 1, .inputs = how});
    Incrementing body;
    for (int i = 1; i <= 4; ++i) {
      Buffer<int> whole = zeros(n + 1);
      const DeviceView<int> part(whole.data() + i % 2, n);
      for (int k = 0; k < i; ++k) cache.run({n}, inputs(part), body);
      std::vector<int> expected(n + 1, i);
      expected[i % 2 == 0 ? n : 0] = 0;
      EXPECT_EQ(read(whole), expected);
    }
    EXPECT_EQ(body.runs, 2);
  }
}

TEST(InputsOfGraphCaches, ThatTheBodyChangesLieApartFromOthersIfTheyAreCopied) {
  GraphCache cache({.capture_after = 0, .inputs = CacheInputs::copy}), patching({.capture_after = 0});
  Buffer<int> x = counting(n), y = counting(n);
  const auto body = [](DeviceView<const int> from, DeviceView<int> to) {
    launch(n, Multiply{}, from.data(), 3, to.data(), n);
  };
  cache.run({n}, inputs(x, inout(y)), body);
  EXPECT_EQ(read(y), multiples(n, 3));
  const std::string text = text_of<UsageError>([&] { cache.run({n}, inputs(y, inout(y)), body); });
  EXPECT_TRUE(
      contains(text, "expected inputs apart from the memory of input 1, which the body changes; found input 0"));
  EXPECT_EQ(read(y), multiples(n, 3));
  patching.run({n}, inputs(y, inout(y)), body);
  EXPECT_EQ(read(y), multiples(n, 9));
}

TEST(InputsOfGraphCaches, MayBeEmptyAndMayBeUnused) {
  GraphCache cache({.capture_after = 0});
  for (int i = 1; i <= 3; ++i) {
    const Buffer<int> x = counting(n, i), unused = counting(n), empty;
    const auto y = cache.run({n}, inputs(x, unused, empty), [](auto in, auto, DeviceView<const int> none) {
      EXPECT_EQ(none.data(), nullptr);
      return Multiplying{2}(in);
    });
    EXPECT_EQ(y.read(), multiples(n, 2 * i));
  }
  EXPECT_GT(cache.statistics().entry_bytes, result_bytes) << "no use of it was found, so that it is copied";
}

/// y[i] = factor * x[i + 1]: the address of an array whose first index is 1.
struct MultiplyFromOne {
  REPRISE_KERNEL void operator()(Thread t, const int* x, int factor, int* y, std::size_t n) const {
    if (t.global_x() < n) y[t.global_x()] = factor * x[t.global_x() + 1];
  }
  static auto accesses(const int* x, int, int* y, std::size_t n) { return std::array{reads(x + 1, n), writes(y, n)}; }
};

/// y[i] = far[at + i]
struct CopyFrom {
  REPRISE_KERNEL void operator()(Thread t, const int*, const int* far, std::ptrdiff_t at, int* y, std::size_t n) const {
    const auto i = static_cast<std::ptrdiff_t>(t.global_x());
    if (t.global_x() < n) y[i] = far[at + i];
  }
  static auto accesses(const int* x, const int*, std::ptrdiff_t, int* y, std::size_t n) {
    return std::array{reads(x, n), writes(y, n)};
  }
};

TEST(InputsOfGraphCaches, AreCopiedWhereOnlyAnAddressInFrontOfThemIsUsed) {
  GraphCache cache({.capture_after = 0});
  for (int i = 1; i <= 3; ++i) {
    const Buffer<int> x = counting(n, i);
    const auto y = cache.run({n}, inputs(x), [](DeviceView<const int> in) {
      Buffer<int> made(n);
      launch(n, MultiplyFromOne{}, in.data() - 1, 2, made.data(), n);
      return made;
    });
    EXPECT_EQ(y.read(), multiples(n, 2 * i));
  }
}

TEST(InputsOfGraphCaches, AreCopiedWhereAnAddressInFrontOfThemIsUsedAsWell) {
  const auto body = [](DeviceView<const int> x) {
    Buffer<int> y(x.size());
    launch(x.size(), Multiply{}, x.data(), 1, y.data(), x.size() - 1);
    launch(x.size(), MultiplyFromOne{}, x.data() - 1, 1, y.data(), x.size());
    return y;
  };
  EXPECT_GT(bytes_with({}, body), result_bytes);
}

TEST(InputsOfGraphCaches, AreCopiedWhereAnAddressFurtherAroundThemIsUsedAsWell) {
  for (const std::ptrdiff_t distance : {-1000, 1000}) {
    const auto body = [=](DeviceView<const int> x) {
      Buffer<int> y(x.size());
      const int* const far = x.data() + distance;
      launch(x.size(), CopyFrom{}, x.data(), far, -distance, y.data(), x.size());
      return y;
    };
    EXPECT_GT(bytes_with({}, body), result_bytes);
  }
}

// Memory of the entry lies among other memory there, which such an address may be mistaken for.
TEST(InputsOfGraphCaches, AreCopiedWhereAnAddressFarAwayIsUsedAsWell) {
  std::vector<Buffer<int>> around;
  for (int i = 0; i < 200; ++i) around.push_back(zeros(100));
  for (const std::ptrdiff_t distance : {-2000, 2000, -2048, 2048, -4096, 30000, -30000}) {
    const auto body = [=](DeviceView<const int> x) {
      Buffer<int> y(x.size());
      launch(x.size(), CopyFrom{}, x.data(), x.data() + distance, -distance, y.data(), x.size());
      return y;
    };
    EXPECT_GT(bytes_with({}, body), result_bytes) << distance;
  }
}

TEST(InputsOfGraphCaches, AreNotCopiedBecauseOtherMemoryIsUsed) {
  const Buffer<int> weights = counting(n), large = counting(std::size_t{1} << 20);
  HostBuffer<int> pinned(n);
  const auto body = [&](DeviceView<const int> x) {
    Buffer<int> y(x.size()), scratch(x.size());
    const std::array<const int*, 5> others{weights.data(), weights.data() + 7, large.data(), large.data() + 1000,
                                           pinned.data()};
    for (const int* const each : others) launch(10, Multiply{}, each, 1, scratch.data(), std::size_t{10});
    launch(x.size(), Multiply{}, x.data(), 1, y.data(), x.size());
    return y;
  };
  EXPECT_EQ(bytes_with({}, body), result_bytes);
}

/// y[i] = x[i]; `x` is an address.
struct CopyFromNumber {
  REPRISE_KERNEL void operator()(Thread t, std::uintptr_t x, int* y, std::size_t n) const {
    if (t.global_x() < n) y[t.global_x()] = reinterpret_cast<const int*>(x)[t.global_x()];
  }
};

TEST(InputsOfGraphCaches, AreCopiedWhereTheirAddressIsPassedAsAnInteger) {
  const auto body = [](DeviceView<const int> x) {
    Buffer<int> y(x.size());
    launch(x.size(), Multiply{}, x.data(), 1, y.data(), x.size());
    launch(x.size(), CopyFromNumber{}, reinterpret_cast<std::uintptr_t>(x.data()), y.data(), x.size());
    return y;
  };
  EXPECT_GT(bytes_with({}, body), result_bytes);
}

#pragma pack(push, 1)
struct Packed {
  char kind;
  const int* x;
};
#pragma pack(pop)

struct CopyPacked {
  REPRISE_KERNEL void operator()(Thread t, Packed from, int* y, std::size_t n) const {
    if (t.global_x() < n) y[t.global_x()] = from.x[t.global_x()];
  }
  static auto accesses(const Packed& from, int* y, std::size_t n) { return std::array{reads(from.x, n), writes(y, n)}; }
};

TEST(InputsOfGraphCaches, AreCopiedWhereAnArgumentHasTheirAddressUnaligned) {
  const auto body = [](DeviceView<const int> x) {
    Buffer<int> y(x.size());
    launch(x.size(), Multiply{}, x.data(), 1, y.data(), x.size());
    launch(x.size(), CopyPacked{}, Packed{'x', x.data()}, y.data(), x.size());
    return y;
  };
  EXPECT_GT(bytes_with({}, body), result_bytes);
}

TEST(InputsOfGraphCaches, AResultThatWasOverwrittenIsRefused) {
  GraphCache cache({.capture_after = 0});
  const Buffer<int> x = counting(n);
  const auto before = cache.run({n}, inputs(x), Multiplying{2});
  const auto last = cache.run({n}, inputs(x), Multiplying{2});
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)inputs(before); }), "was overwritten by replay 2"));
  EXPECT_EQ(cache.run({"next"}, inputs(last), Multiplying{3}).read(), multiples(n, 6));
}

TEST(PaddedGraphCaches, RoundTheLengthUpAndShowTheValidPart) {
  for (const CacheOutputs outputs : {CacheOutputs::alias, CacheOutputs::copy}) {
    GraphCache cache({.capture_after = 1, .outputs = outputs, .padding = [](std::size_t length) {
                        return (length + 63) / 64 * 64;
                      }});
    int runs = 0;
    constexpr std::size_t columns = 3;
    for (const std::size_t length : {5, 60, 64, 7, 100, 128, 1, 65}) {
      const Buffer<int> x = counting(length * columns);
      const auto y = cache.run_padded({columns}, length, inputs(x), [&](std::size_t padded, DeviceView<const int> in) {
        ++runs;
        EXPECT_EQ(padded % 64, 0u);
        EXPECT_EQ(in.size(), padded * columns);
        return Multiplying{2}(in);
      });
      EXPECT_EQ(y.read(), multiples(length * columns, 2)) << length;
      EXPECT_EQ(y.size(), length * columns);
      EXPECT_EQ(y.padded_size(), (length + 63) / 64 * 64 * columns);
      // What was padded is zero, whatever the call before had there.
      Buffer<int> whole(y.padded_size());
      copy_async(whole.data(), y.data(), y.padded_size() * sizeof(int));
      EXPECT_EQ(read(whole)[y.size() == y.padded_size() ? 0 : y.size()], y.size() == y.padded_size() ? 2 : 0);
    }
    EXPECT_EQ(runs, 4);
    EXPECT_EQ(cache.size(), 2u);
  }
}

TEST(PaddedGraphCaches, CopyBackTheValidPartOfWhatIsChanged) {
  GraphCache cache({.capture_after = 1, .padding = [](std::size_t) { return std::size_t{64}; }});
  for (const std::size_t length : {5, 60, 7}) {
    Buffer<int> whole = zeros(64);
    cache.run_padded({}, length, inputs(DeviceView<int>(whole.data(), length)),
                     [](std::size_t padded, DeviceView<int> x) { launch(padded, Add{}, x.data(), 1, padded); });
    std::vector<int> expected(64, 0);
    for (std::size_t i = 0; i < length; ++i) expected[i] = 1;
    EXPECT_EQ(read(whole), expected);
  }
}

/// slots[index] += 1
struct Count {
  REPRISE_KERNEL void operator()(Thread t, const int* indices, const int* length, int* slots, std::size_t n) const {
    if (t.global_x() != 0) return;
    for (std::size_t i = 0; i < n; ++i)
      if (indices[i] >= 0) slots[indices[i]] += *length;
  }
};

TEST(PaddedGraphCaches, FillRowsWithTheValueOfTheInputAndTakeInputsWithoutRows) {
  for (const std::size_t after : {0, 100}) {  // captured, and eager
    GraphCache cache({.capture_after = after, .padding = [](std::size_t) { return std::size_t{8}; }});
    Buffer<int> slots = zeros(3);
    std::vector<int> expected(3, 0);
    for (const int length : {3, 8, 1, 5}) {
      Buffer<int> indices(static_cast<std::size_t>(length)), true_length(1);
      indices.write(std::vector<int>(indices.size(), 1));
      true_length.write(std::vector<int>{length});
      expected[1] += length * length;
      cache.run_padded(
          {}, indices.size(), inputs(padded_with(indices, -1), not_padded(true_length), not_padded(inout(slots))),
          [](std::size_t padded, DeviceView<const int> in, DeviceView<const int> count, DeviceView<int> out) {
            EXPECT_EQ(in.size(), padded);
            EXPECT_EQ(count.size(), 1u);
            EXPECT_EQ(out.size(), 3u);
            launch(1, Count{}, in.data(), count.data(), out.data(), padded);
          });
      EXPECT_EQ(read(slots), expected) << length;
    }
  }
}

TEST(PaddedGraphCaches, InputsWithoutRowsHaveOneSize) {
  GraphCache cache({.capture_after = 0, .padding = [](std::size_t) { return std::size_t{8}; }});
  const Buffer<int> x = counting(8);
  const auto run = [&](std::size_t size) {
    const Buffer<int> other = counting(size);
    cache.run_padded({}, 8, inputs(x, not_padded(other)),
                     [](std::size_t, DeviceView<const int> in, DeviceView<const int>) { return Multiplying{}(in); });
  };
  run(3);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { run(4); }), "input 1 with 12 bytes"));
  GraphCache other({.capture_after = 0, .padding = [](std::size_t) { return std::size_t{8}; }});
  for (int i = 0; i < 2; ++i) {
    const auto y = other.run_padded({}, 8, inputs(x, not_padded(Buffer<int>())),
                                    [](std::size_t, DeviceView<const int> in, DeviceView<const int> none) {
                                      EXPECT_TRUE(none.empty());
                                      return Multiplying{}(in);
                                    });
    EXPECT_EQ(y.read(), multiples(8, 2));
  }
}

TEST(InputsOfGraphCaches, InMemoryThatKernelsCannotUseAreNamed) {
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "a kernel faults on them on other devices";
  GraphCache cache({.capture_after = 0, .inputs = CacheInputs::copy, .padding = [](std::size_t) { return n; }});
  const Buffer<int> x = counting(n);
  const std::vector<int> pageable(n);
  const HostSimulator simulator;
  const Buffer<int> elsewhere = [&] {
    const DeviceGuard there(simulator.device());
    return Buffer<int>(n);
  }();
  const auto body = [](DeviceView<const int> in, DeviceView<const int>) { return Multiplying{}(in); };
  const auto padded = [](std::size_t, DeviceView<const int> in, DeviceView<const int>) { return Multiplying{}(in); };
  for (const int* const data : {pageable.data(), static_cast<const int*>(elsewhere.data())}) {
    const DeviceView<const int> view(data, n);
    for (const std::string& text : {text_of<UsageError>([&] { cache.run({0}, inputs(x, view), body); }),
                                    text_of<UsageError>([&] { cache.run_padded({1}, n, inputs(x, view), padded); })}) {
      EXPECT_TRUE(contains(text,
                           "GraphCache::run: expected inputs in memory that kernels of device host:0 can use; found "
                           "input 1 in pageable memory of the host, or in memory of another runtime"))
          << text;
    }
  }
  EXPECT_EQ(cache.run({0}, inputs(x, x), body).read(), multiples(n, 2));
}

// As with peer access of CUDA devices.
TEST(InputsOfGraphCaches, MayLieInMemoryOfAnotherHostDevice) {
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "there may be no peer access";
  const std::optional<Device> other = graphs::test::second_device();
  if (!other) GTEST_SKIP() << "needs two devices (REPRISE_HOST_DEVICES=2 gives two host devices)";
  const DeviceGuard there(*other);
  const Buffer<int> elsewhere = counting(n);
  const DeviceGuard here(default_device());
  const auto padded = [](std::size_t, DeviceView<const int> in) { return Multiplying{}(in); };
  for (const CacheInputs way : {CacheInputs::copy, CacheInputs::patch}) {
    GraphCache cache({.capture_after = 0, .inputs = way, .padding = [](std::size_t) { return 2 * n; }});
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(cache.run({0}, inputs(elsewhere), Multiplying{}).read(), multiples(n, 2));
      EXPECT_EQ(cache.run_padded({1}, n, inputs(elsewhere), padded).read(), multiples(n, 2));
    }
  }
}

TEST(PaddedGraphCaches, RefuseLengthsAndRowsThatCannotBe) {
  GraphCache plain, small({.padding = [](std::size_t) { return std::size_t{4}; }});
  const Buffer<int> x = counting(10);
  const auto body = [](std::size_t, DeviceView<const int> in) { return Multiplying{}(in); };
  EXPECT_THROW(plain.run_padded({}, 10, inputs(x), body), UsageError);
  EXPECT_THROW(small.run_padded({}, 0, inputs(x), body), UsageError);
  EXPECT_TRUE(
      contains(text_of<UsageError>([&] { small.run_padded({}, 10, inputs(x), body); }), "at least 10; found 4"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { small.run_padded({}, 3, inputs(x), body); }),
                       "expected input 0 to have 3 rows; found 10 values"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] {
                         small.run_padded({}, 2, inputs(x), [](std::size_t, auto) { return Buffer<int>(5); });
                       }),
                       "expected result 0 to have 4 rows; found 5 values"));
  for (const std::size_t after : {0, 2})
    for (const std::size_t length : {std::size_t{1} << 62, (std::size_t{1} << 62) - 1}) {
      GraphCache large({.capture_after = after, .padding = [=](std::size_t) { return length; }});
      const std::string found = "inputs fit into memory; found " + std::to_string(length) + " for the length 10";
      EXPECT_TRUE(contains(text_of<UsageError>([&] { large.run_padded({}, 10, inputs(x), body); }), found));
      EXPECT_TRUE(contains(text_of<UsageError>([&] { large.capture_padded({}, 10, inputs(x), body); }), found));
      EXPECT_EQ(large.statistics().failed_captures.number, after == 0 ? 1U : 0U);
    }
}

}  // namespace
}  // namespace reprise::caches::test
