// SPDX-License-Identifier: Apache-2.0
#include "inspect/annotations/annotation_text.h"

#include <algorithm>

namespace reprise::inspect {

std::string annotation_text(const Annotation& annotation) {
  std::string text;
  const auto name = annotation.find("name");
  if (name != annotation.end()) text = name->second;
  for (const auto& [key, value] : annotation) {
    if (key == "name") continue;
    if (!text.empty()) text += ", ";
    text += key;
    text += '=';
    text += value;
  }
  // Keeps the text on one line.
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return text;
}

}  // namespace reprise::inspect
