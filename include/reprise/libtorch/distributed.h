// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/nn/module.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reprise/detail/export.h"
#include "reprise/libtorch/detail/install.h"

/// \file
/// Data parallel training with graphs, one process for each device: docs/distributed.md.

namespace reprise::libtorch {

namespace detail {
class GradientBuckets;
}

/// Description of this process that a launcher has set in environment variables.
struct ProcessEnvironment {
  int rank = 0;                     ///< of this process, from 0
  int world_size = 1;               ///< how many processes there are
  int local_rank = 0;               ///< among those of this machine: the number of the device to use
  std::string master_address = {};  ///< of the machine of rank 0
  std::uint16_t master_port = 0;
  /// Non-empty if the launcher runs the store at that address, and this is the prefix for keys in it; empty if rank 0
  /// has to.
  std::string store_prefix = {};
};

/// Reads the variables that launchers set: `RANK`, `WORLD_SIZE` and `LOCAL_RANK` (torchrun, also by hand),
/// `OMPI_COMM_WORLD_RANK` and so on (`mpirun` of Open MPI), `PMI_RANK` and so on (of MPICH and Intel MPI); the first of
/// the three whose rank is set. `MASTER_ADDR` and `MASTER_PORT` are where rank 0 is reached; without them it is
/// 127.0.0.1:29500, if as many processes are on this machine as there are (`LOCAL_WORLD_SIZE` and so on).
/// \throws UsageError that lists all these variables with their values, if none of the ranks is set, one that is needed
///         is not, or a value is no number or out of range.
REPRISE_EXPORT ProcessEnvironment process_environment();

/// Options of init_process_group() and rendezvous().
struct ProcessGroupOptions {
  /// Limit of waits for other processes: to meet, and for collectives outside of graphs (c10d's watchdog). In graphs,
  /// CUDAGraph::synchronize(timeout) waits for a time.
  std::chrono::milliseconds timeout{600000};
};

/// Connects to the store in which the processes find each other; rank 0 runs it, unless the launcher does. Waits for
/// all processes. \throws c10::Error if they do not meet within the time.
REPRISE_EXPORT c10::intrusive_ptr<c10d::Store> rendezvous(const ProcessEnvironment& environment,
                                                          const ProcessGroupOptions& options = {});

/// Makes the process group of all processes, c10d's `ProcessGroupNCCL`, and waits for them. To be called by all.
/// With one process it is a group that has nothing to do, and refuses collectives. The destructor waits for
/// pending collectives. It may run in a capture. A graph that holds the group defers it.
/// \param device of this process, `torch::Device(torch::kCUDA, environment.local_rank)`.
/// \param environment rank and number of the processes, and where they meet.
/// \param options the same on all ranks.
/// \throws UsageError for a device that is not CUDA, with more than one process, as NCCL needs one;
///         if this library was built without CUDA tensors; for a rank that is none of the world. c10::Error as
///         rendezvous().
REPRISE_EXPORT c10::intrusive_ptr<c10d::Backend> init_process_group(c10::Device device,
                                                                    const ProcessEnvironment& environment,
                                                                    const ProcessGroupOptions& options = {});
/// As above, with process_environment().
REPRISE_EXPORT c10::intrusive_ptr<c10d::Backend> init_process_group(c10::Device device,
                                                                    const ProcessGroupOptions& options = {});

/// Options of DataParallel.
struct DataParallelOptions {
  /// Gradients are reduced together until they have this size. Each reduction takes time besides that for its bytes,
  /// and nothing runs beside the last one of a step: small buckets cost the former, large ones the latter.
  std::size_t bucket_bytes = std::size_t{16} << 20;
  /// Gradients are averaged over all ranks; false: added.
  bool average = true;
  /// finish() takes zeros for the gradients of parameters that backward() did not reach, instead of refusing them.
  bool allow_unused = false;
};

/// Averages the gradients of a model over all processes while backward() computes those that follow, outside of
/// captures and in them: PyTorch's `DistributedDataParallel` without a forward pass of its own.
///
///     DataParallel parallel(*model, group);
///     CUDAGraph step = capture({.warmup = 1}, [&] {
///       optimizer.zero_grad();
///       torch::mse_loss(model->forward(x), target).backward();
///       parallel.finish();
///       optimizer.step();
///     });
///
/// *Buckets.* The gradients of each type of values lie together in buckets, in the reverse order of the parameters.
/// When the last gradient of a bucket is there, a second stream, which waits for the streams of the gradients, reduces
/// it by one all-reduce; a third one copies gradients into the bucket before. Buckets are reduced in their order, so
/// that it is the same on all ranks.
///
/// *Gradients* are views of the buckets from then on (PyTorch's `gradient_as_bucket_view`). `zero_grad()` may drop
/// them, and they are copied in again, from memory that is held until finish(); with `zero_grad(false)` they stay, and
/// backward() writes there at once. Read and clip them after finish().
///
/// *Graphs* that captured a backward() keep the process group and the buckets. They may be destroyed before this object
/// and the group, or after them. A graph is replayed by all ranks, as often by each.
///
/// *One process*: nothing is done, and no call of the group is made.
///
/// *Threads*: one step at a time. Autograd's threads call it during backward().
class REPRISE_EXPORT DataParallel {
 public:
  /// Compares parameters and buffers of all ranks, copies the values of rank 0 to all, allocates the buckets, and
  /// reduces each once, so that communicators are connected before captures. To be called by all ranks.
  /// \param model its parameters that require gradients now take part; it is not kept, its parameters are.
  /// \param group a group for their device, whose collectives are work of the current stream (`asyncOp = false`), as
  ///        those of c10d's ProcessGroupNCCL.
  /// \param options the same on all ranks.
  /// \throws UsageError, on all ranks, if they have other parameters, buffers, shapes, types or options: names two of
  ///         the ranks, and the first that differs.
  /// \throws UsageError in a capture; for a null group; for parameters of several devices, or on one that cannot be
  ///         captured; for one that has a hook after its gradient already; for buckets of 0 bytes.
  DataParallel(const torch::nn::Module& model, c10::intrusive_ptr<c10d::Backend> group,
               const DataParallelOptions& options = {});
  /// As above, for parameters without a model; those that do not require a gradient are copied only.
  DataParallel(std::vector<at::Tensor> parameters, c10::intrusive_ptr<c10d::Backend> group,
               const DataParallelOptions& options = {});
  /// Removes the hooks from the parameters. Their gradients stay views of the buckets.
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// After backward(), on the stream that uses the gradients: that waits for all reductions. A round of gradients ends
  /// here; what an exception left of one in an earlier capture is dropped.
  /// \throws UsageError if a parameter has no gradient in this round, unless DataParallelOptions::allow_unused: names
  ///         it. In a capture this fails the capture. Other ranks wait for this one then; end them.
  void finish();

  int rank() const noexcept { return group_->getRank(); }
  int world_size() const noexcept { return group_->getSize(); }
  /// Number of all-reduces in a step; 0 with one process.
  std::size_t bucket_count() const noexcept;

 private:
  c10::intrusive_ptr<c10d::Backend> group_;
  std::shared_ptr<detail::GradientBuckets> buckets_;  // graphs share them; null with one process
};

}  // namespace reprise::libtorch
