// SPDX-License-Identifier: Apache-2.0
#include "inspect/node_text.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "backend/check.h"

namespace reprise::inspect {
namespace {

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text != nullptr ? std::string(text.get()) : name;
}

// Where the first argument of a list ends that begins at `at`.
std::size_t end_of_argument(std::string_view text, std::size_t at) {
  for (int depth = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (depth == 0 && (c == ',' || c == '>')) return at;
    if (c == '<' || c == '(') ++depth;
    if (c == '>' || c == ')') --depth;
  }
  return at;
}

// Where the parameter list at the end begins; the whole size if there is none.
std::size_t begin_of_parameters(std::string_view text) {
  if (!text.ends_with(')')) return text.size();
  int depth = 0;
  for (std::size_t at = text.size(); at-- > 0;) {
    if (text[at] == ')') ++depth;
    if (text[at] == '(' && --depth == 0) return at;
  }
  return text.size();
}

}  // namespace

std::string kernel_text(std::string_view name) {
  // nvcc makes an instance of this template of a kernel that is a function object.
  constexpr std::string_view entry = "::cuda_entry<";
  const std::string text = demangled(std::string(name));
  const std::string_view whole = text;
  if (const std::size_t at = whole.find(entry); at != std::string_view::npos) {
    const std::size_t begin = at + entry.size();
    return text.substr(begin, end_of_argument(whole, begin) - begin);
  }
  if (text == name) return text;  // not mangled
  std::string_view rest = whole.substr(0, begin_of_parameters(whole));
  constexpr std::string_view result = "void ";
  if (rest.starts_with(result)) rest.remove_prefix(result.size());
  return std::string(rest);
}

std::string kernel_text(backend::Backend& backend, FunctionHandle function) {
  const char* name = nullptr;
  const Result result = backend.function_name(function, &name);
  if (!backend::report(backend, backend::Call::function_name, result) || name == nullptr) return "kernel";
  return "kernel " + kernel_text(name);
}

std::string node_text(std::string_view what, std::string_view number, GraphNodeHandle /*node*/) {
  return fmt::format("{} (node {})", what, number);
}

}  // namespace reprise::inspect
