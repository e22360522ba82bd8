// SPDX-License-Identifier: Apache-2.0
#include "libtorch/distributed/group_communicator.h"

#include <exception>
#include <mutex>
#include <unordered_map>

#include "reprise/log.h"
#include "reprise/stream.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::libtorch {
namespace {

struct KnownGroups {
  std::mutex mutex;
  std::unordered_map<const c10d::Backend*, std::weak_ptr<GroupCommunicator>> all;
};

}  // namespace

std::shared_ptr<GroupCommunicator> GroupCommunicator::of(const c10::intrusive_ptr<c10d::Backend>& group,
                                                         Device device) {
  static support::Immortal<KnownGroups> known;
  const std::lock_guard lock(known->mutex);
  std::erase_if(known->all, [](const auto& each) { return each.second.expired(); });
  std::weak_ptr<GroupCommunicator>& place = known->all[group.get()];
  std::shared_ptr<GroupCommunicator> found = place.lock();
  if (found == nullptr) place = found = std::make_shared<GroupCommunicator>(group, device);
  return found;
}

std::string GroupCommunicator::describe() const {
  return text::format("rank {} of {}", group_->getRank(), group_->getSize());
}

GroupCommunicator::~GroupCommunicator() {
  if (aborting_.joinable()) aborting_.join();
}

void GroupCommunicator::abort() noexcept {
  if (aborted_.exchange(true)) return;
  try {
    aborting_ = std::thread([this] { abort_group(); });
  } catch (const std::exception&) {
    warn("A communicator could not be aborted, because no thread could be started for that. End the process.");
  }
}

void GroupCommunicator::abort_group() const noexcept {
  try {
    const CaptureModeGuard relaxed(CaptureMode::relaxed, device_);  // frees memory, maybe beside captures
    group_->abort();
  } catch (const std::exception& error) {
    try {
      warn(text::format("The communicator of {} could not be aborted: {}", describe(), error.what()));
    } catch (...) {
      warn("A communicator could not be aborted, and there was no memory to say why.");
    }
  }
}

}  // namespace reprise::libtorch
