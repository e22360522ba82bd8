// SPDX-License-Identifier: Apache-2.0
#include "inspect/annotations/progress_marks.h"

#include <atomic>

#include "backend/check.h"

namespace reprise::inspect {
namespace {

MemsetNodeParams set_words(std::uint32_t* first, std::uint32_t value, std::size_t count) {
  return {.destination = first, .value = value, .element_bytes = sizeof(std::uint32_t), .count = count};
}

}  // namespace

void ProgressMarks::clear_on(const StreamRef& stream) {
  backend::Checked(stream.device().backend()).set_async(set_words(words_->data(), 0, limit), stream.native());
}

void ProgressMarks::add(const StreamRef& stream, const Annotation& annotation, bool in_body) {
  const std::lock_guard lock(mutex_);
  if (scopes_.size() == limit) return;
  scopes_.reserve(scopes_.size() + 1);
  std::uint32_t* const word = words_->data() + scopes_.size();
  backend::Checked(stream.device().backend()).set_async(set_words(word, 1, 1), stream.native());
  scopes_.push_back(annotation);
  if (!in_body) ++nodes_;
}

std::optional<Annotation> ProgressMarks::last() const {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = scopes_.size(); i-- > 0;)
    // Written by the device.
    if (std::atomic_ref(words_->data()[i]).load(std::memory_order_relaxed) != 0) return scopes_[i];
  return std::nullopt;
}

std::size_t ProgressMarks::nodes() const {
  const std::lock_guard lock(mutex_);
  return nodes_;
}

}  // namespace reprise::inspect
