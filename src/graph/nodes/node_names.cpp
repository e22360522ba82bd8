// SPDX-License-Identifier: Apache-2.0
#include "graph/nodes/node_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>

#include "backend/rules/kernel_text.h"

namespace reprise::graphs {
namespace {

/// The parts of a name; absent are those that it is written without. Without the spaces that are no separators.
struct NameParts {
  std::optional<std::string> scope;  // namespaces and enclosing classes and functions; empty: the global namespace
  std::string name;
  std::optional<std::string> arguments;  // of the template
  std::optional<std::string> parameters;
};

bool is_word(char c) {
  return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
}

// If an operator's name is at this place, what follows it; else the same place.
std::size_t past_operator(std::string_view text, std::size_t at) {
  constexpr std::string_view word = "operator";
  if (!text.substr(at).starts_with(word) || (at > 0 && is_word(text[at - 1]))) return at;
  const std::string_view rest = text.substr(at + word.size());
  constexpr std::array<std::string_view, 14> with_brackets = {"()", "[]", "<=>", "<<=", ">>=", "->*", "<<",
                                                              ">>", "->", "<=",  ">=",  "<",   ">",   ","};
  for (const std::string_view symbol : with_brackets)
    if (rest.starts_with(symbol)) return at + word.size() + symbol.size();
  return at;
}

// Returns the place behind the bracket that opens at `at`; nullopt if it is not closed.
std::optional<std::size_t> past_bracket(std::string_view text, std::size_t at) {
  std::string open;
  while (at < text.size()) {
    if (const std::size_t past = past_operator(text, at); past != at) {
      at = past;
      continue;
    }
    const char c = text[at++];
    if (c == '-' && at < text.size() && text[at] == '>') ++at;
    if (c == '<' || c == '(' || c == '{') open += c;
    if (c == '>' && open.back() == '<') open.pop_back();
    if (c == ')' || c == '}') {
      const std::size_t opening = open.rfind(c == ')' ? '(' : '{');  // "<" within may have been an operator
      if (opening == std::string::npos) return std::nullopt;
      open.resize(opening);
    }
    if (open.empty()) return at;
  }
  return std::nullopt;
}

std::string without_spaces(std::string_view text) {
  std::string left;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool separates = !left.empty() && is_word(left.back()) && i + 1 < text.size() && is_word(text[i + 1]);
    if (text[i] != ' ' || separates) left += text[i];
  }
  return left;
}

// A type or value of a list as the demangler writes it: "float const*" and "3".
std::string list_element(std::string_view text) {
  std::string element = without_spaces(text);
  constexpr std::string_view qualifier = "const ";
  if (element.starts_with(qualifier)) {
    element.erase(0, qualifier.size());
    std::size_t end = 0;
    while (end < element.size() && element[end] != '*' && element[end] != '&')
      end = element[end] == '<' ? past_bracket(element, end).value_or(element.size()) : end + 1;
    element.insert(end, " const");
  }
  const bool number = !element.empty() && element.find_first_not_of("-0123456789ul") == std::string::npos;
  if (number && std::isdigit(static_cast<unsigned char>(element[element.size() > 1 && element[0] == '-' ? 1 : 0])) != 0)
    element.resize(element.find_last_of("0123456789") + 1);
  return element;
}

// A list in brackets.
std::string list(std::string_view text) {
  std::string made(1, text.front());
  std::size_t begin = 1;
  for (std::size_t at = 1; at < text.size();) {
    const char c = text[at];
    if (c == ',' || at + 1 == text.size()) {
      made += list_element(text.substr(begin, at - begin)) + c;
      begin = ++at;
    } else if (const std::size_t past = past_operator(text, at); past != at) {
      at = past;
    } else {
      at = c == '<' || c == '(' || c == '{' ? past_bracket(text, at).value_or(text.size()) : at + 1;
    }
  }
  return made;
}

// Nothing if it is no name.
std::optional<NameParts> parse(std::string_view text) {
  if (text.starts_with(' ') || text.ends_with(' ')) return std::nullopt;
  constexpr std::string_view result = "void ";
  if (text.starts_with(result)) text.remove_prefix(result.size());
  NameParts parts;
  for (std::size_t at = 0;; at += 2) {
    if (at > 0) parts.scope = without_spaces(text.substr(0, at - 2));
    const std::size_t begin = at;
    const auto is_at = [&](std::string_view what) { return text.substr(at).starts_with(what); };
    // "(anonymous namespace)", "{lambda(int)#1}"
    const bool bracketed = is_at("(") || is_at("{");
    const std::optional<std::size_t> past = bracketed ? past_bracket(text, at) : past_operator(text, at);
    if (!past) return std::nullopt;
    at = *past;
    while (at < text.size() && !is_at("<") && !is_at("(") && !is_at("::")) ++at;
    parts.name = without_spaces(text.substr(begin, at - begin));
    const auto take_list = [&](const char* opening, std::optional<std::string>& taken) {
      taken.reset();
      if (!is_at(opening)) return true;
      const std::optional<std::size_t> end = past_bracket(text, at);
      if (!end) return false;
      taken = list(text.substr(at, *end - at));
      at = *end;
      return true;
    };
    while (is_at(" ")) ++at;  // "operator< <int>"
    if (!take_list("<", parts.arguments) || !take_list("(", parts.parameters)) return std::nullopt;
    at = std::min(text.find("::", at), text.size());  // past "const" of a member
    if (at < text.size()) continue;
    if (parts.name.empty()) return std::nullopt;
    return parts;
  }
}

}  // namespace

bool is_name_of_kernel(std::string_view wanted, const char* symbol, const std::string& parameters) {
  if (symbol == nullptr || wanted.empty()) return false;
  if (wanted == symbol) return true;
  const std::string name = backend::kernel_text(symbol), own_parameters = backend::kernel_parameters_text(symbol);
  if (wanted == name) return true;
  const std::optional<NameParts> query = parse(wanted);
  const std::optional<NameParts> has = parse(name + (own_parameters.empty() ? parameters : own_parameters));
  if (!query || !has || query->name != has->name) return false;
  return (!query->scope || *query->scope == has->scope.value_or("")) &&
         (!query->arguments || query->arguments == has->arguments) &&
         (!query->parameters || query->parameters == has->parameters);
}

}  // namespace reprise::graphs
