// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "tests/support/faulty_backend.h"

namespace reprise::backend::test {

/// Objects that were created and not destroyed.
struct Living {
  int graphs = 0;
  int execs = 0;
  int user_objects = 0;
  friend bool operator==(const Living&, const Living&) = default;
};

/// A FaultyBackend that counts template graphs, executable graphs and user objects, and records destroying calls that
/// failed, so that a test can repeat them and then detect other leaks.
class AccountingBackend final : public FaultyBackend {
 public:
  using FaultyBackend::FaultyBackend;

  Living living() const { return {graphs_, execs_, user_objects_}; }

  /// Makes the destroying calls that failed by a fault. Returns how many.
  std::size_t make_up_for_refused() {
    std::vector<std::function<void()>> refused;
    {
      const std::lock_guard lock(mutex_);
      refused.swap(refused_);
    }
    for (const auto& call : refused) call();
    return refused.size();
  }

  Result graph_create(GraphHandle* graph) override { return made(graphs_, FaultyBackend::graph_create(graph)); }
  Result graph_clone(GraphHandle* clone, GraphHandle graph) override {
    return made(graphs_, FaultyBackend::graph_clone(clone, graph));
  }
  Result stream_begin_capture(StreamHandle stream, CaptureMode mode) override {
    Result result = FaultyBackend::stream_begin_capture(stream, mode);
    if (result == ErrorCode::success) {
      const std::lock_guard lock(mutex_);
      into_graphs_.erase(stream);
    }
    return result;
  }
  Result stream_begin_capture_to_graph(StreamHandle stream, GraphHandle graph, const Dependencies& dependencies,
                                       CaptureMode mode) override {
    Result result = FaultyBackend::stream_begin_capture_to_graph(stream, graph, dependencies, mode);
    if (result == ErrorCode::success) {
      const std::lock_guard lock(mutex_);
      into_graphs_.insert(stream);
    }
    return result;
  }
  /// The graph is new, unless it was captured into one that was there.
  Result stream_end_capture(StreamHandle stream, GraphHandle* graph) override {
    Result result = FaultyBackend::stream_end_capture(stream, graph);
    const std::lock_guard lock(mutex_);
    return into_graphs_.contains(stream) ? std::move(result) : made(graphs_, std::move(result));
  }
  Result graph_destroy(GraphHandle graph) override {
    return gone(graphs_, FaultyBackend::graph_destroy(graph), [this, graph] { (void)graph_destroy(graph); });
  }
  Result graph_instantiate(GraphExecHandle* exec, GraphHandle graph, InstantiateFlags flags,
                           StreamHandle upload_stream) override {
    return made(execs_, FaultyBackend::graph_instantiate(exec, graph, flags, upload_stream));
  }
  Result graph_exec_destroy(GraphExecHandle exec) override {
    return gone(execs_, FaultyBackend::graph_exec_destroy(exec), [this, exec] { (void)graph_exec_destroy(exec); });
  }
  Result event_destroy(EventHandle event) override {
    return gone(others_, FaultyBackend::event_destroy(event), [this, event] { (void)event_destroy(event); });
  }
  Result stream_destroy(StreamHandle stream) override {
    return gone(others_, FaultyBackend::stream_destroy(stream), [this, stream] { (void)stream_destroy(stream); });
  }
  Result user_object_release(UserObjectHandle handle, unsigned references) override {
    return gone(others_, FaultyBackend::user_object_release(handle, references),
                [this, handle, references] { (void)user_object_release(handle, references); });
  }
  Result user_object_create(UserObjectHandle* handle, void* object, void (*destroy)(void*),
                            unsigned references) override {
    auto counted = std::make_unique<Counted>(Counted{object, destroy, user_objects_});
    Result result = FaultyBackend::user_object_create(handle, counted.get(), &Counted::destroy, references);
    if (result == ErrorCode::success) static_cast<void>(counted.release());  // the runtime's
    return made(user_objects_, std::move(result));
  }

 private:
  struct Counted {
    void* object;
    void (*destructor)(void*);
    std::atomic<int>& living;
    static void destroy(void* counted) {
      const std::unique_ptr<Counted> self(static_cast<Counted*>(counted));
      --self->living;  // first: the object's own destructor wakes waiting threads
      self->destructor(self->object);
    }
  };

  static Result made(std::atomic<int>& count, Result result) {
    if (!result.failed()) ++count;
    return result;
  }
  Result gone(std::atomic<int>& count, Result result, std::function<void()> again) {
    if (!result.failed()) {
      --count;
    } else {
      const std::lock_guard lock(mutex_);
      refused_.push_back(std::move(again));
    }
    return result;
  }

  std::mutex mutex_;
  std::vector<std::function<void()>> refused_;
  std::set<StreamHandle> into_graphs_;  // streams whose last capture was into a graph that was there
  std::atomic<int> graphs_{0}, execs_{0}, user_objects_{0}, others_{0};
};

}  // namespace reprise::backend::test
