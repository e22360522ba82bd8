// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "backend/call.h"

// For tests in which each call of the simulated device fails once.

namespace reprise::libtorch::test {

/// The names of all calls, for HostFailure::call.
inline std::vector<std::string> all_calls() {
  std::vector<std::string> names;
  for (int i = 0; i < backend::call_count; ++i) names.emplace_back(backend::cuda_name(static_cast<backend::Call>(i)));
  return names;
}

/// True if what the call was to release is lost when it fails. A tensor that is freed queries its device first.
inline bool loses_memory(const std::string& call) {
  const auto has = [&](const char* part) { return call.find(part) != std::string::npos; };
  return has("Destroy") || has("Free") || has("Release") || call == "cuPointerGetAttributes";
}

}  // namespace reprise::libtorch::test
