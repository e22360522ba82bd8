// SPDX-License-Identifier: Apache-2.0
#include "graph/parameters/marked_arguments.h"

#include "backend/capture_query.h"
#include "captures/registry.h"
#include "reprise/kernel.h"

namespace reprise {
namespace graphs {
namespace {

constinit captures::Slot<MarkedArguments> marked_of_capture;

}  // namespace

std::vector<MarkedArguments::Use> MarkedArguments::take(captures::Capture& capture) {
  const std::shared_ptr<MarkedArguments> marked = capture.detach(marked_of_capture);
  if (marked == nullptr) return {};
  const std::lock_guard lock(marked->mutex_);
  return std::move(marked->uses_);
}

void MarkedArguments::add(GraphNodeHandle node, std::span<const parameter_detail::MarkedArgument> marked) {
  const std::lock_guard lock(mutex_);
  for (const parameter_detail::MarkedArgument& each : marked) {
    const auto* const bytes = static_cast<const std::byte*>(each.initial);
    uses_.push_back({each.key, {bytes, bytes + each.bytes}, node, each.index});
  }
}

}  // namespace graphs

void detail::launch_marked_kernel(const StreamRef& stream, const LaunchConfig& config, const KernelRecord& record,
                                  void** params, std::span<const parameter_detail::MarkedArgument> marked) {
  std::shared_ptr<graphs::MarkedArguments> of_capture;
  if (captures::any_underway()) {
    const captures::Found found = captures::find(stream);
    if (found.part == captures::Part::own) of_capture = found.capture->get_or_attach(graphs::marked_of_capture);
  }
  launch_kernel(stream, config, record, params);
  if (of_capture == nullptr) return;
  // The next node would depend on this kernel alone.
  const backend::CaptureInfo info = backend::capture_info(stream);
  if (info.status != CaptureStatus::active) return;  // it was broken since: its end says so
  if (info.dependencies.size() != 1)
    throw Error(
        "launch: the node of a kernel with a Parameter was not found in the capture, which continues: the argument "
        "keeps "
        "its initial value.");
  of_capture->add(info.dependencies.front(), marked);
}

}  // namespace reprise
