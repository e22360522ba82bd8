// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "tests/support/faulty_backend.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// GraphOptions::check_frozen_values on a device whose kernel nodes have their arguments in one block, as CUDA's have
// that were launched with `extra`.

namespace reprise::graphs::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// The arguments of a kernel node in one block.
class Packed {
 public:
  explicit Packed(const backend::KernelNodeParams& kernel) {
    const auto& record = *reinterpret_cast<const KernelRecord*>(kernel.function);  // that of a host device
    block_.resize(record.params_bytes);
    for (std::size_t i = 0; i < record.params.size(); ++i)
      std::memcpy(block_.data() + record.params[i].offset, kernel.params[i], record.params[i].size);
    bytes_ = block_.size();
    extra_[1] = block_.data();
    extra_[3] = &bytes_;
  }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
  void** extra() { return extra_; }

 private:
  std::vector<std::byte> block_;
  std::size_t bytes_ = 0;
  void* extra_[5] = {reinterpret_cast<void*>(1), nullptr, reinterpret_cast<void*>(2), nullptr, nullptr};
};

class PacksArguments final : public backend::test::FaultyBackend {
 public:
  using FaultyBackend::FaultyBackend;
  backend::Result graph_node_params(GraphNodeHandle node, backend::NodeParams* params) override {
    backend::Result result = FaultyBackend::graph_node_params(node, params);
    auto* const kernel = std::get_if<backend::KernelNodeParams>(params);
    if (result != ErrorCode::success || kernel == nullptr) return result;
    kernel->extra = packed_.insert_or_assign(node, std::make_unique<Packed>(*kernel)).first->second->extra();
    kernel->params = nullptr;
    return result;
  }
  backend::Result function_param_info(FunctionHandle function, std::size_t index, KernelParam* param) override {
    return knows_layouts ? FaultyBackend::function_param_info(function, index, param) : ErrorCode::not_supported;
  }
  bool knows_layouts = true;

 private:
  std::map<GraphNodeHandle, std::unique_ptr<Packed>> packed_;
};

class FrozenPackedValues : public ::testing::Test {
 protected:
  void SetUp() override {
    if (default_device().type() != DeviceType::host) GTEST_SKIP() << "it takes the kernel's record for its function";
  }
  static PacksArguments& runtime() {
    static auto& runtime = *new PacksArguments(default_device().backend());  // devices live until the process ends
    return runtime;
  }
  ~FrozenPackedValues() override { runtime_.knows_layouts = true; }

  PacksArguments& runtime_ = runtime();
  const DeviceGuard guard_{Device(runtime_)};
  Buffer<int> x_ = zeros(100);
  int i_ = 0;
  CUDAGraph graph_;
};

TEST_F(FrozenPackedValues, AnArgumentThatTheHostChangesIsNamedByItsParameter) {
  const reprise::test::Warnings warnings;
  try {
    capture(graph_, {.check_frozen_values = [this] { ++i_; }}, [&] { add(x_, 3 + i_); });
    FAIL() << "nothing was refused";
  } catch (const FrozenValuesError& error) {
    ASSERT_THAT(error.values(), SizeIs(1));
    EXPECT_EQ(error.values()[0].parameter, 1U);
    EXPECT_EQ(error.values()[0].offset, 0U);
    EXPECT_EQ(error.values()[0].bytes, 4U);
    EXPECT_EQ(error.values()[0].first, 3U);
    EXPECT_EQ(error.values()[0].second, 4U);
    EXPECT_FALSE(error.values()[0].perhaps);
  }
  EXPECT_THAT(warnings.texts(), IsEmpty());
  capture(graph_, {.check_frozen_values = [this] { ++i_; }}, [&] { add(x_, 3); });
}

TEST_F(FrozenPackedValues, MemoryOfTheBodyMayLieElsewhereInEachCapture) {
  for (const bool knows_layouts : {true, false}) {
    const reprise::test::Warnings warnings;
    runtime_.knows_layouts = knows_layouts;
    Buffer<int> result;
    capture(graph_, {.check_frozen_values = no_next}, [&] {
      result = Buffer<int>(100);
      multiply(x_, 2, result);
    });
    EXPECT_THAT(warnings.texts(), IsEmpty()) << knows_layouts;
    graph_.reset();
  }
}

TEST_F(FrozenPackedValues, WithoutItsLayoutABlockPerhapsDiffers) {
  const reprise::test::Warnings warnings;
  runtime_.knows_layouts = false;
  capture(graph_, {.check_frozen_values = [this] { ++i_; }}, [&] { add(x_, 3 + i_); });
  ASSERT_THAT(warnings.texts(), SizeIs(1));
  EXPECT_THAT(warnings.texts()[0], StartsWith("GraphOptions::check_frozen_values: 1 word of the graph differs"));
  EXPECT_THAT(warnings.texts()[0], HasSubstr("or in blocks of arguments, whose members are unknown"));
  EXPECT_THAT(warnings.texts()[0], HasSubstr("  kernel reprise::graphs::test::Add (node 0), byte 8 of the block of "
                                             "arguments (4 bytes): 0x3 (3, 4e-45), then 0x4 (4, 6e-45)\n"));
}

}  // namespace
}  // namespace reprise::graphs::test
