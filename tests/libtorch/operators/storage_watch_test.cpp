// SPDX-License-Identifier: Apache-2.0
#include "libtorch/operators/storage_watch.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>

// What keeps memory of tensors for graphs.

namespace reprise::libtorch::test {
namespace {

class SomeOwner final : public StorageOwner {
 public:
  bool is_given_out_again(const memory::BlockWatch& /*watch*/) override { return false; }
};

TEST(StoragesThatGraphsKeep, AreReleasedByTheLastOfThem) {
  SomeOwner owner;
  auto tensor = torch::ones({4});
  const auto storage = tensor.storage().getWeakStorageImpl();
  StorageWatch watch{{&owner, static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes(), {}}, {storage}};
  for (int graph = 0; graph < 2; ++graph) ASSERT_TRUE(owner.retain(watch));
  tensor.reset();
  owner.release(watch);
  EXPECT_FALSE(storage.expired()) << "one graph still keeps it";
  owner.release(watch);
  EXPECT_TRUE(storage.expired());
  EXPECT_FALSE(owner.retain(watch)) << "nothing is there that could be kept";
}

}  // namespace
}  // namespace reprise::libtorch::test
