// SPDX-License-Identifier: Apache-2.0
#include "reprise/launch_host.h"

#include <exception>
#include <memory>
#include <utility>

#include "backend/check.h"
#include "backend/objects/outside_work.h"
#include "backend/user_code.h"
#include "captures/registry.h"
#include "graph/capture/kept_objects.h"
#include "memory/lifetime/release_queue.h"
#include "reprise/detail/public_call.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise {
namespace graphs {
namespace {

constinit captures::Slot<KeptObjects> kept_in_capture;

using host_detail::Function;

void call(Function& function) noexcept try {
  const backend::UserCode user_code;
  function.run();
} catch (const std::exception& error) {
  try {
    warn(text::format("A function of launch_host() threw: {}", error.what()));
  } catch (...) {
    warn("A function of launch_host() threw, and there was no memory for its message.");
  }
} catch (...) {
  warn("A function of launch_host() threw something that is not a std::exception.");
}

// The function as an entry of the release queue, made before the launch, since there may be no memory after it. On the
// thread that calls the function nothing is destroyed: destructors may call the runtime, which is forbidden there.
using Queueable = std::unique_ptr<memory::ReleaseQueue::Resources>;

Queueable queueable(std::unique_ptr<Function> function) {
  auto resources = std::make_unique<memory::ReleaseQueue::Resources>();
  resources->push_back(std::shared_ptr<Function>(std::move(function)));
  return resources;
}

Function& function_of(void* resources) {
  return *static_cast<Function*>(static_cast<memory::ReleaseQueue::Resources*>(resources)->front().get());
}

void call_each_time(void* resources) {
  call(function_of(resources));
}

void destroy(void* resources) {
  memory::ReleaseQueue::push(Queueable(static_cast<memory::ReleaseQueue::Resources*>(resources)));
}

void call_once(void* resources) {
  call_each_time(resources);
  destroy(resources);
}

// In a capture of other code: the template owns the function by a user object.
void keep_in_template(backend::Backend& backend, GraphHandle graph, Queueable function) {
  UserObjectHandle object = nullptr;
  backend::Checked(backend).user_object_create(&object, function.get(), &destroy, 1);
  static_cast<void>(function.release());  // the object's from here on
  try {
    backend::Checked(backend).graph_retain_user_object(graph, object, 1, backend::RetainFlags::move);
  } catch (...) {
    backend::WarnOnError(backend).user_object_release(object, 1);
    throw;
  }
}

}  // namespace

std::shared_ptr<KeptObjects> KeptObjects::of(captures::Capture& capture) {
  return capture.get_or_attach(kept_in_capture);
}

std::shared_ptr<KeptObjects> KeptObjects::find(captures::Capture& capture) noexcept {
  return capture.get(kept_in_capture);
}

std::shared_ptr<KeptObjects> KeptObjects::take(captures::Capture& capture) noexcept {
  return capture.detach(kept_in_capture);
}

}  // namespace graphs

void host_detail::launch(const StreamRef& stream, std::unique_ptr<Function> function) {
  if (function == nullptr) throw UsageError("launch_host expected a function to call, and was passed an empty one.");
  const detail::PublicCall public_call("launch_host");
  backend::OutsideWork::require_none(stream, "launch_host");
  memory::ReleaseQueue::drain();  // of functions that have run
  backend::Backend& backend = stream.device().backend();
  const backend::Checked runtime(backend);
  const std::span<const std::byte> object = function->object();
  graphs::Queueable owned = graphs::queueable(std::move(function));
  memory::ReleaseQueue::Resources* const kept = owned.get();
  const captures::Found found = captures::find(stream);
  if (found.body != nullptr)
    throw UsageError(
        "launch_host: expected a stream outside of bodies of conditional nodes, which cannot have a host function; "
        "found one in a body; call it before or after the node. The capture continues.");
  const auto objects = found.part == captures::Part::own ? graphs::KeptObjects::of(*found.capture) : nullptr;
  if (objects != nullptr) {
    objects->keep(std::move(owned), object);
    runtime.launch_host_function({&graphs::call_each_time, kept}, stream.native());
  } else if (found.part == captures::Part::foreign) {
    graphs::keep_in_template(backend, found.info.graph, std::move(owned));
    runtime.launch_host_function({&graphs::call_each_time, kept}, stream.native());
  } else {
    runtime.launch_host_function({&graphs::call_once, kept}, stream.native());
    static_cast<void>(owned.release());  // call_once() queues it
  }
}

void launch_host(const StreamRef& stream, std::function<void()> function) {
  using Kept = host_detail::FunctionOf<std::function<void()>>;
  host_detail::launch(stream, function ? std::make_unique<Kept>(function) : nullptr);
}

void launch_host(std::function<void()> function) {
  launch_host(current_stream(), std::move(function));
}

}  // namespace reprise
