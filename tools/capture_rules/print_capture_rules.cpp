// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/rules/capture_rules.h"
#include "backend/rules/cuda_calls.h"
#include "tools/capture_rules/capture_rules_words.h"

// Writes the tables of docs/capture-rules.md, between its markers, from the table of capture rules and the table of
// CUDA's calls:
//
//   print_capture_rules docs/capture-rules.md           prints the page with current tables
//   print_capture_rules --check docs/capture-rules.md   fails if the page differs
//   print_capture_rules --update docs/capture-rules.md  writes the page; used by the target capture_rules_page

namespace reprise::docs {
namespace {

using backend::CallClass;
using backend::CaptureEffect;
using backend::CaptureRule;
using backend::Situation;

constexpr CallClass all_classes[] = {CallClass::potentially_unsafe, CallClass::stream_work,
                                     CallClass::stream_launch_only, CallClass::stream_unsafe,
                                     CallClass::stream_batch,       CallClass::stream_allocation,
                                     CallClass::stream_property,    CallClass::stream_wait,
                                     CallClass::event_wait,         CallClass::join,
                                     CallClass::device_wait,        CallClass::capture_query,
                                     CallClass::capture_begin,      CallClass::capture_update,
                                     CallClass::capture_end};

struct Names {
  std::set<std::string> runtime;
  std::set<std::string> driver;  ///< of calls that only the driver has
};

Names names_of(CallClass call_class) {
  Names names;
  for (const backend::CudaCall& call : backend::cuda_calls())
    if (call.call_class == call_class) {
      if (call.runtime.empty())
        names.driver.emplace(call.driver);
      else
        names.runtime.emplace(call.runtime);
    }
  return names;
}

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "`" : ", `") + name + "`";
  return text;
}

/// Breaks text between words, so that lines have at most 120 characters.
std::string wrapped(const std::string& text) {
  std::istringstream words(text);
  std::string lines, line;
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > 120) {
      lines += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return lines + line + "\n";
}

/// A line of a table of rules: one situation that several classes meet in the same way.
struct Line {
  CaptureRule rule;
  std::string classes;
};

bool is_same(const CaptureRule& a, const CaptureRule& b) {
  return a.situation == b.situation && a.result == b.result && a.effect == b.effect &&
         std::string(a.advice) == b.advice;
}

template <class Belongs>
std::vector<Line> lines_of(Belongs&& belongs) {
  std::vector<Line> lines;
  for (const CallClass call_class : all_classes)
    for (const CaptureRule& rule : backend::rules_of(call_class)) {
      if (!belongs(rule)) continue;
      const auto same = std::find_if(lines.begin(), lines.end(), [&](const Line& l) { return is_same(l.rule, rule); });
      if (same == lines.end())
        lines.push_back({rule, words_of(call_class)});
      else
        same->classes += "; " + words_of(call_class);
    }
  return lines;
}

std::string code_of(const CaptureRule& rule) {
  return std::to_string(static_cast<int>(rule.result));
}

/// "work; wait for a stream", or a word for most of them.
std::string calls_of(const Line& line) {
  const auto count = 1 + std::count(line.classes.begin(), line.classes.end(), ';');
  return count > 8 ? "anything on a stream" : line.classes;
}

std::string effect_of(const CaptureRule& rule) {
  if (rule.effect == CaptureEffect::ended) return "is over, no graph";
  if (rule.situation == Situation::other_capture) return "is broken, and so is the other";
  if (rule.situation == Situation::event_invalidated || rule.situation == Situation::event_of_ended_capture)
    return "is broken, if the waiting stream captures";
  return "is broken";
}

std::string breaks() {
  std::string text = "| call | when | code | the capture then | instead |\n|---|---|---|---|---|\n";
  for (const Line& line : lines_of([](const CaptureRule& rule) { return rule.effect != CaptureEffect::none; }))
    text += "| " + calls_of(line) + " | " + words_of(line.rule.situation) + " | " + code_of(line.rule) + " | " +
            effect_of(line.rule) + " | " + line.rule.advice + " |\n";
  return text;
}

std::string refused() {
  std::string text = "| call | when | code | instead |\n|---|---|---|---|\n";
  const auto belongs = [](const CaptureRule& rule) {
    return rule.effect == CaptureEffect::none && rule.situation != Situation::stream_invalidated;
  };
  for (const Line& line : lines_of(belongs))
    text += "| " + calls_of(line) + " | " + words_of(line.rule.situation) + " | " + code_of(line.rule) + " | " +
            line.rule.advice + " |\n";
  return text;
}

std::string refused_after_breaking() {
  std::string text = "| call, on a stream of the capture | code |\n|---|---|\n";
  std::map<ErrorCode, std::string> calls;
  for (const CallClass call_class : all_classes)
    for (const CaptureRule& rule : backend::rules_of(call_class))
      if (rule.situation == Situation::stream_invalidated && rule.effect == CaptureEffect::none) {
        std::string& of_code = calls[rule.result];
        of_code += (of_code.empty() ? "" : "; ") + words_of(call_class);
      }
  for (const auto& [result, of_code] : calls)
    text += "| " + of_code + " | " + std::to_string(static_cast<int>(result)) + " |\n";
  return text;
}

/// The calls of a class as text.
std::string paragraph(CallClass call_class) {
  const Names names = names_of(call_class);
  return wrapped(listed(names.runtime) + "; of the driver alone: " + listed(names.driver) + ".");
}

std::string kinds() {
  std::string text = "| kind of call | the calls |\n|---|---|\n";
  for (const CallClass call_class : all_classes) {
    if (call_class == CallClass::potentially_unsafe) continue;
    const Names names = names_of(call_class);
    text += "| " + words_of(call_class) + " | " + listed(names.runtime) +
            (!names.runtime.empty() && !names.driver.empty() ? "; " : "") + listed(names.driver) + " |\n";
  }
  return text;
}

std::string section(const std::string& name) {
  if (name == "potentially unsafe") return paragraph(CallClass::potentially_unsafe);
  if (name == "breaks") return breaks();
  if (name == "refused") return refused();
  if (name == "broken before") return refused_after_breaking();
  if (name == "kinds") return kinds();
  throw std::runtime_error("no such table: " + name);
}

/// The page with new tables between its markers.
std::string with_tables(const std::string& page) {
  const std::string begin = "<!-- table: ", end = "<!-- end of table -->";
  std::istringstream lines(page);
  std::string made;
  for (std::string line; std::getline(lines, line);) {
    made += line + "\n";
    if (!line.starts_with(begin)) continue;
    const std::string name = line.substr(begin.size(), line.find(" -->") - begin.size());
    while (std::getline(lines, line) && line != end) {
    }
    if (line != end) throw std::runtime_error("the table has no end: " + name);
    made += "\n" + section(name) + "\n" + end + "\n";
  }
  return made;
}

std::string contents_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.size() > 2) throw std::runtime_error("[--check | --update] PAGE");
  const std::string mode = arguments.size() == 2 ? arguments.front() : "";
  const std::string& path = arguments.back();
  const std::string page = contents_of(path);
  const std::string made = with_tables(page);
  if (mode.empty()) {
    if (!(std::cout << made << std::flush)) throw std::runtime_error("standard output cannot be written");
  } else if (mode == "--update") {
    if (made != page && !(std::ofstream(path) << made << std::flush))
      throw std::runtime_error("\"" + path + "\" cannot be written");
  } else if (mode == "--check") {
    if (made == page) return 0;
    std::cerr << path << " differs from the capture rules. Build the target capture_rules_page, which corrects it, "
              << "and review the change.\n";
    return 1;
  } else {
    throw std::runtime_error("no such option: " + mode);
  }
  return 0;
}

}  // namespace
}  // namespace reprise::docs

int main(int count, char** arguments) {
  try {
    return reprise::docs::run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "print_capture_rules: %s\n", error.what());
    return 2;
  }
}
