// SPDX-License-Identifier: Apache-2.0
#include "libtorch/lent_tensors.h"

#include <ATen/ops/empty.h>
#include <c10/core/Storage.h>

#include <array>
#include <utility>

#include "libtorch/tensor_device.h"
#include "reprise/batch.h"

namespace reprise::libtorch {
namespace {

struct Loan {
  at::Tensor memory;
  std::shared_ptr<Call> call;
};

void end_loan(void* loan) {
  delete static_cast<Loan*>(loan);
}

// Sizes, strides and type of `like`, in a storage. `offset` is in values.
at::Tensor tensor_in(c10::Storage storage, const at::Tensor& like, std::int64_t offset) {
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), like.key_set(), like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), offset);
  return made;
}

}  // namespace

at::Tensor lend(const at::Tensor& memory, std::shared_ptr<Call> call) {
  const c10::Storage& own = memory.storage();
  auto loan = std::make_unique<Loan>(Loan{memory, std::move(call)});
  at::DataPtr data(own.data_ptr().get(), loan.get(), &end_loan, memory.device());
  static_cast<void>(loan.release());
  c10::Storage storage(c10::Storage::use_byte_size_t(), own.nbytes(), std::move(data));
  return tensor_in(std::move(storage), memory, memory.storage_offset());
}

const Call* lent_by(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  const at::DataPtr& data = tensor.storage().data_ptr();
  return data.get_deleter() == &end_loan ? static_cast<const Loan*>(data.get_context())->call.get() : nullptr;
}

FreshCopies::FreshCopies(std::vector<at::Tensor> sources, std::size_t second) {
  constexpr std::size_t alignment = 256;  // in bytes, as that of a tensor of its own is at least
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::size_t buffer = i < second ? 0 : 1;
    const std::size_t bytes = sources[i].defined() ? sources[i].nbytes() : 0;
    sources_.push_back({std::move(sources[i]), buffer, buffer_bytes_[buffer], bytes});
    buffer_bytes_[buffer] += (bytes + alignment - 1) / alignment * alignment;
  }
}

std::vector<at::Tensor> FreshCopies::make() const {
  std::array<at::Tensor, 2> buffers;
  std::vector<at::Tensor> made(sources_.size());
  std::vector<CopyOp> copies;
  c10::Device device(c10::kCPU);
  copies.reserve(sources_.size());
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    if (!source.tensor.defined()) continue;
    at::Tensor& buffer = buffers[source.buffer];
    if (!buffer.defined())
      buffer = at::empty({static_cast<std::int64_t>(buffer_bytes_[source.buffer])},
                         source.tensor.options().dtype(at::kByte));
    const auto item = static_cast<std::int64_t>(source.tensor.itemsize());
    made[i] = tensor_in(buffer.storage(), source.tensor, static_cast<std::int64_t>(source.offset) / item);
    device = buffer.device();
    if (source.bytes > 0) copies.push_back({made[i].mutable_data_ptr(), source.tensor.const_data_ptr(), source.bytes});
  }
  if (!copies.empty()) copy_batch_async(copies, current_stream(device_of_tensors(device)));
  return made;
}

}  // namespace reprise::libtorch
