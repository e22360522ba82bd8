// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/distributed/store_group.h"

#include <ATen/ATen.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "libtorch/host/kernel_work.h"
#include "libtorch/tensor_device.h"

namespace reprise::libtorch::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::chrono::minutes patience{5};  // for processes that have died

struct Memory {
  explicit Memory(const at::Tensor& tensor)
      : data(static_cast<std::uint8_t*>(tensor.mutable_data_ptr())),
        bytes(tensor.nbytes()),
        count(tensor.numel()),
        type(tensor.scalar_type()) {
    TORCH_CHECK(tensor.is_contiguous(), "StoreGroup expects contiguous tensors.");
  }
  Bytes read() const { return Bytes(data, data + bytes); }
  void write(const Bytes& from) const { std::memcpy(data, from.data(), bytes); }
  at::Tensor on_cpu(void* memory) const { return at::from_blob(memory, {count}, type); }
  MemoryAccess access(bool writes) const { return {data, bytes, writes}; }

  std::uint8_t* data;
  std::size_t bytes;
  std::int64_t count;
  c10::ScalarType type;
};

void submit(const at::Tensor& where, const char* name, std::function<void()> work,
            const std::vector<MemoryAccess>& memory) {
  enqueue_kernels(current_stream(device_of_tensors(where.device())), name, std::move(work), memory);
}

}  // namespace

/// Work of the group, which runs on a thread of the device, one after another.
class StoreGroup::Exchange {
 public:
  Exchange(c10::intrusive_ptr<c10d::Store> store, std::string name, int rank, int size)
      : store_(std::move(store)), name_(std::move(name)), rank_(rank), size_(size) {}

  /// What all ranks passed, in their order; nullopt once the group was aborted.
  std::optional<std::vector<Bytes>> all(const Bytes& own) {
    const std::string round = name_ + "/" + std::to_string(executed_++) + "/";
    store_->set(round + std::to_string(rank_), own);
    std::vector<Bytes> found;
    for (int rank = 0; rank < size_; ++rank) {
      const std::string key = round + std::to_string(rank);
      if (!wait_for(key)) return std::nullopt;
      found.push_back(store_->get(key));
    }
    return found;
  }
  void meet() {
    if (!all({1})) return;
    const std::string round = name_ + "/" + std::to_string(executed_++) + "/left/";
    if (rank_ != 0) return store_->set(round + std::to_string(rank_), "left");
    for (int rank = 1; rank < size_; ++rank)
      if (!wait_for(round + std::to_string(rank))) return;
  }
  int executed() const noexcept { return executed_; }

  std::atomic<bool> aborted{false};

 private:
  // Unlike that of the store it leaves the connection to others meanwhile. False once the group was aborted.
  bool wait_for(const std::string& key) const {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!store_->check({key})) {
      if (aborted) return false;
      TORCH_CHECK(std::chrono::steady_clock::now() < end, "The other processes did not come to ", key);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
  }

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::string name_;
  const int rank_, size_;
  std::atomic<int> executed_{0};
};

StoreGroup::StoreGroup(c10::intrusive_ptr<c10d::Store> store, const std::string& name, int rank, int size)
    : Backend(rank, size), exchange_(std::make_shared<Exchange>(std::move(store), name, rank, size)) {}

c10::intrusive_ptr<c10d::Work> StoreGroup::allreduce(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceOptions& options) {
  const Memory values(tensors.front());
  const bool average = options.reduceOp == c10d::ReduceOp::AVG;
  TORCH_CHECK(average || options.reduceOp == c10d::ReduceOp::SUM, "StoreGroup only adds and averages.");
  const auto work = [values, average, size = getSize(), exchange = exchange_] {
    auto all = exchange->all(values.read());
    if (!all) return;
    const at::Tensor sum = at::zeros({values.count}, values.type);
    for (Bytes& each : *all) sum.add_(values.on_cpu(each.data()));
    if (average) sum.div_(size);
    values.on_cpu(values.data).copy_(sum);
  };
  submit(tensors.front(), "StoreGroup::allreduce", work, {values.access(true)});
  return nullptr;
}

c10::intrusive_ptr<c10d::Work> StoreGroup::broadcast(std::vector<at::Tensor>& tensors,
                                                     const c10d::BroadcastOptions& options) {
  const Memory values(tensors.front());
  const auto work = [values, root = static_cast<std::size_t>(options.rootRank), exchange = exchange_] {
    if (const auto all = exchange->all(values.read())) values.write(all->at(root));
  };
  submit(tensors.front(), "StoreGroup::broadcast", work, {values.access(true)});
  return nullptr;
}

c10::intrusive_ptr<c10d::Work> StoreGroup::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                                     std::vector<at::Tensor>& inputs,
                                                     const c10d::AllgatherOptions& /*options*/) {
  const Memory own(inputs.front());
  std::vector<Memory> all_values;
  std::vector<MemoryAccess> memory{own.access(false)};
  for (const at::Tensor& each : outputs.front()) {
    all_values.emplace_back(each);
    memory.push_back(all_values.back().access(true));
  }
  const auto work = [own, all_values, exchange = exchange_] {
    const auto all = exchange->all(own.read());
    if (!all) return;
    for (std::size_t rank = 0; rank < all->size(); ++rank) all_values[rank].write(all->at(rank));
  };
  submit(inputs.front(), "StoreGroup::allgather", work, memory);
  return nullptr;
}

c10::intrusive_ptr<c10d::Work> StoreGroup::barrier(const c10d::BarrierOptions& /*options*/) {
  exchange_->meet();
  return nullptr;
}

void StoreGroup::abort() {
  exchange_->aborted = true;
}

int StoreGroup::executed() const noexcept {
  return exchange_->executed();
}

}  // namespace reprise::libtorch::test
