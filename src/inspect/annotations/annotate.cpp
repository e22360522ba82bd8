// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <thread>
#include <utility>

#include "captures/registry.h"
#include "inspect/annotations/annotation_text.h"
#include "inspect/annotations/capture_annotations.h"
#include "inspect/annotations/nvtx_ranges.h"
#include "reprise/annotations.h"
#include "reprise/error.h"

// Entering and leaving the scopes of users.

namespace reprise {

using inspect::CaptureAnnotations;

struct annotate::Scope {
  std::shared_ptr<CaptureAnnotations> capture;
  std::uint64_t number = 0;
  std::thread::id thread = std::this_thread::get_id();
  bool range = false;  // pushed
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
  std::string text;
  if (inspect::ranges_are_taken()) text = inspect::annotation_text(annotation);
  scope->number = scope->capture->enter(annotation, stream, found.info.dependencies);
  if (scope->number == 0) return;
  scope->range = inspect::ranges_are_taken();
  if (scope->range) inspect::push_range(text);
  scope_ = scope.release();
}

void annotate::leave() noexcept {
  const std::unique_ptr<Scope> scope(std::exchange(scope_, nullptr));
  scope->capture->leave(scope->number);
  if (scope->thread == std::this_thread::get_id()) {
    if (scope->range) inspect::pop_range();
    return;
  }
  warn(
      "A scope of the class annotate was left on another thread than it was entered on. It ended there, but goes on "
      "for tools that record ranges. Enter and leave it on one thread, as a local variable.");
}

}  // namespace reprise
