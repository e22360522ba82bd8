// SPDX-License-Identifier: Apache-2.0
#include "graph/nodes/nodes_by_name.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace reprise::graphs::test {
namespace {

TEST(NamesOfKernels, WithOrWithoutNamespacesArgumentsAndParameters) {
  // void ns::inner::scale<float, ns::Tag<int> >(float*, int)
  constexpr const char* symbol = "_ZN2ns5inner5scaleIfNS_3TagIiEEEEvPfi";
  for (const char* name :
       {symbol, "ns::inner::scale<float, ns::Tag<int> >(float*, int)", "ns::inner::scale<float, ns::Tag<int> >",
        "ns::inner::scale", "scale<float, ns::Tag<int> >", "scale"})
    EXPECT_TRUE(is_name_of_kernel(name, symbol)) << name;
  for (const char* name : {"",
                           "scal",
                           "cale",
                           "inner::scale",
                           "ns",
                           "Tag",
                           "Tag<int>",
                           "float",
                           "scale<float>",
                           "scale(",
                           "scale()",
                           "scale<",
                           "scale ",
                           " scale",
                           "scale(float*)",
                           "scale<float, ns::Tag<int> >()",
                           "inner::scale(float*, int)",
                           "::scale",
                           "scale>",
                           "scale)",
                           "(",
                           "<",
                           "::",
                           "void "})
    EXPECT_FALSE(is_name_of_kernel(name, symbol)) << name;
}

/// Names that are, and are not, those of a kernel.
struct Named {
  const char* symbol;
  std::initializer_list<const char*> names;
  std::initializer_list<const char*> others;
};

void expect_names(const Named& kernel) {
  for (const char* const name : kernel.names) EXPECT_TRUE(is_name_of_kernel(name, kernel.symbol)) << name;
  for (const char* const name : kernel.others) EXPECT_FALSE(is_name_of_kernel(name, kernel.symbol)) << name;
}

TEST(NamesOfKernels, MayLeaveOutEachPartOfTheName) {
  // void ns::f<3>(int)
  expect_names({"_ZN2ns1fILi3EEEvi",
                {"f", "f(int)", "f<3>", "f<3>(int)", "ns::f", "ns::f(int)", "ns::f<3>", "ns::f<3>(int)", "f<3>( int )"},
                {"f(float)", "f<4>", "f<3>(float)", "f<4>(int)", "ns::f(float)", "ns::f<>", "f()", "::f", "other::f",
                 "f<3", "f(int"}});
  // ns::f(int): no template
  expect_names({"_ZN2ns1fEi", {"f", "f(int)", "ns::f", "ns::f(int)"}, {"f<3>", "f<3>(int)", "ns::f<3>", "f(float)"}});
  // void ns::g<7u, double>(double const*, unsigned long)
  expect_names({"_ZN2ns1gILj7EdEEvPKT0_m",
                {"g<7u, double>", "g<7u,double>", "g(double const *,unsigned long)"},
                {"g<7>", "g<7, float>", "g(double*, unsigned long)", "g(const double*)"}});
}

TEST(NamesOfKernels, OfNestedClassesAndNamespacesWithoutAName) {
  // ns::Q::In<4>::k(int)
  expect_names({"_ZN2ns1Q2InILi4EE1kEi",
                {"k", "k(int)", "ns::Q::In<4>::k", "ns::Q::In<4>::k(int)"},
                {"k<4>", "In<4>::k", "ns::Q::In<5>::k", "ns::Q::In::k"}});
  // void (anonymous namespace)::k<int>(int*)
  expect_names({"_ZN12_GLOBAL__N_11kIiEEvPT_",
                {"k", "k<int>", "k(int*)", "(anonymous namespace)::k", "(anonymous namespace)::k(int*)"},
                {"k(int)", "::k", "(anonymous namespace)"}});
  expect_names({"_Z4use2v", {"use2", "use2()"}, {"ns::use2", "::use2"}});
}

TEST(NamesOfKernels, OfOperatorsAreTheWholeNames) {
  // void ns::operator< <int>(int, ns::S)
  expect_names({"_ZN2nsltIiEEvT_NS_1SE",
                {"ns::operator< <int>", "ns::operator< <int>(int, ns::S)"},
                {"operator<=", "operator< <float>", "operator<(int)"}});
}

TEST(NamesOfKernels, WithLambdasAndPointersToFunctions) {
  // void ns::run<ns::use()::{lambda(int, float)#1}>(ns::use()::{lambda(int, float)#1})
  expect_names({"_ZN2ns3runIZNS_3useEvEUlifE_EEvT_",
                {"run", "run<ns::use()::{lambda(int, float)#1}>", "ns::run(ns::use()::{lambda(int, float)#1})"},
                {"{lambda(int, float)#1}", "use", "run<ns::use()::{lambda(int, float)#2}>", "run(int, float)"}});
  // ns::h(void (*)(int, float), int (&) [3])
  expect_names({"_ZN2ns1hEPFvifERA3_i",
                {"h", "h(void (*)(int, float), int (&) [3])", "ns::h(void(*)(int,float), int(&)[3])"},
                {"h(void (*)(int, int), int (&) [3])", "h(void (*)(int, float))", "h(int, float)"}});
  // The type of a lambda, as on the host device.
  expect_names({"mine::work(int)::{lambda(reprise::Thread, int*)#2}",
                {"{lambda(reprise::Thread, int*)#2}", "mine::work(int)::{lambda(reprise::Thread, int*)#2}"},
                {"work", "{lambda(reprise::Thread, int*)#1}", "mine::work(float)::{lambda(reprise::Thread, int*)#2}"}});
}

TEST(NamesOfKernels, OfLaunch) {
  // on CUDA: reprise::kernel_detail::cuda_entry<user::Scale, float, float*>(float, float*)
  expect_names({"_ZN7reprise12kernels_nvcc13kernel_detail10cuda_entryIN4user5ScaleEJfPfEEEvDpT0_",
                {"Scale", "user::Scale", "Scale(float, float*)"},
                {"Scale(float)", "cuda_entry"}});
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
