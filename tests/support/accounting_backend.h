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

  ErrorCode graph_create(GraphHandle* graph) override { return made(graphs_, FaultyBackend::graph_create(graph)); }
  ErrorCode graph_clone(GraphHandle* clone, GraphHandle graph) override {
    return made(graphs_, FaultyBackend::graph_clone(clone, graph));
  }
  ErrorCode stream_begin_capture(StreamHandle stream, CaptureMode mode) override {
    const ErrorCode result = FaultyBackend::stream_begin_capture(stream, mode);
    if (result == ErrorCode::success) {
      const std::lock_guard lock(mutex_);
      into_graphs_.erase(stream);
    }
    return result;
  }
  ErrorCode stream_begin_capture_to_graph(StreamHandle stream, GraphHandle graph, const Dependencies& dependencies,
                                          CaptureMode mode) override {
    const ErrorCode result = FaultyBackend::stream_begin_capture_to_graph(stream, graph, dependencies, mode);
    if (result == ErrorCode::success) {
      const std::lock_guard lock(mutex_);
      into_graphs_.insert(stream);
    }
    return result;
  }
  /// The graph is new, unless it was captured into one that was there.
  ErrorCode stream_end_capture(StreamHandle stream, GraphHandle* graph) override {
    const ErrorCode result = FaultyBackend::stream_end_capture(stream, graph);
    const std::lock_guard lock(mutex_);
    return into_graphs_.contains(stream) ? result : made(graphs_, result);
  }
  ErrorCode graph_destroy(GraphHandle graph) override {
    return gone(graphs_, FaultyBackend::graph_destroy(graph), [this, graph] { graph_destroy(graph); });
  }
  ErrorCode graph_instantiate(GraphExecHandle* exec, GraphHandle graph, InstantiateFlags flags,
                              StreamHandle upload_stream) override {
    return made(execs_, FaultyBackend::graph_instantiate(exec, graph, flags, upload_stream));
  }
  ErrorCode graph_exec_destroy(GraphExecHandle exec) override {
    return gone(execs_, FaultyBackend::graph_exec_destroy(exec), [this, exec] { graph_exec_destroy(exec); });
  }
  ErrorCode event_destroy(EventHandle event) override {
    return gone(others_, FaultyBackend::event_destroy(event), [this, event] { event_destroy(event); });
  }
  ErrorCode stream_destroy(StreamHandle stream) override {
    return gone(others_, FaultyBackend::stream_destroy(stream), [this, stream] { stream_destroy(stream); });
  }
  ErrorCode user_object_release(UserObjectHandle handle, unsigned references) override {
    return gone(others_, FaultyBackend::user_object_release(handle, references),
                [this, handle, references] { user_object_release(handle, references); });
  }
  ErrorCode user_object_create(UserObjectHandle* handle, void* object, void (*destroy)(void*),
                               unsigned references) override {
    auto counted = std::make_unique<Counted>(Counted{object, destroy, user_objects_});
    const ErrorCode result = FaultyBackend::user_object_create(handle, counted.get(), &Counted::destroy, references);
    if (result == ErrorCode::success) static_cast<void>(counted.release());  // the runtime's
    return made(user_objects_, result);
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

  static ErrorCode made(std::atomic<int>& count, ErrorCode result) {
    if (result == ErrorCode::success) ++count;
    return result;
  }
  ErrorCode gone(std::atomic<int>& count, ErrorCode result, std::function<void()> again) {
    if (result == ErrorCode::success) {
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
