// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/entry.h"
#include "reprise/cache_key.h"
#include "reprise/cache_statistics.h"
#include "reprise/graph_cache.h"

namespace reprise::caches {

/// The name of a field of keys, or its number.
std::string field_name(const std::vector<std::string>& names, std::size_t field);

/// The number of keys without a graph that are remembered, besides those that lose theirs at once.
inline constexpr std::size_t most_keys = 4096;

/// The record of one key in a cache; GraphCache lists its states.
struct Record {
  explicit Record(const CacheKey& its_key) : key(its_key) {}

  // Members that a hit touches come first.
  std::shared_ptr<Entry> entry = {};  // captured; shared with calls that run eagerly instead
  std::size_t hits = 0;               // since the capture
  std::uint64_t last_use = 0;         // number of the call among those of the cache; 0: none
  const CacheKey key;
  std::size_t calls = 0;                             // eager ones, of a key that is counted
  std::shared_ptr<const CacheFailure> failure = {};  // set: always eager
  bool too_large = false;                            // because of the bytes alone
  std::optional<RecaptureCause> evicted = {};        // why it has no graph any more
  unsigned short_lives = 0;                          // of graphs that were evicted after few replays, one after another
  std::size_t wait = 0;                              // eager calls before the next capture, because of these
  unsigned breaks = 0;                               // of captures, by other threads, one after another
  bool needs_capture = false;                        // the graph it had has control flow
  bool had_graph = false;                            // it has one, or had one before
  std::uint64_t bytes = 0;                           // that the entry it had adds, as far as that is known
};

/// The records of all keys: those with a graph, and the others, each in order of their last use. References are valid
/// until the record is erased. One thread at a time.
class Records {
 public:
  /// \param max_entries the number of records with a graph.
  explicit Records(std::size_t max_entries) : max_others_(most_keys + max_entries) {}

  Record* find(const CacheKey& key) {
    if (!captured_.empty() && captured_.front().key == key) [[likely]]
      return &captured_.front();  // as in the last call
    return find_by_hash(key);
  }
  /// The record of the key, a new one if there is none; the one that has been without use for longest is erased.
  Record& find_or_add(const CacheKey& key);
  /// The record is as that of a new key, but for RecaptureCause::forgotten if it has, or had, a graph. \returns false
  /// if there is none, or it was forgotten before.
  bool forget(const CacheKey& key);
  /// As forget() for all keys.
  void clear();

  /// The record is the last one that was used.
  void used(Record& record) {
    if (captured_.empty() || &captured_.front() != &record) [[unlikely]]
      move_to_front(record);
  }
  /// The record has a graph now, or none any more.
  void set_entry(Record& record, std::shared_ptr<Entry> entry);

  /// The least recently used record with a graph; null if there is none.
  Record* oldest() noexcept { return captured_.empty() ? nullptr : &captured_.back(); }
  /// Records with a graph, the last one that was used first.
  std::list<Record>& captured() noexcept { return captured_; }
  /// The keys that were used last: of those with a graph, and of the others, half of `most` each.
  std::vector<const CacheKey*> last_used(std::size_t most) const;
  std::size_t entries() const noexcept { return captured_.size(); }
  std::size_t others() const noexcept { return others_.size(); }
  bool has_forgotten() const noexcept { return has_forgotten_; }  ///< a record, for lack of room, since clear()

 private:
  struct Hash {
    std::size_t operator()(const CacheKey& key) const noexcept { return key.hash(); }
  };
  std::list<Record>& list_of(const Record& record) noexcept { return record.entry != nullptr ? captured_ : others_; }
  Record* find_by_hash(const CacheKey& key);
  void move_to_front(Record& record);
  void limit_others();
  void add_forgotten(const CacheKey& key);

  const std::size_t max_others_;
  bool has_forgotten_ = false;
  std::list<Record> captured_, others_;
  std::unordered_map<CacheKey, std::list<Record>::iterator, Hash> by_key_;
};

}  // namespace reprise::caches
