// SPDX-License-Identifier: Apache-2.0
#include "graph/pool_listener.h"

#include "memory/allocator_impl.h"

namespace reprise::graphs {

/// A reference to a pool of one device's allocator.
class PoolListener::OpenPool {
 public:
  OpenPool(CachingAllocator::Impl& allocator, MempoolId id) : allocator_(allocator), id_(id) {
    allocator_.open_pool(id_);
  }
  ~OpenPool() { allocator_.close_pool(id_); }
  OpenPool(const OpenPool&) = delete;
  OpenPool& operator=(const OpenPool&) = delete;

 private:
  CachingAllocator::Impl& allocator_;
  MempoolId id_;
};

/// While it lives, allocations for the capture come from the pool.
class PoolListener::Routing {
 public:
  Routing(CachingAllocator::Impl& allocator, MempoolId id, StreamHandle stream) : allocator_(allocator), id_(id) {
    allocator_.begin_routing(id_, stream);
  }
  ~Routing() { allocator_.end_routing(id_); }
  Routing(const Routing&) = delete;
  Routing& operator=(const Routing&) = delete;

  void capture_started(std::uint64_t capture_id) { allocator_.capture_started(id_, capture_id); }

 private:
  CachingAllocator::Impl& allocator_;
  MempoolId id_;
};

PoolListener::PoolListener() = default;
PoolListener::~PoolListener() {
  abandoned();
}

void PoolListener::begin(const CaptureContext& context) {
  CachingAllocator::Impl& allocator = CachingAllocator::of(context.device).impl();
  auto pool = std::make_shared<OpenPool>(allocator, context.pool);
  routing_ = std::make_unique<Routing>(allocator, context.pool, context.stream.native());
  pool_ = std::move(pool);
}

void PoolListener::started(const CaptureContext& context) {
  routing_->capture_started(context.capture_id);
}

void PoolListener::ended(const CaptureContext& /*context*/, GraphHandle /*template_graph*/) {
  routing_.reset();
}

void PoolListener::abandoned() noexcept {
  routing_.reset();
  pool_.reset();
}

}  // namespace reprise::graphs
