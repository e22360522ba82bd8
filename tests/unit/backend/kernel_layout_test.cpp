// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "reprise/kernel.h"

// Where the parameters of a kernel lie: each at the next multiple of its alignment, as in CUDA's parameter blocks.

namespace reprise {
namespace {

using Places = std::vector<std::pair<std::size_t, std::size_t>>;  // offset, size

template <class... Params>
Places places() {
  using Layout = kernel_detail::ParamLayout<std::tuple<Params...>>;
  Places result;
  for (std::size_t i = 0; i < Layout::count; ++i)
    result.emplace_back(Layout::table.params[i].offset, Layout::table.params[i].size);
  return result;
}

template <class... Params>
constexpr std::size_t size_of_block =
    kernel_detail::ParamLayout<std::tuple<Params...>>::table.params[sizeof...(Params)].offset;

struct ThreeBytes {
  char bytes[3];
};
struct alignas(16) Vector {
  float x, y, z, w;
};

TEST(KernelLayout, OfNoParametersIsEmpty) {
  EXPECT_TRUE(places<>().empty());
  static_assert(size_of_block<> == 0);
}

TEST(KernelLayout, PutsEqualTypesSideBySide) {
  EXPECT_EQ((places<int, int, int>()), (Places{{0, 4}, {4, 4}, {8, 4}}));
  EXPECT_EQ((places<char, char>()), (Places{{0, 1}, {1, 1}}));
}

TEST(KernelLayout, AlignsEachParameter) {
  EXPECT_EQ((places<char, double, char, int, short, void*>()),
            (Places{{0, 1}, {8, 8}, {16, 1}, {20, 4}, {24, 2}, {32, 8}}));
  EXPECT_EQ((places<bool, std::uint16_t, std::uint32_t, std::uint64_t>()), (Places{{0, 1}, {2, 2}, {4, 4}, {8, 8}}));
}

TEST(KernelLayout, KeepsStructuresWhole) {
  EXPECT_EQ((places<ThreeBytes, char, Vector, char>()), (Places{{0, 3}, {3, 1}, {16, 16}, {32, 1}}));
  EXPECT_EQ((places<char, ThreeBytes, short>()), (Places{{0, 1}, {1, 3}, {4, 2}}));
}

TEST(KernelLayout, EndsWithTheLastParameter) {
  static_assert(size_of_block<double, char> == 9);
  static_assert(size_of_block<char, double> == 16);
  static_assert(size_of_block<Vector, char> == 17);
}

struct OfAll {
  REPRISE_KERNEL void operator()(Thread, char, double, const float*, int) const {}
};

TEST(KernelLayout, IsInTheRecordOfAKernel) {
  const KernelRecord& record = kernel_record<OfAll>();
  ASSERT_EQ(record.params.size(), 4U);
  Places found;
  for (const KernelParam& param : record.params) found.emplace_back(param.offset, param.size);
  EXPECT_EQ(found, (Places{{0, 1}, {8, 8}, {16, 8}, {24, 4}}));
  EXPECT_EQ(record.params_bytes, 28U);
}

}  // namespace
}  // namespace reprise
