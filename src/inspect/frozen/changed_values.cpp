// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "graph/capture/stack_patterns.h"
#include "inspect/nodes/node_values.h"
#include "text/format.h"

namespace reprise::inspect {
namespace {

bool share_a_place(const OwnMemory::Allocations& mine, std::uintptr_t address, const OwnMemory::Allocations& theirs,
                   std::uintptr_t other) {
  const std::size_t both = std::min(mine.size(), theirs.size());
  for (std::size_t i = 0; i < both; ++i) {
    const std::uintptr_t offset = address - mine[i].address;
    if (offset < mine[i].bytes && offset == other - theirs[i].address) return true;
  }
  return false;
}

std::uint64_t byte_of(std::uint64_t value, unsigned index) {
  return value >> (8 * index) & 0xFFU;
}

bool is_address(const ChangedValue& changed) {
  return !changed.first_memory.empty() || !changed.second_memory.empty();
}

// Sets the bytes that the body left as the stack was before to 0, in both values.
void clear_unwritten(ChangedValue& changed) {
  for (unsigned i = 0; i < changed.value.bytes; ++i) {
    if (byte_of(changed.first, i) != graphs::stack_pattern_of_dry_run ||
        byte_of(changed.value.value, i) != graphs::stack_pattern_of_capture)
      continue;
    const std::uint64_t others = ~(std::uint64_t{0xFF} << (8 * i));
    changed.first &= others;
    changed.value.value &= others;
  }
}

/// A word of 8 bytes may be two numbers, of which one differs.
ChangedValue narrowed(ChangedValue changed) {
  NodeValue& value = changed.value;
  if (value.bytes != 8 || !value.part || is_address(changed)) return changed;
  constexpr std::uint64_t low = 0xFFFFFFFFU;
  const std::uint64_t difference = changed.first ^ value.value;
  if ((difference & low) == 0) {
    value.offset += 4;
    value.value >>= 32;
    changed.first >>= 32;
  } else if ((difference & ~low) == 0) {
    value.value &= low;
    changed.first &= low;
  } else {
    return changed;
  }
  value.bytes = 4;
  return changed;
}

std::string memory_text(const NodeValues& values, std::uintptr_t address) {
  if (std::string text = values.own.text(address); !text.empty()) return text;
  const auto known = values.addresses.find(address);
  return known != values.addresses.end() ? known->second : std::string();
}

}  // namespace

bool may_differ_in_padding(const ChangedValue& changed) noexcept {
  const NodeValue& value = changed.value;
  const bool is_address = changed.first >> 47 == 0;
  return value.unwritten && !value.no_padding && value.bytes == 8 && changed.first >> 32 == value.value >> 32 &&
         !is_address;
}

std::string OwnMemory::text(std::uintptr_t address) const {
  for (std::size_t i = logged_.size(); i-- > 0;)
    if (address - logged_[i].address < logged_[i].bytes)
      return text::format("allocation {} of the capture, offset {}", i, address - logged_[i].address);
  return "";
}

bool OwnMemory::corresponds(std::uintptr_t mine, const OwnMemory& other, std::uintptr_t theirs) const {
  return share_a_place(logged_, mine, other.logged_, theirs) ||
         share_a_place(of_nodes_, mine, other.of_nodes_, theirs) ||
         share_a_place(of_children_, mine, other.of_children_, theirs) ||
         share_a_place(of_framework_, mine, other.of_framework_, theirs) ||
         (is_unpaired(mine) && other.is_unpaired(theirs)) || (hidden_.contains(mine) && other.hidden_.contains(theirs));
}

void OwnMemory::add_framework(Allocations paired, Allocations unpaired,
                              const std::function<bool(std::uintptr_t address)>& is_framework) {
  for (Allocations* const list : {&logged_, &of_children_})
    std::erase_if(*list, [&](const auto& each) { return is_framework(each.address); });
  of_framework_ = std::move(paired);
  unpaired_ = std::move(unpaired);
}

bool OwnMemory::is_value(std::uintptr_t address, std::size_t bytes) const noexcept {
  const auto is_it = [&](const auto& each) { return each.is_value && each.address == address && each.bytes == bytes; };
  return std::ranges::any_of(logged_, is_it) || std::ranges::any_of(of_children_, is_it);
}

bool OwnMemory::is_unpaired(std::uintptr_t address) const noexcept {
  return std::ranges::any_of(unpaired_, [&](const auto& each) { return address - each.address < each.bytes; });
}

std::vector<ChangedValue> changed_values(const NodeValues& first, const NodeValues& second) {
  const auto place = [](const NodeValue& v) { return std::tuple(v.node, v.parameter, v.offset, v.bytes); };
  std::vector<ChangedValue> changed;
  auto other = first.values.begin();
  for (const NodeValue& value : second.values) {
    while (other != first.values.end() && place(*other) < place(value)) ++other;
    if (other == first.values.end()) break;
    // Values that only one of the two has, such as an operation of a batch, follow from another value that differs.
    if (place(*other) != place(value) || other->value == value.value) continue;
    if (value.bytes == 8 && first.own.corresponds(other->value, second.own, value.value)) continue;
    const bool may_be_address = value.bytes == 8;
    ChangedValue change{value, other->value, may_be_address ? memory_text(first, other->value) : "",
                        may_be_address ? memory_text(second, value.value) : ""};
    change.value.perhaps |= other->perhaps;
    change.value.unwritten |= other->unwritten;
    if (change.value.unwritten && !is_address(change)) clear_unwritten(change);
    if (change.first != change.value.value) changed.push_back(narrowed(std::move(change)));
  }
  return changed;
}

}  // namespace reprise::inspect
