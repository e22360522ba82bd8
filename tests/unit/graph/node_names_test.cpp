// SPDX-License-Identifier: Apache-2.0
#include "graph/nodes/node_names.h"

#include <gtest/gtest.h>

namespace reprise::graphs::test {
namespace {

TEST(NamesOfKernels, WithOrWithoutNamespacesArgumentsAndParameters) {
  // void ns::inner::scale<float, ns::Tag<int> >(float*, int)
  constexpr const char* symbol = "_ZN2ns5inner5scaleIfNS_3TagIiEEEEvPfi";
  for (const char* name :
       {symbol, "void ns::inner::scale<float, ns::Tag<int> >(float*, int)", "ns::inner::scale<float, ns::Tag<int> >",
        "ns::inner::scale", "scale<float, ns::Tag<int> >", "scale"})
    EXPECT_TRUE(is_name_of_kernel(name, symbol)) << name;
  for (const char* name :
       {"", "scal", "cale", "inner::scale", "ns", "Tag", "Tag<int>", "float", "scale<float>", "scale("})
    EXPECT_FALSE(is_name_of_kernel(name, symbol)) << name;
}

TEST(NamesOfKernels, ThatAreNotMangledAreTakenAsTheyAre) {
  EXPECT_TRUE(is_name_of_kernel("step", "step"));
  EXPECT_TRUE(is_name_of_kernel("f", "f"));
  EXPECT_FALSE(is_name_of_kernel("float", "f"));
  EXPECT_FALSE(is_name_of_kernel("step", nullptr));
}

TEST(NamesOfKernels, OfTypesOnTheHostDevice) {
  constexpr const char* name = "mine::(anonymous namespace)::Scale<float (int), mine::T>";
  EXPECT_TRUE(is_name_of_kernel("Scale", name));
  EXPECT_TRUE(is_name_of_kernel("Scale<float (int), mine::T>", name));
  EXPECT_TRUE(is_name_of_kernel("mine::(anonymous namespace)::Scale", name));
  EXPECT_FALSE(is_name_of_kernel("T>", name));
  EXPECT_TRUE(is_name_of_kernel("operator<", "operator<"));
}

}  // namespace
}  // namespace reprise::graphs::test
