// SPDX-License-Identifier: Apache-2.0
#include "support/immortal.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <utility>

namespace reprise::support {
namespace {

struct Counted {
  Counted(std::string text, int* destroyed_count) : name(std::move(text)), destroyed(destroyed_count) {}
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { ++*destroyed; }

  std::string name;
  int* destroyed;
};

TEST(Immortal, IsConstructedFromItsArgumentsAndNeverDestroyed) {
  int destroyed = 0;
  {
    Immortal<Counted> object("a name that is longer than a string holds inside", &destroyed);
    const Immortal<Counted>& same = object;
    EXPECT_EQ(&*object, &*same);
    EXPECT_EQ(same->name, "a name that is longer than a string holds inside");
    std::string().swap(object->name);  // what it owns is not released
  }
  EXPECT_EQ(destroyed, 0);
  static_assert(std::is_trivially_destructible_v<Immortal<Counted>>);
}

TEST(Immortal, StartsWithZerosWhereTheTypeHasNoConstructor) {
  struct Plain {
    int a, b;
  };
  const Immortal<Plain> plain;
  EXPECT_EQ(plain->a, 0);
  EXPECT_EQ(plain->b, 0);
}

}  // namespace
}  // namespace reprise::support
