// SPDX-License-Identifier: Apache-2.0
#include "backend/rules/kernel_text.h"

#include <string_view>
#include <utility>

#include "text/demangle.h"

namespace reprise::backend {
namespace {

// Returns the place where the bracket that ends the text opens; the length of the text if it has no such place.
std::size_t opening_of_last(std::string_view text) {
  int depth = 0;
  for (std::size_t i = text.size(); i-- > 0;) {
    if (text[i] == ')') ++depth;
    if (text[i] == '(' && --depth == 0) return i;
  }
  return text.size();
}

// Returns the text up to the end of the first template argument at its beginning.
std::string_view first_argument(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (depth == 0 && (c == ',' || c == '>')) return text.substr(0, i);
    if (c == '<' || c == '(') ++depth;
    if (c == '>' || c == ')') --depth;
  }
  return text;
}

// The demangler would take "f" for a type.
bool is_mangled(std::string_view symbol) {
  return symbol.starts_with("_Z");
}

}  // namespace

std::string without_inline_namespace(std::string name) {
  for (const std::string_view inline_namespace : {"kernels_host::", "kernels_nvcc::"})
    for (std::size_t at = 0; (at = name.find(inline_namespace)) != std::string::npos;)
      name.erase(at, inline_namespace.size());
  return name;
}

std::string kernel_text(const char* symbol) {
  if (symbol == nullptr) return "kernel";
  if (!is_mangled(symbol)) return symbol;
  std::string name = text::demangle(symbol);
  if (name.ends_with(')')) name.resize(opening_of_last(name));
  if (name.starts_with("void ")) name.erase(0, std::string_view("void ").size());
  constexpr std::string_view entry = "::kernel_detail::cuda_entry<";
  if (const std::size_t at = name.find(entry); name.starts_with("reprise::") && at != std::string::npos)
    name = std::string(first_argument(std::string_view(name).substr(at + entry.size())));
  return without_inline_namespace(std::move(name));
}

std::string kernel_parameters_text(const char* symbol) {
  if (symbol == nullptr || !is_mangled(symbol)) return "";
  const std::string name = text::demangle(symbol);
  return name.ends_with(')') ? without_inline_namespace(name.substr(opening_of_last(name))) : "";
}

}  // namespace reprise::backend
