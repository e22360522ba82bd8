// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

#include "cache/entry.h"
#include "reprise/batch.h"

namespace reprise::caches {
namespace {

// Runs a body with padded inputs in memory of their own, and copies back what it changed, without the padding, also
// before an exception of it.
BodyResults run_padded(const Call& call, const StreamRef& stream) {
  std::vector<bool> copied;
  for (const InputMemory& each : call.inputs) copied.push_back(each.padded);
  require_apart(call, copied);
  std::vector<Buffer<unsigned char>> memory;
  std::vector<InputMemory> at(call.inputs.begin(), call.inputs.end());
  std::vector<CopyOp> in, back;
  std::vector<FillOp> fills;
  for (InputMemory& each : at) {
    if (!each.padded) continue;
    const InputMemory given = each;
    each.bytes = padded_bytes(given, call.lengths);
    each.data = memory.emplace_back(each.bytes, stream).data();
    if (given.bytes == 0) continue;
    add_copy_in(given, each.data, each.bytes, in, fills);
    if (each.written) back.push_back({given.data, each.data, given.bytes});
  }
  if (!in.empty()) copy_inputs_of(call, in, stream);
  if (!fills.empty()) fill_batch_async(fills, stream);
  const auto copy_back = [&] {
    if (!back.empty()) copy_batch_async(back, stream);
  };
  BodyResults results;
  try {
    results = call.body.run(at, call.lengths);
  } catch (...) {
    try {
      copy_back();
    } catch (const std::exception& error) {
      warn_of_lost_changes(error);
    }
    throw;
  }
  copy_behind("the body has run, but what it changed in its inputs was not copied back", copy_back);
  return results;
}

BodyResults run_body(const Call& call, const StreamRef& stream) {
  const StreamGuard current(stream);
  return call.lengths.padded == 0 ? call.body.run(call.inputs, call.lengths) : run_padded(call, stream);
}

}  // namespace

Outcome run_eagerly(const Call& call, const StreamRef& stream) {
  BodyResults results = run_body(call, stream);
  if (call.body.returns() == typeid(void)) return {};
  auto lender = std::make_shared<Lender>(stream.device());
  lender->owner = std::move(results.owner);
  lender->memory = std::move(results.memory);
  return {std::move(lender), 0};
}

}  // namespace reprise::caches
