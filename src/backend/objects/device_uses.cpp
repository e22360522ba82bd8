// SPDX-License-Identifier: Apache-2.0
#include "backend/objects/device_uses.h"

#include <vector>

#include "reprise/error.h"
#include "support/forked.h"
#include "text/format.h"

namespace reprise::backend {
namespace {

const char* name_of(DeviceUses::Kind kind) {
  switch (kind) {
    case DeviceUses::Kind::simulator:
      return "simulator";
    case DeviceUses::Kind::buffer:
      return "buffer";
    case DeviceUses::Kind::stream:
      return "stream";
    case DeviceUses::Kind::event:
      return "event";
    case DeviceUses::Kind::graph:
      return "graph";
    case DeviceUses::Kind::generator:
      return "generator";
    case DeviceUses::Kind::guard:
      return "guard";
    case DeviceUses::Kind::failure:
      return "injected failure";
  }
  return "?";
}

}  // namespace

bool DeviceUses::begin(Kind kind, std::size_t bytes, const std::string* name) {
  if (support::forked()) return true;  // the calls of the device are refused
  const std::lock_guard lock(mutex_);
  if (all_ == 0 && kind != Kind::simulator) return false;
  if (name != nullptr) names_.push_back(name);
  ++all_;
  ++counts_[static_cast<std::size_t>(kind)];
  bytes_ += bytes;
  return true;
}

void DeviceUses::end(Kind kind, std::size_t bytes, const std::string* name) noexcept {
  if (support::forked()) return;
  {
    const std::lock_guard lock(mutex_);
    bytes_ -= bytes;
    std::erase(names_, name);
    --counts_[static_cast<std::size_t>(kind)];
    if (--all_ != 0) return;
  }
  close();
}

bool DeviceUses::is_open() const noexcept {
  if (support::forked()) return true;
  const std::lock_guard lock(mutex_);
  return all_ != 0;
}

std::string DeviceUses::list() const {
  std::vector<std::string> parts;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = static_cast<std::size_t>(Kind::buffer); i < kinds; ++i) {
      if (counts_[i] == 0) continue;
      const auto kind = static_cast<Kind>(i);
      parts.push_back(text::format("{} {}{}", counts_[i], name_of(kind), counts_[i] == 1 ? "" : "s"));
      if (kind == Kind::buffer) parts.back() += text::format(" ({} bytes)", bytes_);
      if (kind != Kind::graph || names_.empty()) continue;
      std::string names;
      for (const std::string* const name : names_) names += text::format("{}`{}`", names.empty() ? "" : ", ", *name);
      parts.back() += text::format(" ({})", names);
    }
  }
  std::string all;
  for (std::size_t i = 0; i < parts.size(); ++i)
    all += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return all;
}

void refuse_closed(const Device& device) {
  throw UsageError(
      text::format("expected a device that is open; found {}, whose HostSimulator has ended; keep the HostSimulator "
                   "alive while its device is used",
                   device.str()));
}

}  // namespace reprise::backend
