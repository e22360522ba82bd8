// SPDX-License-Identifier: Apache-2.0
#include "libtorch/replay_part.h"

namespace reprise::libtorch {

constinit captures::Slot<ReplayPart> replay_part;

void ReplayPartListener::ended(captures::Capture& capture, graphs::CapturedGraph& graph) {
  const auto part = capture.detach(replay_part);
  if (part == nullptr || !part->any()) return;
  graph.resources.push_back(part);
  graph.in_replays.push_back(this);
  part_ = part;
}

}  // namespace reprise::libtorch
