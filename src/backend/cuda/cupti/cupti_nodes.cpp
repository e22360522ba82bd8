// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cupti/cupti_nodes.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "backend/cuda/cupti/cupti_api.h"
#include "backend/cuda/cupti/cupti_watch.h"
#include "backend/rules/kernel_text.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::backend::cuda {
namespace {

constexpr CuptiPurpose node_times{
    "Nodes cannot be timed", "nodes cannot be timed. Run the program without it, or time the nodes with that tool"};

// The kinds whose records name the node of a graph.
constexpr std::array kinds = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                              CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET};

struct Record {
  std::uint64_t node = 0;         // CUPTI's number
  std::uint32_t correlation = 0;  // the same for all nodes of one launch; 0 in bodies of conditional nodes
  NodeTime time;                  // without the node
};

// The records from CUPTI, by executable. Buffers are delivered on any thread, also on CUPTI's own.
struct Collector {
  std::mutex enabling;  // held while activities are switched, and so buffers delivered
  std::size_t users = 0;
  CuptiApi api;  // set before activities are enabled

  std::mutex mutex;                                                // guards what follows; no call while it is held
  std::unordered_map<std::uint32_t, std::vector<Record>> records;  // of the watched executables
};

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  constexpr std::size_t size = 1 << 20;
  constexpr std::size_t alignment = 8;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(alignment, size));
  *bytes = *buffer != nullptr ? size : 0;  // without a buffer CUPTI drops and counts records
  *most_records = 0;                       // as many as it holds
}

template <class Activity>
void keep(const CUpti_Activity& activity, const char* name) {
  const auto& of_node = reinterpret_cast<const Activity&>(activity);
  Collector& to = support::Immortal<Collector>::get();
  const std::scoped_lock lock(to.mutex);
  const auto watched = to.records.find(of_node.graphId);
  if (watched == to.records.end() || of_node.end == 0) return;  // 0: it is not over
  watched->second.push_back({of_node.graphNodeId, of_node.correlationId, {nullptr, name, of_node.start, of_node.end}});
}

// The types of CUPTI 12.4: their members that are read here lie in the same places up to 13.5.
void keep(const CUpti_Activity& activity) {
  switch (activity.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel9&>(activity);
      if (kernel.graphNodeId != 0) keep<CUpti_ActivityKernel9>(activity, kernel_text(kernel.name).c_str());
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return keep<CUpti_ActivityMemcpy5>(activity, "memcpy");
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return keep<CUpti_ActivityMemcpyPtoP4>(activity, "memcpy");
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return keep<CUpti_ActivityMemset4>(activity, "memset");
    default:
      return;
  }
}

// Exceptions must not pass through CUPTI: without memory, records are missing.
void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) noexcept {
  try {
    CUpti_Activity* activity = nullptr;
    while (support::Immortal<Collector>::get().api.next_record(buffer, valid, &activity) == CUPTI_SUCCESS)
      keep(*activity);
  } catch (...) {
  }
  std::free(buffer);
}

// Returns the reason, without a full stop, if activities cannot be enabled. With `enabling` held, as the next one.
std::string enable(Collector& to, const OpenedCupti& cupti) {
  if (to.api.next_record == nullptr) to.api = cupti.api;  // once: a late buffer may be read meanwhile
  if (const CUptiResult result = to.api.register_buffers(&give_buffer, &take_buffer); result != CUPTI_SUCCESS)
    return failure_text(cupti, "cuptiActivityRegisterCallbacks", result);
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (const CUptiResult result = to.api.enable_activity(kinds[i]); result != CUPTI_SUCCESS) {
      while (i > 0) (void)to.api.disable_activity(kinds[--i]);
      return failure_text(cupti, "cuptiActivityEnable", result);
    }
  return {};
}

void disable(const Collector& to) {
  for (const CUpti_ActivityKind kind : kinds) (void)to.api.disable_activity(kind);
  (void)to.api.flush_activities(
      CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);  // else a buffer would be delivered to the next watch
}

// The number of nodes that have a record.
std::size_t with_records(const std::vector<WatchedNode>& nodes) {
  return static_cast<std::size_t>(std::ranges::count_if(nodes, [](const WatchedNode& node) {
    return node.type == NodeType::kernel || node.type == NodeType::memcpy || node.type == NodeType::memset;
  }));
}

using NodesByNumber = std::unordered_map<std::uint32_t, WatchedNode>;

std::optional<NodeIds> ids_from(const OpenedCupti& cupti, const std::vector<WatchedNode>& nodes, GraphExecHandle exec,
                                std::string* why) {
  if (cupti.api.lacks_activities != nullptr) {
    *why = text::format("{} has no {}", cupti.file, cupti.api.lacks_activities);
    return std::nullopt;
  }
  NodeIds ids;
  if (const CUptiResult result = cupti.api.graph_exec_id(exec, &ids.exec); result != CUPTI_SUCCESS) {
    *why = failure_text(cupti, "cuptiGetGraphExecId", result);
    return std::nullopt;
  }
  for (const WatchedNode& node : nodes)
    if (const CUptiResult result = cupti.api.graph_node_id(node.node, &ids.nodes.emplace_back());
        result != CUPTI_SUCCESS) {
      *why = failure_text(cupti, "cuptiGetGraphNodeId", result);
      return std::nullopt;
    }
  return ids;
}

class CuptiNodeWatch final : public NodeWatch {
 public:
  /// \param expected how many nodes have a record of each launch, unless they are disabled.
  CuptiNodeWatch(std::shared_ptr<void> subscriber, std::uint32_t exec, NodesByNumber nodes, std::size_t expected)
      : subscriber_(std::move(subscriber)), exec_(exec), nodes_(std::move(nodes)), expected_(expected) {}
  CuptiNodeWatch(const CuptiNodeWatch&) = delete;
  CuptiNodeWatch& operator=(const CuptiNodeWatch&) = delete;

  ~CuptiNodeWatch() override {
    if (!began_) return;
    Collector& from = support::Immortal<Collector>::get();
    {
      const std::scoped_lock lock(from.mutex);
      from.records.erase(exec_);
    }
    const std::scoped_lock lock(from.enabling);
    if (--from.users == 0) disable(from);
  }

  /// Returns the reason, without a full stop, if it cannot begin.
  std::string begin(const OpenedCupti& cupti) {
    Collector& to = support::Immortal<Collector>::get();
    const std::scoped_lock lock(to.enabling);
    if (to.users == 0)
      if (std::string why = enable(to, cupti); !why.empty()) return why;
    ++to.users;
    began_ = true;
    const std::scoped_lock records_lock(to.mutex);
    to.records[exec_].clear();
    return {};
  }

  std::vector<NodeTime> take(std::vector<std::string>* notes) override {
    Collector& from = support::Immortal<Collector>::get();
    flush(from, notes);
    std::vector<Record> records;
    {
      const std::scoped_lock lock(from.mutex);
      records.swap(from.records[exec_]);
    }
    std::size_t dropped = 0;
    if (from.api.dropped_records(nullptr, 0, &dropped) == CUPTI_SUCCESS && dropped != 0)
      notes->push_back(text::format("CUPTI dropped {} records: times of nodes are missing.", dropped));
    return last_launch(std::move(records));
  }

 private:
  using Clock = std::chrono::steady_clock;

  // CUPTI keeps a buffer as long as any work in it is not over, as that which was submitted behind the launch may be.
  // Forced, it gives the buffer at once, and drops the records of such work, which may belong to another watch.
  void flush(const Collector& from, std::vector<std::string>* notes) const {
    constexpr std::chrono::milliseconds without_records{1000}, after_some{50}, pause{1};
    const Clock::time_point begin = Clock::now();
    unsigned how = 0;
    for (;;) {
      if (const CUptiResult result = from.api.flush_activities(how); result != CUPTI_SUCCESS) {
        notes->push_back(text::format("cuptiActivityFlushAll returned {}.", static_cast<int>(result)));
        return;
      }
      const std::size_t found = nodes_with_records();
      if (found >= expected_ || how != 0) return;
      if (Clock::now() - begin > (found == 0 ? without_records : after_some)) how = CUPTI_ACTIVITY_FLAG_FLUSH_FORCED;
      std::this_thread::sleep_for(pause);
    }
  }

  // The number of nodes of the last launch that have records.
  std::size_t nodes_with_records() const {
    Collector& from = support::Immortal<Collector>::get();
    const std::scoped_lock lock(from.mutex);
    const std::vector<Record>& records = from.records[exec_];
    std::uint32_t last = 0;
    for (const Record& record : records) last = std::max(last, record.correlation);
    std::unordered_set<std::uint64_t> nodes;
    for (const Record& record : records)
      if (record.correlation == last) nodes.insert(record.node);
    return nodes.size();
  }

  // One time for each node: CUPTI may split a node's work into several records. Those of nodes in bodies, one for each
  // run, have the correlation 0 instead of the launch's (measured with CUDA 13.0).
  std::vector<NodeTime> last_launch(std::vector<Record> records) const {
    std::uint32_t last = 0;
    for (const Record& record : records) last = std::max(last, record.correlation);
    std::uint64_t first_start = UINT64_MAX;
    for (const Record& record : records)
      if (record.correlation == last) first_start = std::min(first_start, record.time.start_ns);
    std::vector<NodeTime> times;
    std::unordered_map<std::uint64_t, std::size_t> places;
    for (Record& record : records) {
      const bool in_body = record.correlation == 0 && record.time.start_ns >= first_start;
      if (record.correlation != last && !in_body) continue;  // a launch that still ran when the watch began
      const std::uint64_t took = record.time.end_ns - record.time.start_ns;
      const auto [place, is_new] = places.try_emplace(record.node, times.size());
      if (!is_new) {
        NodeTime& known = times[place->second];
        known.start_ns = std::min(known.start_ns, record.time.start_ns);
        known.end_ns = std::max(known.end_ns, record.time.end_ns);
        if (in_body) {
          ++known.runs;
          known.sum_ns += took;
        }
        continue;
      }
      NodeTime& time = times.emplace_back(std::move(record.time));
      if (in_body) time.sum_ns = took;
      const auto known = nodes_.find(static_cast<std::uint32_t>(record.node));
      if (known == nodes_.end()) continue;
      time.node = known->second.node;
      // The driver may copy or set by an internal kernel, whose name means nothing to users.
      if (known->second.type != NodeType::kernel) time.name = node_type_name(known->second.type);
    }
    return times;
  }

  const std::shared_ptr<void> subscriber_;
  const std::uint32_t exec_;  // CUPTI's number
  const NodesByNumber nodes_;
  const std::size_t expected_;
  bool began_ = false;
};

}  // namespace

std::optional<NodeIds> node_ids_from_cupti(const std::vector<WatchedNode>& nodes, GraphExecHandle exec,
                                           std::string* why) {
  const OpenedCupti cupti = loaded_cupti();
  if (cupti.unavailable.empty()) return ids_from(cupti, nodes, exec, why);
  *why = cupti.unavailable;
  return std::nullopt;
}

std::shared_ptr<NodeWatch> watch_nodes_through_cupti(const WatchedNodes& nodes, GraphExecHandle exec,
                                                     std::string* why) {
  std::shared_ptr<void> subscriber = hold_cupti(node_times, why);
  if (subscriber == nullptr) return nullptr;
  const OpenedCupti cupti = opened_cupti();
  std::shared_ptr<CuptiNodeWatch> watch;
  if (const std::optional<NodeIds> ids = ids_from(cupti, nodes.top, exec, why)) {
    watch = std::make_shared<CuptiNodeWatch>(std::move(subscriber), ids->exec, nodes_by_number(nodes, ids->nodes),
                                             with_records(nodes.top));
    *why = watch->begin(cupti);
  }
  if (why->empty()) return watch;
  *why = text::format("{}: {}.", node_times.impossible, *why);
  return nullptr;
}

}  // namespace reprise::backend::cuda
