// SPDX-License-Identifier: Apache-2.0
#include "inspect/annotations/progress_marks.h"

#include <map>
#include <shared_mutex>

#include "backend/check.h"
#include "support/immortal.h"

namespace reprise::inspect {
namespace {

MemsetNodeParams set_words(std::uint32_t* first, std::uint32_t value, std::size_t count) {
  return {.destination = first, .value = value, .element_bytes = sizeof(std::uint32_t), .count = count};
}

/// The words of all graphs, by address.
struct AllWords {
  std::shared_mutex mutex;
  std::map<const std::uint32_t*, const ProgressMarks::Words*, std::greater<>> words;
};

AllWords& all_words() {
  static support::Immortal<AllWords> all;
  return *all;
}

}  // namespace

bool is_progress_word(const void* address) {
  AllWords& all = all_words();
  const std::shared_lock lock(all.mutex);
  const auto found = all.words.lower_bound(static_cast<const std::uint32_t*>(address));  // begins at or before it
  return found != all.words.end() && found->second->has(address);
}

ProgressMarks::Words::Words(const Device& device) : device_(device), words_(limit, device) {
  AllWords& all = all_words();
  const std::lock_guard lock(all.mutex);
  all.words.emplace(words_.data(), this);
}

ProgressMarks::Words::~Words() {
  AllWords& all = all_words();
  const std::lock_guard lock(all.mutex);
  all.words.erase(words_.data());
}

void ProgressMarks::clear_on(const StreamRef& stream) {
  backend::Checked(stream.device().backend()).set_async(set_words(words_->data(), 0, limit), stream.native());
}

void ProgressMarks::add(const StreamRef& stream, const Annotation& annotation, bool in_body) {
  const std::lock_guard lock(mutex_);
  if (scopes_.size() == limit) return;
  scopes_.reserve(scopes_.size() + 1);
  std::uint32_t* const word = words_->data() + scopes_.size();
  backend::Checked(stream.device().backend()).set_async(set_words(word, value_, 1), stream.native());
  scopes_.push_back(annotation);
  if (!in_body) ++nodes_;
}

std::shared_ptr<ProgressMarks> ProgressMarks::in(std::shared_ptr<Words> words) const {
  auto marks = std::make_shared<ProgressMarks>(std::move(words));
  const std::lock_guard lock(mutex_);
  marks->scopes_ = scopes_;
  marks->nodes_ = nodes_;
  return marks;
}

void ProgressMarks::move_to(const ProgressMarks& marks, MemsetNodeParams& set) const {
  set.destination = marks.words_->data() + (static_cast<std::uint32_t*>(set.destination) - words_->data());
  if (set.value == value_) set.value = marks.value_;
}

std::optional<Annotation> ProgressMarks::last() const {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = scopes_.size(); i-- > 0;)
    // Written by the device.
    if (std::atomic_ref(words_->data()[i]).load(std::memory_order_relaxed) == value_) return scopes_[i];
  return std::nullopt;
}

std::size_t ProgressMarks::nodes() const {
  const std::lock_guard lock(mutex_);
  return nodes_;
}

}  // namespace reprise::inspect
