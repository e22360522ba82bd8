// SPDX-License-Identifier: Apache-2.0
#include "breakable/breaks.h"

#include <exception>
#include <string>

#include "breakable/recording.h"
#include "graph/replays.h"
#include "memory/copy_nodes.h"
#include "reprise/batch.h"
#include "text/demangle.h"
#include "text/format.h"

namespace reprise {

namespace breakables {

void Break::launch(const StreamRef& stream, memory::LastLaunch& last) {
  const Recording::Suspended outside;  // in hooks of the segment
  if (!has_nodes) return;
  if (const std::exception_ptr thrown = graphs::replay_in_order(last, segment, stream)) std::rethrow_exception(thrown);
}

// Work that the function submits counts as a launch, also if it then throws.
void Break::run_function(const StreamRef& stream, memory::LastLaunch& last) {
  const Recording::Suspended outside;
  const StreamGuard current(stream);
  std::exception_ptr failure;
  last.launch(stream, [&] {
    try {
      function->run(stream);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  if (failure != nullptr) std::rethrow_exception(failure);
}

void run(Breaks& breaks, const StreamRef& stream, memory::LastLaunch& last) {
  for (Break& each : breaks) {
    each.launch(stream, last);
    try {
      each.run_function(stream, last);
      last.launch(stream, [&] { each.function->copy_results(stream); });
    } catch (...) {
      each.function->drop_results();
      throw;
    }
  }
}

}  // namespace breakables

namespace {

std::string result_text(const eager_detail::Result& result) {
  return text::format("{} values of {}", result.count, text::demangle(result.type->name()));
}

void require_like(std::size_t number, const eager_detail::Result& expected, const eager_detail::Result& found) {
  const auto refuse = [&](const std::string& like, const std::string& is) {
    throw UsageError(
        text::format("eager: expected the function of an eager part to return buffer {} with {}, as in the capture; "
                     "found {}. The segments behind it read as much as was captured: return the same sizes each time, "
                     "or capture again for other ones.",
                     number, like, is));
  };
  if (*expected.type != *found.type || expected.count != found.count) refuse(result_text(expected), result_text(found));
  if (expected.count != 0 && expected.device != found.device)
    refuse("memory of " + expected.device->str(), found.device ? "memory of " + found.device->str() : "no memory");
}

}  // namespace

void eager_detail::copy_results(std::span<const Result> fixed, std::span<const Result> returned,
                                const StreamRef& stream) {
  if (fixed.size() != returned.size())
    throw UsageError(
        text::format("eager: expected the function of an eager part to return {} buffers, as in the capture; found {}. "
                     "Return as many each time, or capture again.",
                     fixed.size(), returned.size()));
  std::vector<CopyOp> ops;
  for (std::size_t i = 0; i < fixed.size(); ++i) {
    require_like(i, fixed[i], returned[i]);
    if (fixed[i].count != 0) ops.push_back({fixed[i].data, returned[i].data, fixed[i].count * fixed[i].value_bytes});
  }
  memory::copy_graph_memory(ops, stream);
  // They are freed now, perhaps for another stream.
  for (const Result& each : returned)
    if (each.count != 0) CachingAllocator::of(*each.device).record_stream(each.data, stream);
}

}  // namespace reprise
