// SPDX-License-Identifier: Apache-2.0
#include "graph/nodes/node_names.h"

#include <algorithm>

#include "backend/rules/kernel_text.h"

namespace reprise::graphs {
namespace {

std::string without_spaces(std::string_view text) {
  std::string left(text);
  std::erase(left, ' ');
  return left;
}

/// A name without the namespaces, classes and functions that it lies in.
struct LastPart {
  std::size_t begin = 0;
  std::size_t arguments = 0;  ///< where the template arguments begin; the end of the name without any
};

LastPart last_part(std::string_view name) {
  LastPart part{0, name.size()};
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (depth == 0 && name.substr(i).starts_with("::")) part = {i + 2, name.size()};
    if (depth == 0 && c == '<') part.arguments = i;
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == '}') --depth;
  }
  return part;
}

}  // namespace

bool is_name_of_kernel(std::string_view wanted, const char* symbol) {
  if (symbol == nullptr || wanted.empty() || wanted.starts_with(' ') || wanted.ends_with(' ')) return false;
  if (wanted == symbol) return true;
  const std::string text = without_spaces(wanted), name = backend::kernel_text(symbol);
  const std::string parameters = backend::kernel_parameters_text(symbol);
  const LastPart part = last_part(name);
  for (const std::size_t begin : {std::size_t{0}, part.begin})
    for (const std::size_t end : {name.size(), part.arguments}) {
      const std::string written = name.substr(begin, end - begin);
      if (text == without_spaces(written) || text == without_spaces(written + parameters)) return true;
    }
  return false;
}

}  // namespace reprise::graphs
