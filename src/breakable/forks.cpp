// SPDX-License-Identifier: Apache-2.0
#include "breakable/forks.h"

#include <algorithm>
#include <exception>

#include "backend/notifications.h"
#include "text/format.h"

namespace reprise::breakables {
namespace {

constinit captures::Slot<Forks> forks_of;

void note_wait(const StreamRef& stream) noexcept {
  if (!captures::any_underway()) return;
  bool watched = false;
  captures::for_each([&](const captures::Capture& each) { watched |= each.get(forks_of) != nullptr; });
  if (!watched) return;
  try {
    const captures::Found found = captures::find(stream);
    if (found.part != captures::Part::own || found.capture->stream() == stream) return;
    if (const auto forks = found.capture->get(forks_of)) forks->joined(stream);
  } catch (const std::exception& error) {  // the wait has succeeded
    warn(text::format("Work for a stream that waited may not be refused in later segments of its capture: {}",
                      error.what()));
  }
}

}  // namespace

std::shared_ptr<Forks> Forks::watch(captures::Capture& capture) {
  static constinit backend::StreamCallback callback(&note_wait);
  static const bool added = (backend::stream_wait_callbacks.add(callback), true);
  static_cast<void>(added);
  return capture.get_or_attach(forks_of);
}

void Forks::joined(const StreamRef& stream) noexcept {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(streams_, stream) != streams_.end()) return;
  try {
    streams_.push_back(stream);
  } catch (...) {  // no memory: work for the stream will not be refused in later segments
  }
}

void Forks::stream_ends(const StreamRef& stream) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(streams_, stream);
}

std::vector<StreamRef> Forks::streams() const {
  const std::lock_guard lock(mutex_);
  return streams_;
}

}  // namespace reprise::breakables
