// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "inspect/liveness/input_source.h"
#include "memory/watches/block_watch.h"
#include "reprise/liveness.h"
#include "reprise/stream.h"

namespace reprise::inspect {

/// Tables of pointers in memory of the device, whose entries a graph uses: CUDAGraph::watch_pointers().
///
/// Each table is
///
///     changed -> read -> changed (changed()) ...
///
/// and check() reads those that are `changed`. Threads: one at a time; replays hold the graph's launch mutex.
class WatchedPointers {
 public:
  /// The graph: its device, the pools that it owns, which memory counts, and memory of a framework.
  struct Graph {
    Device device;
    std::vector<MempoolId> pools;
    Liveness scope;
    std::shared_ptr<InputSource> source;  // null without a framework that has inputs here

    /// Looks addresses, sorted, up in all allocators.
    void find(std::span<memory::UsedAddress> addresses) const;
  };

  /// Adds a table, or changes the length of a known one. \throws UsageError if it is no such table.
  void add(const Graph& graph, const void* const* table, std::size_t count);
  /// The entries of all tables may have changed.
  void changed() noexcept;
  /// Watches the tables of other graphs, too. All are read again.
  void take(const WatchedPointers& other);
  bool empty() const noexcept { return tables_.empty(); }
  void clear() noexcept { tables_.clear(); }

  /// Adds the freed inputs. Reads changed tables by one copy each, in the order of `stream`, and waits for that; not
  /// tables whose own memory was freed. \throws UsageError if that would be a copy on a stream that is being captured
  /// \throws BackendError
  void check(const Graph& graph, const StreamRef& stream, std::vector<DeadInput>& dead);
  /// True if memory takes part whose frees are not notified, such as the driver's: check() queries it each time.
  bool queries() const noexcept;
  /// Adds the tables' entries as far as they were read, each block once.
  void list(std::vector<GraphInput>& inputs) const;

 private:
  // Memory that an entry points to, or the table's own.
  struct Target {
    GraphInput input;
    std::shared_ptr<memory::BlockWatch> watch;  // of an allocator's block that was in use
    std::uint64_t id = 0;                       // of an allocation of the driver; 0: none
    bool was_free = false;                      // in an allocator's memory, and not in use when the table was read

    bool needs_query() const noexcept { return id != 0 || (watch != nullptr && watch->owner->needs_query()); }
  };
  struct Table {
    const void* const* address;
    std::size_t count;
    Target own;
    bool is_read = false;
    std::vector<Target> targets = {};
  };

  static Target target_of(const Graph& graph, const memory::UsedAddress& used);
  static void read(const Graph& graph, const StreamRef& stream, Table& table);
  static bool add_if_dead(const Graph& graph, const Target& target, std::vector<DeadInput>& dead);

  std::vector<Table> tables_;
};

}  // namespace reprise::inspect
