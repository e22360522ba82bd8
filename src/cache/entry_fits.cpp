// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "backend/check.h"
#include "cache/entry.h"
#include "text/format.h"

// The check whether a call fits the entry of its key.

namespace reprise::caches {

std::size_t padded_bytes(const InputMemory& input, const cache_detail::Lengths& lengths) {
  if (lengths.padded == 0 || !input.padded) return input.bytes;
  std::size_t padded = 0;
  if (__builtin_mul_overflow(input.bytes / lengths.length, lengths.padded, &padded) || padded > PTRDIFF_MAX)
    throw UsageError(text::format(
        "GraphCache::run_padded expected GraphCacheOptions::padding to return a length whose inputs fit into "
        "memory; found {} for the length {}.",
        lengths.padded, lengths.length));
  return padded;
}

void require_reachable(const Call& call, const Device& device) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const InputMemory& input = call.inputs[i];
    if (input.bytes == 0) continue;
    const backend::PointerInfo info =
        backend::Checked(device.backend()).allowing(ErrorCode::invalid_value).info_of(input.data);
    if (info.kind != backend::MemoryKind::unregistered) continue;
    throw UsageError(
        text::format("GraphCache::run: expected inputs in memory that kernels of device {} can use; found input {} in "
                     "pageable memory "
                     "of the host, or in memory of another runtime, at {}. Copy it to a Buffer or a HostBuffer before.",
                     device.str(), i, static_cast<const void*>(input.data)));
  }
}

void copy_inputs_of(const Call& call, std::span<const CopyOp> copies, const StreamRef& stream) try {
  copy_batch_async(copies, stream);
} catch (const UsageError&) {
  require_reachable(call, stream.device());
  throw;
}

void add_copy_in(const InputMemory& input, void* memory, std::size_t padded, std::vector<CopyOp>& copies,
                 std::vector<FillOp>& fills) {
  copies.push_back({memory, input.data, input.bytes});
  if (padded > input.bytes)
    fills.push_back(
        {static_cast<std::byte*>(memory) + input.bytes, input.pattern, input.pattern_bytes, padded - input.bytes});
}

void require_apart(const Call& call, const std::vector<bool>& copied) {
  const auto overlap = [](const InputMemory& a, const InputMemory& b) {
    const auto begin = [](const InputMemory& each) { return reinterpret_cast<std::uintptr_t>(each.data); };
    return begin(a) < begin(b) + b.bytes && begin(b) < begin(a) + a.bytes;
  };
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    for (std::size_t k = 0; k < call.inputs.size(); ++k)
      if (k != i && call.inputs[i].written && (copied[i] || copied[k]) && overlap(call.inputs[i], call.inputs[k]))
        throw UsageError(text::format(
            "GraphCache::run: expected inputs apart from the memory of input {}, which the body changes; found "
            "input {} in the same memory. The graph has memory of its own for one of them: pass a copy of "
            "one, or one input for both.",
            i, k));
}

void Entry::refuse_body(const Call& call, const char* name) const {
  if (call.body.returns() != returns_) refuse(call, name, "a body with results of the same type", "another one");
  if (!(call.body.identity() == identity_)) refuse(call, name, "the same body", "another one");
  refuse(call, name, text::format("{} inputs", inputs_.size()), text::format("{}", call.inputs.size()));
}

void Entry::require_fits(const Call& call, const char* name, std::size_t i) const {
  const std::size_t bytes = padded_bytes(call.inputs[i], call.lengths);
  if (bytes != inputs_[i].bytes || call.inputs[i].written != inputs_[i].written)
    refuse(call, name,
           text::format("input {} with {} bytes{}", i, inputs_[i].bytes, inputs_[i].written ? ", inout" : ""),
           text::format("{} bytes{}", bytes, call.inputs[i].written ? ", inout" : ""));
}

void Entry::refuse(const Call& call, const char* name, const std::string& expected, const std::string& found) const {
  throw UsageError(
      text::format("{}: expected {}, as key {} was captured with; found {}. Add what that depends on to the key.", name,
                   expected, lender_ != nullptr ? lender_->key : call.key.str(shared_.options.key_fields), found));
}

}  // namespace reprise::caches
