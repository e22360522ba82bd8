// SPDX-License-Identifier: Apache-2.0
// For cache_key_test.cpp, whose type has the same name.
#include <typeindex>

namespace reprise::caches::test {
namespace {

struct TypeOfOneFile {};

}  // namespace

std::type_index type_of_another_file() {
  return typeid(TypeOfOneFile);
}

}  // namespace reprise::caches::test
