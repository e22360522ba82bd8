// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/tensor_structures.h"
#include "text/format.h"

// Values besides tensors among the arguments of graphed callables: whether two are the same, and their texts in errors.

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
  if (a.type() != b.type()) return false;
  if (a.isComplex()) {
    const auto x = a.toComplexDouble(), y = b.toComplexDouble();
    return same_value(x.real(), y.real()) && same_value(x.imag(), y.imag());
  }
  if (a.isFloatingPoint()) return same_value(a.toDouble(), b.toDouble());
  if (a.isBoolean()) return a.toBool() == b.toBool();
  return a.type() == c10::ScalarType::UInt64 ? a.toUInt64() == b.toUInt64() : a.toLong() == b.toLong();
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

void ArgumentDifferences::add_structure(std::size_t argument, const std::string& expected, const std::string& found) {
  const auto or_nothing = [](const std::string& text) { return text.empty() ? "nothing" : text; };
  lines.push_back(
      text::format("argument {}: expected {}, found {}", argument, or_nothing(expected), or_nothing(found)));
  same_structure = false;
}

void ArgumentDifferences::add_values(std::size_t argument, bool without_tensors,
                                     const std::vector<std::string>& expected, const std::vector<std::string>& found) {
  const bool alone = without_tensors && expected.size() == 1;
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (expected[i] != found[i])
      lines.push_back(text::format("argument {}{}: expected {}, found {}", argument,
                                   alone ? "" : text::format(", value {}", i), expected[i], found[i]));
}

}  // namespace reprise::libtorch::detail
