// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/detail/tensor_structures.h"
#include "text/format.h"

// Values besides tensors among the arguments of graphed callables: whether two are the same, and their texts.

namespace reprise::libtorch::detail {
namespace {

// Not to be mistaken for a whole number.
template <class T>
std::string floating_text(T value) {
  std::string text = text::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

bool same_value(const c10::Scalar& a, const c10::Scalar& b) {
  return a.type() == b.type() && text_of(a) == text_of(b);
}

std::string text_of(const c10::Scalar& value) {
  if (value.isBoolean()) return value.toBool() ? "true" : "false";
  if (value.isComplex()) {
    const auto complex = value.toComplexDouble();
    return text::format("({}, {})", floating_text(complex.real()), floating_text(complex.imag()));
  }
  if (value.isFloatingPoint()) return floating_text(value.toDouble());
  return value.type() == c10::ScalarType::UInt64 ? text::format("{}", value.toUInt64())
                                                 : text::format("{}", value.toLong());
}

std::string text_of(float value) {
  return floating_text(value);
}

std::string text_of(const std::string& value) {
  return text::format("\"{}\"", value);
}

std::string text_of(c10::Device value) {
  return value.str();
}

std::string text_of(c10::ScalarType value) {
  return c10::toString(value);
}

}  // namespace reprise::libtorch::detail
