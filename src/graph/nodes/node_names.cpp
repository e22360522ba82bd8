// SPDX-License-Identifier: Apache-2.0
#include "graph/nodes/node_names.h"

#include "backend/rules/kernel_text.h"
#include "text/demangle.h"

namespace reprise::graphs {
namespace {

bool opens(char c) {
  return c == '<' || c == '(' || c == '{';
}
bool closes(char c) {
  return c == '>' || c == ')' || c == '}';
}

// Without what is before the last "::" that is in no bracket.
std::string_view without_namespaces(std::string_view name) {
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    if (closes(name[i])) ++depth;
    if (opens(name[i])) --depth;
    if (depth == 0 && i > 0 && name[i] == ':' && name[i - 1] == ':') return name.substr(i + 1);
  }
  return name;
}

// Without the template arguments that end it.
std::string_view without_arguments(std::string_view name) {
  if (!name.ends_with('>')) return name;
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    if (closes(name[i])) ++depth;
    if (opens(name[i]) && --depth == 0) return i == 0 ? name : name.substr(0, i);
  }
  return name;
}

}  // namespace

bool is_name_of_kernel(std::string_view wanted, const char* symbol) {
  if (symbol == nullptr || wanted.empty()) return false;
  if (wanted == symbol) return true;
  const bool is_mangled = std::string_view(symbol).starts_with("_Z");  // the demangler would take "f" for a type
  if (is_mangled && wanted == text::demangle(symbol)) return true;
  const std::string full = backend::kernel_text(symbol);
  const std::string_view name = full, plain = without_arguments(name);
  return wanted == name || wanted == plain || wanted == without_namespaces(name) || wanted == without_namespaces(plain);
}

}  // namespace reprise::graphs
