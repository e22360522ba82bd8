// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "reprise/kernel.h"
#include "tests/conformance/capability.h"
#include "tests/conformance/kernels.h"
#include "tests/support/gate.h"

/// Compares results; a failure shows the names of the codes.
#define EXPECT_RESULT(expected, call) \
  EXPECT_EQ(::reprise::backend::test::text(expected), ::reprise::backend::test::text(call)) << "in " #call
#define EXPECT_OK(call) EXPECT_RESULT(::reprise::ErrorCode::success, call)
#define ASSERT_OK(call) \
  ASSERT_EQ(::reprise::backend::test::text(::reprise::ErrorCode::success), ::reprise::backend::test::text(call))

/// The suite runs on every device of the machine that this program has kernels for.
#define REPRISE_ON_EVERY_DEVICE(Suite)                                                                          \
  INSTANTIATE_TEST_SUITE_P(OnEveryDevice, Suite, testing::ValuesIn(::reprise::backend::test::usable_devices()), \
                           [](const testing::TestParamInfo<::reprise::Device>& device) {                        \
                             return ::reprise::backend::test::test_name_of(device.param);                       \
                           })

namespace reprise {
inline void PrintTo(const Device& device, std::ostream* out) {
  *out << device.str();
}
}  // namespace reprise

namespace reprise::backend::test {

constexpr CaptureMode all_modes[] = {CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed};

using reprise::test::by_steps_too;
using reprise::test::Gate;
using reprise::test::Meeting;

/// For example "401 cudaErrorIllegalState".
std::string text(const Result& result);

/// All devices; those of CUDA only if nvcc compiled the tests (REPRISE_CUDA_TESTS).
std::vector<Device> usable_devices();

/// "host0", "cuda1".
std::string test_name_of(const Device& device);

/// Runs `body` on a thread of its own and waits for it.
template <class F>
void on_another_thread(F&& body) {
  std::thread(std::forward<F>(body)).join();
}

/// The arguments of one launch of K, and the pointers to them that the backend takes.
template <class K>
class Arguments {
 public:
  using Values = typename kernel_detail::KernelSignature<decltype(&K::operator())>::Values;

  template <class... A>
  explicit Arguments(A... values) : values_(values...) {
    std::apply([&](auto&... value) { pointers_ = {static_cast<void*>(&value)...}; }, values_);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  Values& values() { return values_; }
  void** pointers() { return pointers_.data(); }

 private:
  Values values_;
  std::vector<void*> pointers_;
};

/// The base of all suites of the contract: the backend under test, and things that are released after each test,
/// also after one that failed half way.
class Contract : public testing::TestWithParam<Device> {
 protected:
  void TearDown() override;

  Backend& backend() const { return GetParam().backend(); }
  bool has(Capability capability) const { return why_lacking(GetParam(), capability).empty(); }

  StreamHandle new_stream(StreamFlags flags = StreamFlags::non_blocking, int priority = 0);
  EventHandle new_event(EventFlags flags = EventFlags::timing);
  GraphHandle new_graph();
  GraphExecHandle instantiate(GraphHandle graph);
  Gate& new_gate() { return gates_.emplace_back(); }
  Gate& new_gate(reprise::test::ByStepsToo too) { return gates_.emplace_back(too); }

  /// Releases it after the test.
  GraphHandle own(GraphHandle graph);
  /// Releases it now.
  void destroy(StreamHandle stream);
  void destroy(EventHandle event);
  void destroy(GraphHandle graph);
  void destroy(GraphExecHandle exec);

  /// Device memory, all bytes zero.
  template <class T>
  T* new_memory(std::size_t count = 1) {
    return static_cast<T*>(allocate(count * sizeof(T)));
  }
  template <class T>
  T* new_pinned(std::size_t count = 1) {
    return static_cast<T*>(allocate_pinned(count * sizeof(T)));
  }

  /// Reads device memory; waits for the legacy stream only.
  template <class T>
  T read(const T* device) {
    T value{};
    EXPECT_OK(backend().copy(&value, device, sizeof(T)));
    return value;
  }
  template <class T>
  std::vector<T> read(const T* device, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_OK(backend().copy(values.data(), device, count * sizeof(T)));
    return values;
  }

  template <class K>
  FunctionHandle function() {
    FunctionHandle function = nullptr;
    EXPECT_OK(backend().kernel_function(kernel_record<K>(), &function));
    return function;
  }

  /// Launches a kernel; one thread if `config` says nothing else.
  template <class K, class... A>
  Result launch(StreamHandle stream, const LaunchConfig& config, K, A... values) {
    Arguments<K> arguments(values...);
    return backend().launch_kernel({function<K>(), config, arguments.pointers()}, stream);
  }
  template <class K, class... A>
  Result launch(StreamHandle stream, K kernel, A... values) {
    return launch(stream, LaunchConfig{}, kernel, values...);
  }

  /// Adds a node and expects that to work.
  GraphNodeHandle add(GraphHandle graph, NodeParams params, const std::vector<GraphNodeHandle>& dependencies = {});
  /// Adds a kernel node of one thread.
  template <class K, class... A>
  GraphNodeHandle add_kernel(GraphHandle graph, const std::vector<GraphNodeHandle>& dependencies, K, A... values) {
    Arguments<K> arguments(values...);
    return add(graph, KernelNodeParams{function<K>(), {}, arguments.pointers()}, dependencies);
  }
  GraphNodeHandle add_host(GraphHandle graph, const std::vector<GraphNodeHandle>& dependencies, void (*body)(void*),
                           void* data) {
    return add(graph, HostNodeParams{body, data}, dependencies);
  }

  /// Holds the stream at a gate.
  void hold(StreamHandle stream, Gate& gate) {
    EXPECT_OK(backend().launch_host_function({&Gate::pass, &gate}, stream));
  }

  /// Launches and waits.
  void run(GraphExecHandle exec, StreamHandle stream);

  std::vector<GraphNodeHandle> nodes_of(GraphHandle graph);
  std::vector<std::pair<GraphNodeHandle, GraphNodeHandle>> edges_of(GraphHandle graph);
  NodeType type_of(GraphNodeHandle node);

  CaptureStatus status_of(StreamHandle stream);
  void begin_capture(StreamHandle stream, CaptureMode mode = CaptureMode::thread) {
    EXPECT_OK(backend().stream_begin_capture(stream, mode));
  }
  /// Ends a capture that must have worked.
  GraphHandle end_capture(StreamHandle stream);
  /// Captures one kernel on the stream and replays it: shows that the stream is usable.
  void expect_can_capture(StreamHandle stream);

 private:
  void* allocate(std::size_t bytes);
  void* allocate_pinned(std::size_t bytes);
  void end_forgotten_captures();

  std::deque<Gate> gates_;
  std::vector<StreamHandle> streams_;
  std::vector<EventHandle> events_;
  std::vector<GraphHandle> graphs_;
  std::vector<GraphExecHandle> execs_;
  std::vector<void*> memory_;
  std::vector<void*> pinned_;
};

/// Exchanges the calling thread's capture mode until the end of the scope.
class CaptureModeScope {
 public:
  CaptureModeScope(Backend& backend, CaptureMode mode) : backend_(backend), mode_(mode) { exchange(); }
  ~CaptureModeScope() { exchange(); }
  CaptureModeScope(const CaptureModeScope&) = delete;
  CaptureModeScope& operator=(const CaptureModeScope&) = delete;

 private:
  void exchange() { EXPECT_OK(backend_.thread_exchange_capture_mode(&mode_)); }
  Backend& backend_;
  CaptureMode mode_;
};

}  // namespace reprise::backend::test
