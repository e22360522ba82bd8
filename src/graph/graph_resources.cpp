// SPDX-License-Identifier: Apache-2.0
#include "graph/graph_resources.h"

#include <atomic>
#include <thread>
#include <utility>

#include "backend/check.h"

namespace reprise::graphs {

/// How far the resources have come. Shared with the user object, which may outlive the graph.
struct GraphResources::Progress {
  std::atomic<bool> queued{false};
  std::atomic<bool> released{false};
};

/// What the runtime's user object points to.
struct GraphResources::UserObject {
  std::shared_ptr<Progress> progress;
  std::unique_ptr<Resources> resources;  // null once they are in the queue

  static void destroy(void* object) {
    const std::unique_ptr<UserObject> self(static_cast<UserObject*>(object));
    self->progress->queued.store(true, std::memory_order_release);  // before push(), which wakes those who wait for it
    memory::ReleaseQueue::push(std::move(self->resources));
  }
};

void GraphResources::hold(KeepGraph keep, backend::Backend& backend, GraphHandle template_graph, Resources resources) {
  keep_ = keep;
  if (keep_ == KeepGraph::yes)
    attach(backend, template_graph, std::move(resources));
  else if (!resources.empty())
    resources_ = std::make_unique<Resources>(std::move(resources));
  holds_ = true;
}

void GraphResources::add(std::shared_ptr<void> resource) {
  if (keep_ == KeepGraph::yes) return added_->push_back(std::move(resource));
  if (resources_ == nullptr) resources_ = std::make_unique<Resources>();
  resources_->push_back(std::move(resource));
}

void GraphResources::release_after_launches(std::shared_ptr<void> object) const {
  auto resources = std::make_unique<Resources>();
  resources->push_back(std::move(object));
  memory::ReleaseQueue::push(std::move(resources), last_launch_);
}

bool GraphResources::release(std::chrono::microseconds limit) noexcept {
  holds_ = false;
  tracked_ = false;
  if (keep_ == KeepGraph::yes) {
    last_launch_ = {};
    return release_attached(limit);
  }
  release_after_launch();
  return true;
}

void GraphResources::attach(backend::Backend& backend, GraphHandle template_graph, Resources resources) {
  auto object = std::make_unique<UserObject>();
  object->progress = std::make_shared<Progress>();
  // The first one is destroyed last: it notifies that all others are released, on any thread that drains the queue.
  object->resources = std::make_unique<Resources>();
  object->resources->reserve(resources.size() + 2);
  object->resources->push_back(std::shared_ptr<void>(nullptr, [progress = object->progress](std::nullptr_t) {
    progress->released.store(true, std::memory_order_release);
  }));
  for (auto& resource : resources) object->resources->push_back(std::move(resource));
  added_ = std::make_shared<Resources>();
  object->resources->push_back(added_);

  UserObjectHandle handle = nullptr;
  backend::Checked(backend).user_object_create(&handle, object.get(), &UserObject::destroy, 1);
  progress_ = object->progress;
  static_cast<void>(object.release());  // the runtime's from here on
  try {
    backend::Checked(backend).graph_retain_user_object(template_graph, handle, 1, backend::RetainFlags::move);
  } catch (...) {
    backend::WarnOnError(backend).user_object_release(handle, 1);
    release_attached(std::chrono::seconds(5));
    throw;
  }
}

bool GraphResources::release_attached(std::chrono::microseconds limit) noexcept {
  added_.reset();
  const std::shared_ptr<Progress> progress = std::exchange(progress_, nullptr);
  if (progress == nullptr) return true;
  if (!memory::ReleaseQueue::wait(progress->queued, limit)) return false;
  // The push follows the flag within nanoseconds, and another thread may be the one that drains what was pushed.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  const auto done = [&] { return progress->released.load(std::memory_order_acquire); };
  while (!done() && std::chrono::steady_clock::now() < deadline) {
    memory::ReleaseQueue::drain();
    if (!done()) std::this_thread::yield();
  }
  return done();
}

void GraphResources::release_after_launch() noexcept {
  memory::LastLaunch last = std::exchange(last_launch_, {});
  if (resources_ == nullptr) return;
  // Usually nothing runs any more, but the device needs some microseconds to say so.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
  while (!last.is_over() && last.can_query() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  memory::ReleaseQueue::push(std::move(resources_), std::move(last));
  memory::ReleaseQueue::drain();
}

}  // namespace reprise::graphs
