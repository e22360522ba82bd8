// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/conformance/contracts/contract.h"
#include "tests/conformance/recorder/measured.h"

// What CUDA was measured to change in executables (measure_updates.cu), row by row on the host device: what CUDA takes
// and does right is taken, everything else is refused, for the same reason.

namespace reprise::backend::test {
namespace {

constexpr std::size_t used_bytes = 256;
constexpr unsigned char marked = 77;

/// A line of the file. The fields that this test does not compare are those with memory types of the driver.
struct UpdateRow {
  std::string node, how, before, after, peer_access, update, own, set;
  std::string text() const { return node + ", " + how + ": " + before + " to " + after; }
};

std::vector<UpdateRow> measured_updates() {
  std::ifstream file(measured_file("graph_updates_h200.csv"));
  std::vector<UpdateRow> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || line.starts_with("node,")) continue;
    std::vector<std::string> fields;
    std::istringstream in(line);
    for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
    if (fields.size() != 10) throw std::runtime_error("not a row of 10 fields: " + line);
    rows.push_back({fields[0], fields[1], fields[2], fields[3], fields[4], fields[5], fields[6], fields[8]});
  }
  return rows;
}

/// What an end of a copy, or the memory of a set, lies in. Memory of a pool or of a mapping belongs to no context of
/// CUDA, and takes the place of no other memory in a copy; on the host device all memory of a device is alike.
enum class Owner { device, no_context, host, peer };

Owner owner_of(const std::string& place) {
  if (place.starts_with("peer")) return Owner::peer;
  if (place.starts_with("vmm") || place.starts_with("pool")) return Owner::no_context;
  return place.starts_with("pinned") || place.starts_with("pageable") ? Owner::host : Owner::device;
}

/// True if the host device does not distinguish the memory before from that after: pinned memory belongs to none of its
/// devices.
bool moves_unnoticed(const UpdateRow& row) {
  const auto moves = [&](const std::string& before, const std::string& after) {
    const Owner from = owner_of(before), to = owner_of(after);
    const bool with_peer = (from == Owner::peer && to == Owner::host) || (from == Owner::host && to == Owner::peer);
    const bool with_none = row.node == "memcpy" && (from == Owner::no_context) != (to == Owner::no_context);
    return with_peer || with_none;
  };
  const std::size_t first = row.before.find("<-"), second = row.after.find("<-");
  if (row.node == "memset" || first == std::string::npos || second == std::string::npos)
    return row.node == "memset" && moves(row.before, row.after);
  return moves(row.before.substr(0, first), row.after.substr(0, second)) ||
         moves(row.before.substr(first + 2), row.after.substr(second + 2));
}

bool is_taken(const std::string& measured) {
  return measured == "0+" || measured == "0=";
}

/// What CUDA takes, and does not do right, is to be refused: for what reason is not measured. 912 is CUDA's code for a
/// grid that does not fit a cluster; the host device has one code for all launches that cannot be.
bool agrees(const std::string& measured, const std::string& made) {
  const bool is_wrong = measured.starts_with("0") && !is_taken(measured);
  if (is_wrong) return !is_taken(made);
  return made == (measured == "912" ? "1" : measured);
}

class MeasuredUpdates : public Contract {
 protected:
  struct Place {
    std::byte* at = nullptr;
    bool on_host = false;
  };
  /// A node to be, and where it leaves the mark: null if it leaves none.
  struct Made {
    GraphHandle graph = nullptr;
    Place leaves_mark = {}, copies_from = {};
  };
  enum class Way { update, own, set };

  void SetUp() override {
    if (GetParam().type() != DeviceType::host) GTEST_SKIP() << "the table was measured on CUDA";
    other_ = another_like(GetParam());
    for (const char* const name : {"device", "device_other", "device_target", "vmm", "vmm_other", "pool"})
      places_[name] = {new_memory<std::byte>(4096)};
    places_["device_part"] = {places_["device"].at + 2048};
    for (const char* const name : {"pinned", "pinned_other", "pinned_target"})
      places_[name] = {new_pinned<std::byte>(4096), true};
    for (const char* const name : {"pageable", "pageable_other"})
      places_[name] = {pageable_.emplace_back(std::make_unique<std::byte[]>(4096)).get(), true};
    if (other_ == nullptr) return;
    void* memory = nullptr;
    ASSERT_OK(other_->memory_allocate(&memory, 4096));
    places_["peer"] = {static_cast<std::byte*>(memory)};
    places_["peer_part"] = {places_["peer"].at + 2048};
  }
  void TearDown() override {
    for (EventHandle const event : events_of_other_) EXPECT_OK(other_->event_destroy(event));
    if (other_ != nullptr) {
      EXPECT_OK(other_->memory_free(places_["peer"].at));
    }
    Contract::TearDown();
  }

  Backend& of(bool on_other) { return on_other ? *other_ : backend(); }

  /// nullopt where the host device has no such memory.
  std::optional<Place> place(const std::string& name) const {
    const auto found = places_.find(name);
    return found != places_.end() ? std::optional(found->second) : std::nullopt;
  }

  GraphHandle graph_of(NodeParams params, bool on_other = false) {
    GraphHandle graph = new_graph();
    GraphNodeHandle node = nullptr;
    EXPECT_OK(of(on_other).graph_add_node(&node, graph, {}, params));
    return graph;
  }

  /// Takes the end "@1" off, which says that the node is one of the other device.
  bool take_other(std::string& text) const {
    if (!text.ends_with("@1")) return false;
    text.resize(text.size() - 2);
    return true;
  }

  std::optional<Made> copy(const std::string& how, std::string text) {
    const bool on_other = take_other(text);
    std::size_t bytes = used_bytes;
    if (const std::size_t space = text.find(' '); space != std::string::npos) {
      if (!text.ends_with(" bytes")) return std::nullopt;  // rows with gaps
      bytes = std::stoul(text.substr(space + 1));
      text.resize(space);
    }
    const std::size_t arrow = text.find("<-");
    const auto to = place(text.substr(0, arrow)), from = place(text.substr(arrow + 2));
    if (!to || !from || how == "typed" || (on_other && other_ == nullptr)) return std::nullopt;
    const MemcpyNodeParams params{to->at, from->at, bytes};
    if (how == "added") return Made{graph_of(params, on_other), *to, *from};
    StreamHandle stream = nullptr;
    Backend& device = of(on_other);
    EXPECT_OK(device.stream_create(&stream, StreamFlags::non_blocking, 0));
    EXPECT_OK(device.stream_begin_capture(stream, CaptureMode::relaxed));
    EXPECT_OK(device.copy_async(params.destination, params.source, bytes, stream));
    GraphHandle graph = nullptr;
    EXPECT_OK(device.stream_end_capture(stream, &graph));
    EXPECT_OK(device.stream_destroy(stream));
    return Made{own(graph), *to, *from};
  }

  std::optional<Made> set(std::string text) {
    const bool on_other = take_other(text);
    std::istringstream words(text);
    std::string name, times;
    MemsetNodeParams params{nullptr, marked, 1, used_bytes};
    words >> name;
    if (words >> params.count && !(words >> times >> params.element_bytes && times == "x")) return std::nullopt;
    const auto to = place(name);
    if (!to || (on_other && other_ == nullptr)) return std::nullopt;
    params.destination = to->at;
    return Made{graph_of(params, on_other), *to};
  }

  std::optional<Made> kernel(const std::string& text) {
    const bool on_other = text == "store on the peer";
    if (on_other && other_ == nullptr) return std::nullopt;
    LaunchConfig config;
    if (text == "grid 8") config.grid = Dim3(8);
    if (text == "block 64") config.block = Dim3(64);
    if (text == "shared 1024") config.shared_bytes = 1024;
    if (text.starts_with("cluster")) config.grid = Dim3(4);
    if (text == "cluster 2") config.cluster = Dim3(2);
    if (text == "cluster 4") config.cluster = Dim3(4);
    config.cooperative = text == "cooperative";
    const Place to = *place(on_other ? "peer" : text == "store elsewhere" ? "vmm" : "device");
    Arguments<Store> arguments(reinterpret_cast<int*>(to.at), int{marked});
    FunctionHandle function = nullptr;
    const KernelRecord& record = text == "add" ? kernel_record<Add>() : kernel_record<Store>();
    EXPECT_OK(of(on_other).kernel_function(record, &function));
    return Made{graph_of(KernelNodeParams{function, config, arguments.pointers()}, on_other), to};
  }

  std::optional<Made> event(bool records, const std::string& text) {
    const bool on_other = text == "of the peer";
    if (on_other && other_ == nullptr) return std::nullopt;
    EventHandle made = nullptr;
    if (on_other) {
      EXPECT_OK(other_->event_create(&made, EventFlags::timing));
      events_of_other_.push_back(made);
    } else {
      made = new_event(text == "timed" ? EventFlags::timing : EventFlags::disable_timing);
    }
    return Made{records ? graph_of(EventRecordNodeParams{made}) : graph_of(EventWaitNodeParams{made})};
  }

  std::optional<Made> empty(const std::string& text) {
    if (text == "a set") return set("device");
    GraphHandle graph = new_graph();
    GraphNodeHandle const first = text == "no node" ? nullptr : add(graph, EmptyNodeParams{});
    if (text.starts_with("two"))
      add(graph, EmptyNodeParams{},
          text == "two in a row" ? std::vector<GraphNodeHandle>{first} : std::vector<GraphNodeHandle>{});
    return Made{graph};
  }

  std::optional<Made> child(const std::string& how, const std::string& text) {
    const bool copies = text.starts_with("memcpy "), sets = text.starts_with("memset ");
    const std::optional<Made> inner = copies ? copy(how, text.substr(7)) : sets ? set(text.substr(7)) : empty(text);
    if (!inner) return std::nullopt;
    Made made = *inner;
    made.graph = graph_of(ChildGraphNodeParams{inner->graph});
    return made;
  }

  std::optional<Made> conditional(const std::string& text, bool is_second) {
    GraphHandle graph = new_graph();
    ConditionalNodeParams params;
    params.type = text == "while"              ? ConditionalType::while_
                  : text.starts_with("switch") ? ConditionalType::switch_
                                               : ConditionalType::if_;
    params.body_count = text == "switch of 3" ? 3 : text == "switch of 2" || text == "if and else" ? 2 : 1;
    const bool is_zero = text == "initially 0" || params.type != ConditionalType::if_;
    EXPECT_OK(backend().graph_conditional_handle_create(&params.handle, graph, is_zero ? 0 : 1));
    NodeParams added = params;
    GraphNodeHandle node = nullptr;
    EXPECT_OK(backend().graph_add_node(&node, graph, {}, added));
    const Place to = *place(is_second ? "vmm" : "device");
    for (int i = text == "two sets" ? 2 : 1; i > 0; --i)
      add(std::get<ConditionalNodeParams>(added).bodies[0], MemsetNodeParams{to.at, marked, 1, used_bytes});
    return Made{graph, to};
  }

  std::optional<Made> make(const UpdateRow& row, bool is_second) {
    const std::string& text = is_second ? row.after : row.before;
    if (row.node == "memcpy") return copy(row.how, text);
    if (row.node == "memset") return set(text);
    if (row.node == "kernel") return kernel(text);
    if (row.node == "event_record" || row.node == "event_wait") return event(row.node == "event_record", text);
    if (row.node == "empty") return empty(text);
    if (row.node == "child") return child(row.how, text);
    if (row.node == "conditional") return conditional(text, is_second);
    return std::nullopt;
  }

  /// As the driver's program does it: nothing if the way needs graphs of one node.
  std::string change(Way way, const Made& before, const Made& after) {
    GraphExecHandle exec = nullptr;
    EXPECT_OK(backend().graph_instantiate(&exec, before.graph, InstantiateFlags::none, nullptr));
    const std::vector<GraphNodeHandle> ours = nodes_of(before.graph), theirs = nodes_of(after.graph);
    UpdateInfo info;
    Result result = ErrorCode::success;
    if (way == Way::update) {
      result = backend().graph_exec_update(exec, after.graph, &info);
    } else {
      NodeParams params;
      EXPECT_OK(backend().graph_node_params(theirs.at(0), &params));
      if (way == Way::set)
        result = backend().graph_exec_node_set_params(exec, ours.at(0), params);
      else if (result = backend().graph_node_set_params(ours.at(0), params); !result.failed())
        result = backend().graph_exec_update(exec, before.graph, &info);
    }
    std::string text = std::to_string(static_cast<int>(result.code()));
    if (result == ErrorCode::graph_exec_update_failure && way != Way::set)
      text += "/" + std::to_string(static_cast<int>(info.result));
    if (!result.failed()) text += launched(exec, after);
    EXPECT_OK(backend().graph_exec_destroy(exec));
    return text;
  }

  std::string launched(GraphExecHandle exec, const Made& after) {
    if (after.leaves_mark.at == nullptr) return "=";
    const auto fill = [&](const Place& at, unsigned char value) {
      std::vector<unsigned char> bytes(used_bytes, value);
      EXPECT_OK(backend().copy(at.at, bytes.data(), used_bytes));
    };
    fill(after.leaves_mark, 0);
    if (after.copies_from.at != nullptr) fill(after.copies_from, marked);
    StreamHandle stream = new_stream();
    run(exec, stream);
    destroy(stream);
    unsigned char left = 0;
    EXPECT_OK(backend().copy(&left, after.leaves_mark.at, 1));
    return left == marked ? "+" : "!";
  }

  /// Compares one way with what was measured; an empty text if it agrees.
  std::string disagreement(const UpdateRow& row, Way way, const std::string& measured) {
    if (measured.find_first_of("-ntiE") == 0) return "";  // no such way, or nothing was made
    const auto before = make(row, false), after = make(row, true);
    if (!before || !after) return "";
    ++compared_;
    const std::string made = change(way, *before, *after);
    for (const auto& each : {*before, *after}) destroy(each.graph);
    return agrees(measured, made) ? "" : "measured " + measured + ", here " + made;
  }

  Backend* other_ = nullptr;
  std::map<std::string, Place> places_;
  std::vector<std::unique_ptr<std::byte[]>> pageable_;
  std::vector<EventHandle> events_of_other_;
  std::size_t compared_ = 0;
};
REPRISE_ON_EVERY_DEVICE(MeasuredUpdates);

TEST_P(MeasuredUpdates, AreThoseOfTheHostDevice) {
  const std::vector<UpdateRow> rows = measured_updates();
  ASSERT_FALSE(rows.empty());
  for (const UpdateRow& row : rows) {
    if (row.peer_access == "1" || moves_unnoticed(row)) continue;
    EXPECT_EQ(disagreement(row, Way::update, row.update), "") << row.text() << ", by an update";
    // The backend also changes attributes of the template's kernels.
    const std::string own = row.node != "kernel" ? row.own : "-";
    EXPECT_EQ(disagreement(row, Way::own, own), "") << row.text() << ", by an update with its own template";
    // All devices of the host have the same functions.
    const bool other_device = row.node == "kernel" && row.before.ends_with("peer") != row.after.ends_with("peer");
    EXPECT_EQ(disagreement(row, Way::set, other_device ? "-" : row.set), "") << row.text() << ", by new parameters";
  }
  std::printf("  %zu rows, %zu changes compared\n", rows.size(), compared_);
  EXPECT_GT(compared_, 500U);
}

}  // namespace
}  // namespace reprise::backend::test
