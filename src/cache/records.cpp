// SPDX-License-Identifier: Apache-2.0
#include "cache/records.h"

#include <utility>

namespace reprise::caches {

[[gnu::hot]] Record* Records::find_by_hash(const CacheKey& key) {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &*found->second;
}

Record& Records::find_or_add(const CacheKey& key) {
  if (Record* const known = find(key)) return *known;
  others_.emplace_front(key);
  try {
    by_key_.emplace(key, others_.begin());
  } catch (...) {
    others_.pop_front();
    throw;
  }
  limit_others();
  return others_.front();
}

void Records::limit_others() {
  while (others_.size() > max_others_) {
    by_key_.erase(others_.back().key);
    others_.pop_back();
    has_forgotten_ = true;
  }
}

void Records::add_forgotten(const CacheKey& key) {
  Record& record = find_or_add(key);
  record.evicted = RecaptureCause::forgotten;
  record.had_graph = true;
}

bool Records::forget(const CacheKey& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return false;
  const auto record = found->second;
  const bool was_known = record->entry != nullptr || record->failure != nullptr || record->last_use != 0;
  const bool had_graph = record->had_graph;
  by_key_.erase(found);
  std::list<Record>& list = list_of(*record);
  list.erase(record);
  if (had_graph) add_forgotten(key);
  return was_known;
}

std::vector<const CacheKey*> Records::last_used(std::size_t most) const {
  std::vector<const CacheKey*> keys;
  for (const std::list<Record>* const list : {&others_, &captured_}) {
    std::size_t left = most / 2;
    for (auto each = list->begin(); each != list->end() && left != 0; ++each, --left) keys.push_back(&each->key);
  }
  return keys;
}

void Records::clear() {
  std::list<Record> all = std::move(others_);
  all.splice(all.end(), captured_);
  by_key_.clear();
  others_.clear();
  for (const Record& record : all)
    if (record.had_graph) add_forgotten(record.key);
  has_forgotten_ = false;
}

[[gnu::hot]] void Records::move_to_front(Record& record) {
  std::list<Record>& list = list_of(record);
  if (&list.front() != &record) list.splice(list.begin(), list, by_key_.at(record.key));
}

void Records::set_entry(Record& record, std::shared_ptr<Entry> entry) {
  const auto place = by_key_.at(record.key);
  std::list<Record>& from = list_of(record);
  std::swap(record.entry, entry);
  record.had_graph = true;
  std::list<Record>& to = list_of(record);
  to.splice(to.begin(), from, place);
  if (record.entry == nullptr) limit_others();  // the record itself is the last one that would go
}

}  // namespace reprise::caches
