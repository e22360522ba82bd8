// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "backend/check.h"
#include "captures/registry.h"
#include "memory/allocator_impl.h"
#include "memory/pool_ids.h"
#include "memory/size_classes.h"
#include "reprise/event.h"
#include "reprise/memory.h"
#include "tests/support/faulty_backend.h"
#include "tests/support/gate.h"
#include "tests/support/text_of.h"
#include "tests/support/warnings.h"

// What the tests of memory share.

namespace reprise::memory::test {

using backend::Call;
using backend::test::FaultyBackend;
using reprise::test::Gate;
using ::testing::HasSubstr;

/// A device of its own, on top of the default one: with an allocator that has given out nothing yet.
inline FaultyBackend& new_device() {
  // Devices live until the process ends.
  static auto& all = *new std::vector<std::unique_ptr<FaultyBackend>>;
  return *all.emplace_back(std::make_unique<FaultyBackend>(default_device().backend()));
}

/// Each test has a new device, an allocator for it, and two streams that do not wait for the legacy one.
class MemoryTest : public ::testing::Test {
 protected:
  ~MemoryTest() override {
    backend_.heal();
    allocator_.empty_cache();
  }

  PoolStatistics all() const { return allocator_.statistics(); }
  CachingAllocator::Impl& inside() const { return allocator_.impl(); }
  std::byte* allocate(std::size_t bytes) { return allocate(bytes, stream_); }
  std::byte* allocate(std::size_t bytes, const StreamRef& stream) {
    return static_cast<std::byte*>(allocator_.allocate(bytes, stream));
  }
  void free(void* pointer) { allocator_.deallocate(pointer); }

  /// Lets no work of the stream pass that is given to it from now on, until the gate is opened.
  void close(Gate& gate, const StreamRef& stream) {
    backend::Checked(backend_).launch_host_function({&Gate::pass, &gate}, stream.native());
  }

  FaultyBackend& backend_ = new_device();
  Device device_{backend_};
  CachingAllocator& allocator_ = CachingAllocator::of(device_);
  Stream stream_{device_};
  Stream other_{device_};
};

/// A capture that the backend alone knows of, ended and dropped with the object.
class RawCapture {
 public:
  explicit RawCapture(StreamRef stream, CaptureMode mode = CaptureMode::global)
      : backend_(stream.device().backend()), stream_(stream) {
    backend::Checked(backend_).stream_begin_capture(stream_.native(), mode);
  }
  ~RawCapture() {
    GraphHandle graph = nullptr;
    EXPECT_EQ(backend_.stream_end_capture(stream_.native(), &graph), ErrorCode::success);
    if (graph != nullptr) {
      EXPECT_EQ(backend_.graph_destroy(graph), ErrorCode::success);
    }
  }
  RawCapture(const RawCapture&) = delete;
  RawCapture& operator=(const RawCapture&) = delete;

  std::uint64_t id() const { return stream_.capture_id(); }
  bool is_whole() const { return stream_.capture_status() == CaptureStatus::active; }

 private:
  backend::Backend& backend_;
  StreamRef stream_;
};

/// A capture that is announced, and fills a pool.
class PoolFilled {
 public:
  PoolFilled(CachingAllocator& allocator, MempoolId pool, StreamRef stream, CaptureMode mode = CaptureMode::global)
      : allocator_(allocator), options_{.capture_error_mode = mode}, registered_(stream, options_, pool) {
    allocator.impl().begin_filling(registered_.capture());
  }
  ~PoolFilled() { allocator_.impl().end_filling(registered_.capture()); }
  PoolFilled(const PoolFilled&) = delete;
  PoolFilled& operator=(const PoolFilled&) = delete;

  captures::Capture& capture() const { return registered_.capture(); }

 private:
  CachingAllocator& allocator_;
  const GraphOptions options_;
  captures::Registration registered_;
};

/// A capture whose allocations go to a pool, as a CUDAGraph makes it.
class PoolCapture {
 public:
  PoolCapture(CachingAllocator& allocator, MempoolId pool, StreamRef stream, CaptureMode mode = CaptureMode::global)
      : filled_(allocator, pool, stream, mode), capture_(stream, mode) {
    filled_.capture().add_id(capture_.id());
  }

  std::uint64_t id() const { return capture_.id(); }
  bool is_whole() const { return capture_.is_whole(); }
  captures::Capture& inside() const { return filled_.capture(); }

 private:
  PoolFilled filled_;
  RawCapture capture_;
};

/// A graph's hold on a pool.
class OpenPool {
 public:
  explicit OpenPool(CachingAllocator& allocator, MempoolId id = graph_pool_handle()) : allocator_(&allocator), id_(id) {
    allocator_->impl().open_pool(id_, "");
  }
  ~OpenPool() { close(); }
  OpenPool(const OpenPool&) = delete;
  OpenPool& operator=(const OpenPool&) = delete;

  void close() {
    if (allocator_ != nullptr) std::exchange(allocator_, nullptr)->impl().close_pool(id_, "");
  }
  MempoolId id() const { return id_; }

 private:
  CachingAllocator* allocator_;
  MempoolId id_;
};

using reprise::test::text_of;
using reprise::test::Warnings;

}  // namespace reprise::memory::test
