// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "captures/capture.h"
#include "reprise/handles.h"
#include "reprise/parameter.h"

namespace reprise::graphs {

/// The arguments of one capture that parameters stand for. Thread-safe.
class MarkedArguments {
 public:
  struct Use {
    std::shared_ptr<const void> key;
    std::vector<std::byte> initial;
    GraphNodeHandle node = nullptr;
    std::size_t argument = 0;
  };

  /// Takes them out of an ended capture.
  static std::vector<Use> take(captures::Capture& capture);

  void add(GraphNodeHandle node, std::span<const parameter_detail::MarkedArgument> marked);

 private:
  std::mutex mutex_;
  std::vector<Use> uses_;
};

}  // namespace reprise::graphs
