// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstring>
#include <utility>

#include "inspect/compare/step_comparison.h"
#include "inspect/frozen/frozen_text.h"

// Executing two graphs side by side. The first execution of each keeps a number for what each step left; where these
// differ, both are executed again up to there, to see the bytes.

namespace reprise::inspect {
namespace {

std::string value_at(std::span<const std::byte> bytes, std::size_t at) {
  std::size_t size = 4;
  while (size > bytes.size() - at) size /= 2;
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, size);
  return value_text(value, size, "");
}

}  // namespace

std::optional<DifferingBytes> differing_bytes(const RangePair& range, std::span<const std::byte> first,
                                              std::span<const std::byte> second, const ComparedMemory& memory) {
  if (first.empty() || std::memcmp(first.data(), second.data(), first.size()) == 0) return std::nullopt;
  constexpr std::size_t word_bytes = sizeof(std::uint64_t);
  std::size_t begin = first.size(), end = 0;
  for (std::size_t at = 0; at < first.size(); at += word_bytes) {
    const std::size_t there = std::min(word_bytes, first.size() - at);
    std::uint64_t one = 0, other = 0;
    std::memcpy(&one, first.data() + at, there);
    std::memcpy(&other, second.data() + at, there);
    if (one == other) continue;
    const bool may_be_address = there == word_bytes && range.first % word_bytes == 0;
    if (may_be_address && memory.corresponds(one, other)) continue;
    for (std::size_t i = at; i < at + there; ++i) {
      if (first[i] == second[i]) continue;
      begin = std::min(begin, i);
      end = i + 1;
    }
  }
  if (end == 0) return std::nullopt;
  const std::size_t aligned = begin / 4 * 4;
  return DifferingBytes{
      {range.first + begin, end - begin}, range.second + begin, value_at(first, aligned), value_at(second, aligned)};
}

std::vector<std::uint64_t> FirstDifferenceSearch::execute(Side side) {
  std::vector<std::uint64_t> digests;
  runs_.begin(side);
  for (std::size_t i = 0; i < steps_.steps.size(); ++i) {
    const ComparedStep& step = steps_.steps[i];
    const bool runs = steps_.first.runs(step.first) || steps_.second.runs(step.second);
    runs_.launch(side, side == Side::first ? step.first : step.second);
    if (runs) runs_.wait();
    std::uint64_t all = 0;
    for (const MemoryRange& range : runs ? steps_.compared(step, side) : std::vector<MemoryRange>())
      read_in_pieces(runs_.backend(), runs_.stream(), range,
                     [&](std::uintptr_t address, std::span<const std::byte> bytes) {
                       all = digest(steps_.memory, side, all, address, bytes);
                     });
    digests.push_back(all);
  }
  runs_.wait();
  return digests;
}

void FirstDifferenceSearch::run() {
  const std::vector<std::uint64_t> digests[2] = {execute(Side::first), execute(Side::second)};
  for (; compared < steps_.steps.size(); ++compared) {
    if (digests[0][compared] == digests[1][compared]) continue;
    difference = look_again(compared, digests);
    if (difference) return;
  }
  difference = steps_.end;
}

std::optional<FirstDifference> FirstDifferenceSearch::look_again(std::size_t index,
                                                                 const std::vector<std::uint64_t> (&digests)[2]) {
  const ComparedStep& step = steps_.steps[index];
  MemoryImage images[2];
  for (const Side side : both_sides) {
    runs_.begin(side);
    for (std::size_t i = 0; i <= index; ++i)
      runs_.launch(side, side == Side::first ? steps_.steps[i].first : steps_.steps[i].second);
    runs_.wait();
    const std::size_t number = static_cast<std::size_t>(side);
    images[number] = MemoryImage(runs_.backend(), runs_.stream(), steps_.compared(step, side));
    std::uint64_t again = 0;
    for (std::size_t i = 0; i < images[number].ranges().size(); ++i)
      again = digest(steps_.memory, side, again, images[number].ranges()[i].begin, images[number].of(i));
    if (again != digests[number][index]) return steps_.difference(FirstDifferenceKind::not_repeatable, step);
  }
  const std::vector<RangePair>& ranges = steps_.compared(step);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    auto bytes = differing_bytes(ranges[i], images[0].of(i), images[1].of(i), steps_.memory);
    if (!bytes) continue;
    FirstDifference found = steps_.difference(FirstDifferenceKind::result, step);
    found.address = reinterpret_cast<const void*>(bytes->range.begin);
    found.second_address = reinterpret_cast<const void*>(bytes->second);
    found.bytes = bytes->range.bytes;
    found.first_value = std::move(bytes->first_value);
    found.second_value = std::move(bytes->second_value);
    return found;
  }
  return std::nullopt;
}

}  // namespace reprise::inspect
