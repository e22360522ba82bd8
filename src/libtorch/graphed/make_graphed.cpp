// SPDX-License-Identifier: Apache-2.0
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>

#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "graph/capture/internal_streams.h"
#include "libtorch/graphed/capture_guards.h"
#include "libtorch/graphed/changed_tensors.h"
#include "libtorch/graphed/graphed_capture.h"
#include "libtorch/operators/autocast_cache.h"
#include "libtorch/tensor_device.h"
#include "reprise/error.h"
#include "reprise/libtorch/graph.h"
#include "reprise/libtorch/graphed_cache.h"
#include "text/format.h"
#include "text/require_named.h"

// Warm-up and capture of all callables that are made together.

namespace reprise::libtorch::detail {
namespace {

// Adds the callable and the phase to an exception, whose type is kept where possible.
template <class F>
void in_phase(const GraphedCapture& capture, const char* phase, F&& step) {
  const std::string where = text::format("{}, {} of {}", capture.source().maker, phase, *capture.parts().name);
  try {
    step();
  } catch (c10::Error& error) {
    error.add_context(where);
    throw;
  } catch (const OutOfMemoryError& error) {
    throw OutOfMemoryError(text::format("{}: {}", where, error.what()), error.statistics());
  } catch (const CaptureError& error) {
    throw CaptureError(error.code(), text::format("{}: {}", where, error.what()), error.report());
  } catch (const DeadInputError& error) {
    throw DeadInputError(text::format("{}: {}", where, error.what()), error.inputs());
  } catch (const UsageError& error) {
    throw UsageError(text::format("{}: {}", where, error.what()));
  } catch (const std::exception& error) {
    std::throw_with_nested(Error(text::format("{}: {}", where, error.what())));
  }
}

std::vector<at::Tensor> all_of(const std::deque<GraphedCapture>& captures,
                               std::vector<at::Tensor> (*of)(const GraphedCapture& capture)) {
  std::vector<at::Tensor> all;
  for (const GraphedCapture& each : captures) {
    const auto some = of(each);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::vector<at::Tensor> state_of(const GraphedCapture& capture) {
  auto tensors = capture.parts().watched.buffers();
  tensors.insert(tensors.end(), capture.source().state.begin(), capture.source().state.end());
  return tensors;
}

// Sets the version counters of tensors back at the end of its life: their values are then as before, and a history that
// was recorded before stays valid.
auto restored_versions(const std::vector<at::Tensor>& tensors) {
  std::vector<std::pair<at::Tensor, std::uint32_t>> before;
  for (const at::Tensor& each : tensors)
    if (each.defined() && !each.is_inference()) before.emplace_back(each, static_cast<std::uint32_t>(each._version()));
  return c10::make_scope_exit([before = std::move(before)] {
    for (const auto& [tensor, version] : before) set_version(tensor, version);
  });
}

void check_options(const GraphedCallableOptions& options) {
  text::require_named("GraphedCallableOptions::outputs", options.outputs, {Outputs::alias, Outputs::copy},
                      "Outputs::alias or Outputs::copy");
  text::require_named("GraphedCallableOptions::gradients", options.gradients, {Gradients::fresh, Gradients::alias},
                      "Gradients::fresh or Gradients::alias");
  if (options.num_warmup_iters < 0)
    throw UsageError(text::format("GraphedCallableOptions::num_warmup_iters: expected 0 or more, found {}.",
                                  options.num_warmup_iters));
}

std::vector<at::Tensor> known_state_of(const GraphedCapture& capture) {
  auto tensors = state_of(capture);
  for (const at::Tensor& each : capture.parts().inputs)
    if (each.defined()) tensors.push_back(each);
  return tensors;
}

void warm_up(std::deque<GraphedCapture>& captures, ChangedTensors& changed) {
  // Callables may share a buffer: what is restored first must be what was there first.
  Restored restored(captures.front().parts().device, all_of(captures, &known_state_of));
  for (GraphedCapture& each : captures)
    for (int i = 0; i < each.parts().options.num_warmup_iters; ++i) {
      changed.next_run(/*captures=*/false);
      in_phase(each, "the warm-up", [&] { each.warm_up(); });
    }
  restored.restore();
}

}  // namespace

void refuse_in_capture(c10::Device device, const std::string& maker) {
  if (current_stream(device_of_tensors(device)).capture_status() == CaptureStatus::none) return;
  throw UsageError(text::format("{} in a capture: it captures graphs of its own. Make them before.", maker));
}

std::string name_of_source(const std::vector<std::shared_ptr<torch::nn::Module>>& modules, const std::string& maker) {
  for (const auto& each : modules)
    if (each == nullptr)
      throw UsageError(text::format("{} expected a module, found an empty pointer: make the module first.", maker));
  return modules.empty() ? "a function" : modules.front()->name();
}

std::vector<std::shared_ptr<GraphedFunction>> make_graphed(std::vector<GraphedSource> sources,
                                                           const GraphedCallableOptions& options) {
  check_options(options);
  if (sources.empty()) return {};
  GraphedCallableOptions with_pool = options;
  if (!with_pool.pool) with_pool.pool = graph_pool_handle();
  std::deque<GraphedCapture> captures;
  for (std::size_t i = 0; i < sources.size(); ++i) captures.emplace_back(std::move(sources[i]), i, with_pool);
  const c10::Device device = captures.front().parts().device;
  for (const GraphedCapture& each : captures)
    if (each.parts().device != device)
      throw UsageError(
          text::format("make_graphed_callables expected callables of one device, found {} on {}, and {} on "
                       "{}. Make them one by one.",
                       *captures.front().parts().name, device.str(), *each.parts().name, each.parts().device.str()));
  const c10::DeviceGuard guard(device);
  refuse_in_capture(device, captures.front().source().maker);
  // The state put aside meanwhile belongs to modules, of which another thread may be making callables.
  static std::recursive_mutex mutex;
  const std::lock_guard lock(mutex);
  for (GraphedCapture& each : captures) each.make_inputs();
  // Backwards of earlier calls may be pending, for which buffers must not appear to be changed.
  const auto versions = restored_versions(all_of(captures, &state_of));
  // The same stream each time, so that libraries and allocators keep per-stream state once.
  const Device here = device_of_tensors(device);
  const StreamRef before_side = current_stream(here);
  const graphs::InternalStream side(here);
  const StreamGuard on_side(side.ref());
  side.ref().wait(before_side);
  const auto join = c10::make_scope_exit([&] {
    try {
      before_side.wait(side.ref());
    } catch (const std::exception& error) {
      warn(text::format("the end of make_graphed_callables: {}", error.what()));
    }
  });
  const NoAutocastCache no_cache;  // a warm-up would fill it on another stream than the caller's
  const QuietLeaves quiet(all_of(captures, [](const GraphedCapture& each) { return each.parts().watched.trained(); }),
                          captures.front().source().runs_hooks);
  ChangedTensors changed(device, all_of(captures, &known_state_of));
  warm_up(captures, changed);
  changed.next_run(/*captures=*/true);
  const std::uint64_t before = framework_bytes(device);
  const auto order = PoolOrder::of(with_pool.pool);
  for (GraphedCapture& each : captures)
    in_phase(each, "the capture of the forward", [&] { each.capture_forward(side.ref(), order); });
  for (auto each = captures.rbegin(); each != captures.rend(); ++each)
    in_phase(*each, "the capture of the backward", [&] { each->capture_backward(); });
  std::vector<std::shared_ptr<CapturedFunction>> made;
  for (GraphedCapture& each : captures) made.push_back(each.finish());
  const std::uint64_t after = framework_bytes(device);
  made.front()->set_captured_bytes(after > before ? after - before : 0);
  return {made.begin(), made.end()};
}

}  // namespace reprise::libtorch::detail
