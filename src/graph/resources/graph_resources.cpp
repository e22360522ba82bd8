// SPDX-License-Identifier: Apache-2.0
#include "graph/resources/graph_resources.h"

#include <atomic>
#include <thread>
#include <utility>

#include "backend/check.h"

namespace reprise::graphs {

/// State of the release of the resources. Shared with the user object, which may outlive the graph.
struct GraphResources::Progress {
  std::atomic<bool> queued{false};
  std::atomic<bool> released{false};
};

/// Data of the runtime's user object.
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
    attached_ = attach(backend, template_graph, std::move(resources));
  else if (!resources.empty())
    resources_ = std::make_unique<Resources>(std::move(resources));
  holds_ = true;
}

void GraphResources::add(std::shared_ptr<void> resource) {
  if (keep_ == KeepGraph::yes) return attached_.resources->push_back(std::move(resource));
  if (resources_ == nullptr) resources_ = std::make_unique<Resources>();
  resources_->push_back(std::move(resource));
}

void GraphResources::release_after_launches(std::shared_ptr<void> object) const {
  auto resources = std::make_unique<Resources>();
  resources->push_back(std::move(object));
  memory::ReleaseQueue::push(std::move(resources), last_launch_);
}

void GraphResources::hold_source(std::unique_ptr<Resources> source) noexcept {
  tracked_ |= !source->empty();
  source_.swap(source);
  if (source != nullptr) memory::ReleaseQueue::push(std::move(source), last_launch_);
}

bool GraphResources::release(std::chrono::microseconds limit) noexcept {
  if (source_ != nullptr) memory::ReleaseQueue::push(std::move(source_), last_launch_);
  holds_ = false;
  tracked_ = false;
  if (keep_ == KeepGraph::yes) {
    last_launch_ = {};
    return wait_for_release(std::exchange(attached_, {}), limit);
  }
  release_after_launch();
  return true;
}

GraphResources::Attached GraphResources::attach(backend::Backend& backend, GraphHandle template_graph,
                                                Resources resources) {
  auto object = std::make_unique<UserObject>();
  object->progress = std::make_shared<Progress>();
  Attached made{nullptr, object->progress, std::make_shared<Resources>(std::move(resources))};
  // The first one is destroyed last: it notifies that all others are released, on any thread that drains the queue.
  object->resources = std::make_unique<Resources>();
  object->resources->reserve(2);
  object->resources->push_back(std::shared_ptr<void>(nullptr, [progress = object->progress](std::nullptr_t) {
    progress->released.store(true, std::memory_order_release);
  }));
  object->resources->push_back(made.resources);

  backend::Checked(backend).user_object_create(&made.handle, object.get(), &UserObject::destroy, 1);
  static_cast<void>(object.release());  // the runtime's from here on
  try {
    backend::Checked(backend).graph_retain_user_object(template_graph, made.handle, 1, backend::RetainFlags::move);
  } catch (...) {
    backend::WarnOnError(backend).user_object_release(made.handle, 1);
    wait_for_release(std::move(made), std::chrono::seconds(5));
    throw;
  }
  return made;
}

bool GraphResources::wait_for_release(Attached attached, std::chrono::microseconds limit) noexcept {
  attached.resources.reset();
  if (attached.progress == nullptr) return true;
  if (!memory::ReleaseQueue::wait(attached.progress->queued, limit)) return false;
  // The push follows the flag within nanoseconds, and another thread may be the one that drains what was pushed.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  const auto done = [&] { return attached.progress->released.load(std::memory_order_acquire); };
  while (!done() && std::chrono::steady_clock::now() < deadline) {
    memory::ReleaseQueue::drain();
    if (!done()) std::this_thread::yield();
  }
  return done();
}

GraphResources::Resources GraphResources::share() const {
  Resources all;
  const Resources* const held = keep_ == KeepGraph::yes ? attached_.resources.get() : resources_.get();
  if (held == nullptr) return all;
  all.reserve(held->size());
  for (const std::shared_ptr<void>& resource : *held) all.push_back(resource);
  return all;
}

void GraphResources::exchange(backend::Backend& backend, GraphHandle template_graph, Resources next,
                              const std::function<void()>& update) {
  if (keep_ == KeepGraph::yes) return exchange_attached(backend, template_graph, std::move(next), update);
  auto other = std::make_unique<Resources>(std::move(next));
  update();
  resources_.swap(other);
  if (other != nullptr) memory::ReleaseQueue::push(std::move(other), last_launch_);
}

// The executable gets the user objects that the template has at the update, and loses those that it had before: running
// launches hold these. The reference to the present one, which this call holds, lets it return if the update fails.
void GraphResources::exchange_attached(backend::Backend& backend, GraphHandle template_graph, Resources next,
                                       const std::function<void()>& update) {
  const backend::Checked runtime(backend);
  const backend::WarnOnError unchecked(backend);
  auto before = std::make_unique<Resources>();
  before->push_back(attached_.resources);
  Attached made = attach(backend, template_graph, std::move(next));
  try {
    runtime.user_object_retain(attached_.handle, 1);
    try {
      runtime.graph_release_user_object(template_graph, attached_.handle, 1);
      try {
        update();
      } catch (...) {
        unchecked.graph_retain_user_object(template_graph, attached_.handle, 1, backend::RetainFlags::add);
        throw;
      }
    } catch (...) {
      unchecked.user_object_release(attached_.handle, 1);
      throw;
    }
  } catch (...) {
    unchecked.graph_release_user_object(template_graph, made.handle, 1);
    throw;
  }
  std::swap(attached_, made);
  unchecked.user_object_release(made.handle, 1);
  memory::ReleaseQueue::push(std::move(before));  // not here: destructors may replay the graph
}

void GraphResources::release_after_launch() noexcept {
  memory::LastLaunch last = std::exchange(last_launch_, {});
  if (resources_ == nullptr) return;
  // Usually nothing runs any more, but the device needs some microseconds to say so.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
  while (!last.is_over() && last.can_query() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  memory::ReleaseQueue::push(std::move(resources_), std::move(last));
}

}  // namespace reprise::graphs
