// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "libtorch/distributed/nccl_group.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch {
namespace {

/// The group of one process: all collectives are those of c10d::Backend, which refuse.
class SingleProcess final : public c10d::Backend {
 public:
  SingleProcess() : Backend(0, 1) {}
  // NOLINTNEXTLINE(readability-const-return-type): as the base has it
  const std::string getBackendName() const override { return "single"; }
};

}  // namespace

c10::intrusive_ptr<c10d::Store> rendezvous(const ProcessEnvironment& environment, const ProcessGroupOptions& options) {
  c10d::TCPStoreOptions of_store;
  of_store.port = environment.master_port;
  of_store.isServer = environment.rank == 0 && environment.store_prefix.empty();
  of_store.numWorkers = static_cast<std::size_t>(environment.world_size);
  of_store.waitWorkers = environment.store_prefix.empty();  // the launcher's own store is there before
  of_store.timeout = options.timeout;
  c10::intrusive_ptr<c10d::Store> store =
      c10::make_intrusive<c10d::TCPStore>(environment.master_address, std::as_const(of_store));
  if (environment.store_prefix.empty()) return store;
  return c10::make_intrusive<c10d::PrefixStore>(environment.store_prefix, std::move(store));
}

c10::intrusive_ptr<c10d::Backend> init_process_group(c10::Device device, const ProcessEnvironment& environment,
                                                     const ProcessGroupOptions& options) {
  if (environment.world_size < 1 || environment.rank < 0 || environment.rank >= environment.world_size)
    throw UsageError(
        text::format("init_process_group expected a rank from 0 to below the number of processes, found {} "
                     "of {}: pass what process_environment() returns.",
                     environment.rank, environment.world_size));
  if (environment.world_size == 1) return c10::make_intrusive<SingleProcess>();
  if (!device.is_cuda())
    throw UsageError(
        text::format("init_process_group expected a CUDA device, which NCCL needs, found {}, with {} processes. Pass "
                     "torch::Device(torch::kCUDA, environment.local_rank); for tensors of the host device, pass "
                     "DataParallel a group of your own.",
                     device.str(), environment.world_size));
  return make_nccl_group(device, environment, options);
}

c10::intrusive_ptr<c10d::Backend> init_process_group(c10::Device device, const ProcessGroupOptions& options) {
  return init_process_group(device, process_environment(), options);
}

}  // namespace reprise::libtorch
