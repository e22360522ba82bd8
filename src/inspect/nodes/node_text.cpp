// SPDX-License-Identifier: Apache-2.0
#include "inspect/nodes/node_text.h"

#include "backend/check.h"
#include "backend/rules/kernel_text.h"
#include "inspect/annotations/annotation_text.h"
#include "text/format.h"

namespace reprise::inspect {

std::string kernel_text(backend::Backend& backend, FunctionHandle function) {
  const char* name = nullptr;
  if (!backend::WarnOnError(backend).function_name(function, &name) || name == nullptr) return "kernel";
  return "kernel " + backend::kernel_text(name);
}

std::string node_text(std::string_view what, std::string_view number, const Annotation* annotation) {
  const std::string within = annotation != nullptr ? " in " + annotation_text(*annotation) : std::string();
  return text::format("{} (node {}){}", what, number, within);
}

}  // namespace reprise::inspect
