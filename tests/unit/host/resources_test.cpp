// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "reprise/reprise.h"
#include "tests/support/sanitizer.h"
#include "tests/support/text_of.h"

// A system that lacks memory or threads for a simulated device.

namespace reprise::test {
namespace {

struct AddFour {
  REPRISE_KERNEL void operator()(Thread t, int* x, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] += 4;
  }
};

constexpr std::size_t mebibyte = std::size_t{1} << 20;

// Lets the process have `more` bytes of data beyond what it has, as `ulimit -d` does; 0: as many as it likes.
void limit_data(std::size_t more) {
  std::ifstream status("/proc/self/status");
  std::size_t kibibytes = 0;
  for (std::string word; status >> word;)
    if (word == "VmData:") status >> kibibytes;
  rlimit limit{};
  getrlimit(RLIMIT_DATA, &limit);
  limit.rlim_cur = more == 0 ? limit.rlim_max : kibibytes * 1024 + more;
  if (kibibytes == 0 || setrlimit(RLIMIT_DATA, &limit) != 0) std::_Exit(100);
}

class LackOfResources : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

// Each step has a number, which the process ends with if it fails.
void allocate_under_a_limit() {
  HostSimulator simulator;
  const StreamRef stream = simulator.device().default_stream();
  launch_host(stream, [] {});  // the device's first thread has a stack
  stream.synchronize();
  limit_data(40 * mebibyte);
  const std::string text = text_of<OutOfMemoryError>([&] { Buffer<char>(100 * mebibyte, stream); });
  if (text.find("out of memory") == std::string::npos) std::_Exit(1);
  void* memory = nullptr;
  backend::Backend& backend = simulator.device().backend();
  const backend::Result refused = backend.memory_allocate(&memory, 100 * mebibyte);
  if (refused != ErrorCode::out_of_memory) std::_Exit(2);
  if (refused.detail().find("ulimit -d") == std::string::npos) std::_Exit(3);
  Buffer<char> small(4 * mebibyte, stream);  // less than the usual step
  small.fill_bytes_async(1, stream);
  if (small.read(stream).back() != 1) std::_Exit(4);
  limit_data(0);
  Buffer<char> large(100 * mebibyte, stream);
  large.fill_bytes_async(2, stream);
  if (large.read(stream).back() != 2) std::_Exit(5);
  std::_Exit(0);
}

TEST_F(LackOfResources, MemoryThatTheSystemRefusesIsOutOfMemory) {
  if (with_address_sanitizer) GTEST_SKIP() << "AddressSanitizer takes memory of its own under the same limit";
  EXPECT_EXIT(allocate_under_a_limit(), ::testing::ExitedWithCode(0), "");
}

void run_under_a_limit() {
  HostSimulator simulator({.protect = true});
  const StreamRef stream = simulator.device().default_stream();
  Buffer<char> x(100 * mebibyte, stream);
  x.fill_bytes_async(1, stream);
  stream.synchronize();
  limit_data(20 * mebibyte);
  x.fill_bytes_async(2, stream);
  const std::string text = text_of<BackendError>([&] { stream.synchronize(); });
  std::_Exit(text.find("memset on the legacy default stream") != std::string::npos &&
                     text.find("did not make the memory of the device accessible") != std::string::npos
                 ? 0
                 : 1);
}

TEST_F(LackOfResources, AnOperationWhoseMemoryCannotBeMadeAccessibleFails) {
  if (with_address_sanitizer) GTEST_SKIP() << "AddressSanitizer takes memory of its own under the same limit";
  EXPECT_EXIT(run_under_a_limit(), ::testing::ExitedWithCode(0), "");
}

// While it lives, no thread can be started: the system has no addresses for the stack.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t attributes;
    pthread_getattr_default_np(&attributes);
    pthread_attr_setstacksize(&attributes, std::size_t{1} << 47);
    EXPECT_EQ(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

// Options of no other test: the device has no threads yet.
TEST_F(LackOfResources, WorkThatNoThreadCanRunIsRefusedAndNeverRuns) {
  HostSimulator simulator({.memory_bytes = 65 * mebibyte});
  const Stream stream(simulator.device()), other(simulator.device());
  Buffer<int> x(10, stream);
  const Event event(simulator.device());
  bool called = false;
  {
    const NoThreads none;
    for (const std::function<void()>& work : std::initializer_list<std::function<void()>>{
             [&] { launch(stream, x.size(), AddFour{}, x.data(), x.size()); },
             [&] { x.fill_bytes_async(1, stream); },
             [&] { launch_host(stream, [&] { called = true; }); },
             [&] { event.record(stream); },
         }) {
      const std::string text = text_of<BackendError>(work);
      EXPECT_THAT(text, ::testing::HasSubstr("returned 304 (cudaErrorOperatingSystem)"));
      EXPECT_THAT(text, ::testing::HasSubstr("no thread could be started"));
      EXPECT_THAT(text, ::testing::HasSubstr("ulimit -u"));
    }
    stream.synchronize();
    EXPECT_TRUE(event.query()) << "it was not recorded";
  }
  x.fill_bytes_async(0, stream);
  launch(stream, x.size(), AddFour{}, x.data(), x.size());
  EXPECT_EQ(x.read(stream), std::vector<int>(10, 4)) << "what was refused did not run";
  EXPECT_FALSE(called);
}

TEST_F(LackOfResources, AGraphThatNoThreadCanRunIsRefusedWithItsEvents) {
  HostSimulator simulator({.memory_bytes = 66 * mebibyte});
  const Stream stream(simulator.device());
  const StreamGuard guard(stream);
  const Event event(simulator.device());
  CUDAGraph graph;
  capture(graph, [&] { event.record(current_stream(), EventUse::external); });
  {
    const NoThreads none;
    EXPECT_THAT(text_of<BackendError>([&] { graph.replay(); }), ::testing::HasSubstr("returned 304"));
    event.synchronize();  // not recorded
  }
  graph.replay();
  event.synchronize();
}

}  // namespace
}  // namespace reprise::test
