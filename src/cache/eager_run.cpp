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

/// The inputs of a padded call in memory of their own, for a body that runs eagerly.
class PaddedInputs {
 public:
  PaddedInputs(const Call& call, const StreamRef& stream) : call_(call), stream_(stream) {
    std::vector<bool> copied;
    for (const InputMemory& each : call.inputs) copied.push_back(each.padded);
    require_apart(call, copied);
    std::vector<CopyOp> ops;
    std::vector<FillOp> fills;
    for (const InputMemory& each : call.inputs) {
      at_.push_back(each);
      if (!each.padded) continue;
      const std::size_t bytes = padded_bytes(each, call.lengths);
      unsigned char* const memory = memory_.emplace_back(bytes, stream).data();
      at_.back().data = memory;
      at_.back().bytes = bytes;
      if (each.bytes != 0) add_copy_in(each, memory, bytes, ops, fills);
    }
    if (!ops.empty()) copy_inputs_of(call, ops, stream);
    if (!fills.empty()) fill_batch_async(fills, stream);
  }

  const std::vector<InputMemory>& at() const noexcept { return at_; }

  /// Copies back what the body changed, without the padding.
  void copy_back() const {
    std::vector<CopyOp> ops;
    for (std::size_t i = 0; i < at_.size(); ++i)
      if (at_[i].written && at_[i].padded && call_.inputs[i].bytes != 0)
        ops.push_back({call_.inputs[i].data, at_[i].data, call_.inputs[i].bytes});
    if (!ops.empty()) copy_batch_async(ops, stream_);
  }
  /// Copies back what the body changed before it threw.
  void copy_back_after_error() const noexcept try { copy_back(); } catch (const std::exception& error) {
    warn_of_lost_changes(error);
  }

 private:
  const Call& call_;
  const StreamRef stream_;
  std::vector<Buffer<unsigned char>> memory_;
  std::vector<InputMemory> at_;
};

BodyResults run_body(const Call& call, const StreamRef& stream) {
  const StreamGuard current(stream);
  if (call.lengths.padded == 0) return call.body.run(call.inputs, call.lengths);
  const PaddedInputs padded(call, stream);
  BodyResults results;
  try {
    results = call.body.run(padded.at(), call.lengths);
  } catch (...) {
    padded.copy_back_after_error();
    throw;
  }
  copy_behind("the body has run, but what it changed in its inputs was not copied back", [&] { padded.copy_back(); });
  return results;
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
