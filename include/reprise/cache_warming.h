// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "reprise/export.h"

/// \file
/// Captures ahead of the first calls: GraphCache::warm().

namespace reprise {

class GraphCache;

/// Options of GraphCache::warm().
struct WarmOptions {
  /// The number of threads that instantiate the captured graphs meanwhile. 0: each is instantiated by its capture.
  std::size_t threads = 0;
  /// Called after each key, on the calling thread.
  std::function<void(std::size_t done, std::size_t all)> progress = {};
};

namespace cache_detail {

/// One GraphCache::warm(). While it lives, captures of the cache by this thread leave the instantiation to others.
class REPRISE_EXPORT Warming {
 public:
  Warming(GraphCache& cache, std::size_t all, const WarmOptions& options);
  ~Warming();
  Warming(const Warming&) = delete;
  Warming& operator=(const Warming&) = delete;

  void captured(bool has_graph);
  std::size_t finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cache_detail
}  // namespace reprise
