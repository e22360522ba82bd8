// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "libtorch/distributed/group_communicator.h"
#include "libtorch/distributed/rank_check.h"
#include "reprise/libtorch/distributed.h"
#include "reprise/stream.h"

namespace reprise::libtorch::detail {

/// The gradients of one model in buckets, and their all-reduces:
///
///     [arrived() for each parameter; each complete bucket, in order, is reduced] -> finish()
///
/// A round is one such sequence, in one capture or outside of captures. One that was left by an exception in a capture
/// is dropped by what comes first in another one, or outside.
///
/// Shared with the graphs that captured all-reduces, which use its memory. Threads: autograd's, and that of finish().
class GradientBuckets : public std::enable_shared_from_this<GradientBuckets> {
 public:
  /// \throws UsageError
  GradientBuckets(std::vector<NamedTensor> trained, c10::Device device, c10::intrusive_ptr<c10d::Backend> group,
                  const DataParallelOptions& options);
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// Has autograd call arrived(). \throws UsageError if a parameter has such a hook already; none was added then.
  void add_hooks();
  void remove_hooks() noexcept;
  /// Reduces all buckets, which are zero, outside of captures: communicators connect what each size needs.
  void connect();

  /// The gradient of a parameter was computed by work of the current stream.
  /// \throws UsageError if it is sparse, or there was one in this round already.
  void arrived(std::size_t parameter);
  /// DataParallel::finish()
  void finish();

  std::size_t count() const noexcept { return buckets_.size(); }

 private:
  struct Gradient {
    NamedTensor parameter;
    at::Tensor view = {};  // of the bucket
    std::size_t bucket = 0;
    bool arrived = false;  // in this round
  };
  struct Bucket {
    at::Tensor values;
    std::vector<std::size_t> gradients = {};
    std::size_t missing = 0;
    std::vector<StreamRef> streams = {};  // of the gradients that arrived
    std::vector<at::Tensor> copied = {};  // gradients that are kept until their copies are done
  };

  void fill_buckets(std::size_t bucket_bytes);
  void add_bucket(const std::vector<std::size_t>& gradients);
  void begin_round(const StreamRef& here);
  void drop_round() noexcept;
  void reduce_in_order(const StreamRef& here);
  void gather(Bucket& bucket, const StreamRef& here);
  void reduce(const Bucket& bucket, const StreamRef& here);
  void hold_in_capture(const StreamRef& here);

  const c10::Device device_;
  const Device here_;
  const std::shared_ptr<GroupCommunicator> communicator_;
  const bool average_, allow_unused_;
  const Stream copies_;  // into the buckets
  const Stream side_;    // of the all-reduces

  std::mutex mutex_;  // guards the rest
  std::vector<Gradient> gradients_;
  std::vector<Bucket> buckets_;  // in the order in which they are reduced
  std::size_t next_ = 0;         // the first bucket that was not reduced in this round
  bool underway_ = false;        // a round
  std::uint64_t capture_ = 0;    // of the round; 0 outside of captures
};

}  // namespace reprise::libtorch::detail
