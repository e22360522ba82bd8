// SPDX-License-Identifier: Apache-2.0
#include "random/lent_words.h"

#include <algorithm>
#include <utility>

#include "captures/registry.h"

namespace reprise::random {
namespace {

constinit captures::Slot<LentWords> lent_words_of;

template <class Visit>
void for_each_other(const LentWords& mine, const Visit& visit) {
  captures::for_each([&](const captures::Capture& capture) {
    const std::shared_ptr<LentWords> words = capture.get(lent_words_of);
    if (words != nullptr && words.get() != &mine) visit(*words);
  });
}

}  // namespace

// Joins the capture before it reads the words of others: those that are noted meanwhile reach it in one of the two
// ways.
std::shared_ptr<LentWords> LentWords::open(captures::Capture& capture) {
  auto words = std::make_shared<LentWords>();
  capture.attach(lent_words_of, words);
  for_each_other(*words, [&](const LentWords& other) {
    const std::scoped_lock lock(words->mutex_, other.mutex_);
    words->of_others_.insert(other.own_.begin(), other.own_.end());
  });
  return words;
}

void LentWords::lend(const std::uint64_t* words) {
  const auto address = reinterpret_cast<std::uintptr_t>(words);
  {
    const std::lock_guard lock(mutex_);
    own_.insert(address);
  }
  for_each_other(*this, [&](LentWords& other) { other.add_foreign(address); });
}

std::shared_ptr<LentWords> LentWords::of(const captures::Capture& capture) noexcept {
  return capture.get(lent_words_of);
}

void LentWords::serves(std::shared_ptr<ExternalGenerator> generator, std::uint64_t* words) {
  const std::lock_guard lock(mutex_);
  served_.push_back({std::move(generator), words});
}

LentWords::Served LentWords::serving(const DrawSource& source) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      served_, [&](const Served& each) { return each.generator->identity() == source.identity(); });
  return found != served_.end() ? *found : Served{};
}

void LentWords::add_foreign(std::uintptr_t address) {
  if (address == 0) return;
  const std::lock_guard lock(mutex_);
  of_others_.insert(address);
}

LentWords::Addresses LentWords::of_others() const {
  const std::lock_guard lock(mutex_);
  return of_others_;
}

}  // namespace reprise::random
