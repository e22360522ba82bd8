// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "captures/registry.h"
#include "inspect/annotations/capture_annotations.h"
#include "reprise/annotations.h"

// Entering and leaving the scopes of users.

namespace reprise {

using inspect::CaptureAnnotations;

struct annotate::Scope {
  std::shared_ptr<CaptureAnnotations> capture;
  std::uint64_t number = 0;
};

void annotate::enter(std::initializer_list<Entry> entries) {
  Annotation annotation;
  for (const auto& [key, value] : entries) annotation.emplace(key, value);
  enter(annotation);
}

void annotate::enter(const Annotation& annotation) {
  if (annotation.empty()) return;
  const StreamRef stream = current_stream();
  const captures::Found found = captures::find(stream);
  if (found.part != captures::Part::own) return;  // a broken capture gets no nodes
  auto scope = std::make_unique<Scope>();
  scope->capture = CaptureAnnotations::of(found);
  if (scope->capture == nullptr) return;
  scope->number = scope->capture->enter(annotation, stream, found.info.dependencies);
  if (scope->number == 0) return;
  scope_ = scope.release();
}

void annotate::leave() noexcept {
  const std::unique_ptr<Scope> scope(std::exchange(scope_, nullptr));
  scope->capture->leave(scope->number);
}

}  // namespace reprise
