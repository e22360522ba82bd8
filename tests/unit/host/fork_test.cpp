// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "reprise/reprise.h"
#include "tests/support/gate.h"
#include "tests/support/warnings.h"

// Children by fork() of a process that has used a simulated device.

namespace reprise::test {
namespace {

struct AddThree {
  REPRISE_KERNEL void operator()(Thread t, int* x, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] += 3;
  }
  static auto accesses(int* x, std::size_t n) { return std::array{writes(x, n)}; }
};

constexpr unsigned seconds_of_a_child = 20;  // one that hangs ends by a signal

// The exit code of a child that runs `body`; -1 if a signal ended it.
template <class Body>
int code_of_child(Body&& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(seconds_of_a_child);
    body();
    std::_Exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// What a process may hold when it forks.
struct Held {
  Stream stream{Device::parse("host")};
  StreamGuard guard{stream};
  Event event;
  Buffer<int> x = Buffer<int>(std::vector<int>(100));
  HostBuffer<int> pinned = HostBuffer<int>(10);
  CUDAGraph graph;
  CUDAGraph kept{KeepGraph::yes};
  Generator generator{Device::parse("host")};

  Held() {
    event.record(stream);
    capture(graph, [&] { add(); });
    capture(kept, [&] { add(); });
    graph.replay();
    stream.synchronize();
  }
  void add() { launch(x.size(), AddThree{}, x.data(), x.size()); }
};

bool is_refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const BackendError& error) {
    const std::string text = error.what();
    return error.code() == ErrorCode::not_initialized && text.find("fork before the first use") != std::string::npos;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "another exception: %s\n", error.what());
  }
  return false;
}

// The number of the first of these calls that is not refused with 3, from 1; 0 if all are.
int first_not_refused(const std::vector<std::function<void()>>& calls) {
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (!is_refused(calls[i])) return static_cast<int>(i + 1);
  return 0;
}

std::vector<std::function<void()>> calls_of(Held& h) {
  return {
      [&] { h.stream.synchronize(); },
      [&] { static_cast<void>(h.stream.query()); },
      [&] { h.stream.device().synchronize(); },
      [&] { static_cast<void>(h.stream.device().memory_info()); },
      [&] { h.event.synchronize(); },
      [&] { h.event.record(); },
      [&] { Stream{h.stream.device()}; },
      [&] { Event{h.stream.device()}; },
      [&] { HostBuffer<int>{100}; },
      [&] { static_cast<void>(h.x.read()); },
      [&] { h.x.fill_bytes_async(0); },
      [&] { h.add(); },
      [&] { launch_host([] {}); },
      [&] { h.graph.replay(); },
      [&] { h.graph.upload(h.stream); },
      [&] { h.kept.instantiate(); },
      [&] { time_replay(h.graph, h.stream); },
      [&] { HostSimulator().device().synchronize(); },
      [&] { capture([&] { h.add(); }); },
      [&] {
        CaptureModeGuard{CaptureMode::thread, h.stream.device()};
      },
      [&] {
        copy_batch_async(std::array{CopyOp{h.x.data(), h.x.data() + 50, 40}});
      },
  };
}

TEST(ForkedChild, EveryCallIsRefusedWithCode3) {
  Held held;
  EXPECT_EQ(code_of_child([&] { std::_Exit(first_not_refused(calls_of(held))); }), 0)
      << "the number of a call that was not refused";
  held.add();
  EXPECT_EQ(held.x.read(), std::vector<int>(100, 6)) << "in the parent all goes on";
}

// A simulator whose work is not done: its end waits.
struct Busy {
  HostSimulator simulator;
  Stream stream{simulator.device()};
  Buffer<int> x{10, stream};

  explicit Busy(Gate& gate) {
    launch_host(stream, [&gate] { gate.stand(); });
    EXPECT_TRUE(gate.wait_until_reached());
  }
};

TEST(ForkedChild, EndsWithWhatItInheritedWithoutAWordOrAWait) {
  Gate gate(reprise::test::by_steps_too);
  auto held = std::make_unique<Held>();
  auto busy = std::make_unique<Busy>(gate);
  EXPECT_EQ(code_of_child([&] {
              static int warnings = 0;
              set_log_sink([](std::string_view) { ++warnings; });
              held.reset();
              busy.reset();
              release_finished_graphs();
              std::_Exit(warnings);
            }),
            0);
  gate.open();
}

// As is the case in a child that leaves main().
TEST(ForkedChild, ExitsWithStaticObjects) {
  Gate gate(reprise::test::by_steps_too);
  static std::unique_ptr<Busy> busy;
  busy = std::make_unique<Busy>(gate);
  EXPECT_EQ(code_of_child([] {
              std::atexit([] {
                busy.reset();
                std::_Exit(7);
              });
              std::exit(0);
            }),
            7);
  gate.open();
  busy.reset();
}

TEST(ForkedChild, CanUseADeviceThatItsParentHasNotUsed) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto run = [] {
    std::_Exit(code_of_child([] {
      const StreamRef stream = Device::parse("host").default_stream();
      Buffer<int> x(std::vector<int>(10, 1), stream);
      launch(stream, x.size(), AddThree{}, x.data(), x.size());
      std::_Exit(x.read(stream) == std::vector<int>(10, 4) ? 5 : 6);
    }));
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(5), "");
}

}  // namespace
}  // namespace reprise::test
