// SPDX-License-Identifier: Apache-2.0
#include "libtorch/graphed/lent_tensors.h"

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include <array>
#include <utility>

#include "libtorch/tensor_device.h"
#include "reprise/batch.h"
#include "reprise/stream.h"

namespace reprise::libtorch {
namespace {

struct Loan {
  at::Tensor memory;
  std::shared_ptr<GraphedCall> call;
};

void end_loan(void* loan) {
  delete static_cast<Loan*>(loan);
}

}  // namespace

at::Tensor tensor_in(c10::Storage storage, const at::Tensor& like, std::int64_t offset) {
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), like.key_set(), like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), offset);
  return made;
}

c10::Storage new_storage(c10::Device device, std::size_t bytes) {
  c10::Allocator* const allocator = c10::GetAllocator(device.type());
  return {c10::Storage::use_byte_size_t(), bytes, allocator->allocate(bytes), allocator, /*resizable=*/false};
}

at::Tensor lend(const at::Tensor& memory, std::shared_ptr<GraphedCall> call) {
  const c10::Storage& own = memory.storage();
  auto loan = std::make_unique<Loan>(Loan{memory, std::move(call)});
  at::DataPtr data(own.data_ptr().get(), loan.get(), &end_loan, memory.device());
  static_cast<void>(loan.release());
  c10::Storage storage(c10::Storage::use_byte_size_t(), own.nbytes(), std::move(data));
  return tensor_in(std::move(storage), memory, memory.storage_offset());
}

const GraphedCall* lent_by(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  const at::DataPtr& data = tensor.storage().data_ptr();
  return data.get_deleter() == &end_loan ? static_cast<const Loan*>(data.get_context())->call.get() : nullptr;
}

void FreshCopies::capture(const std::vector<at::Tensor>& sources, std::size_t second) {
  c10::Device device(c10::kCPU);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    Source& made = sources_.emplace_back();
    if (!sources[i].defined()) continue;
    device = sources[i].device();
    c10::Storage nothing(c10::Storage::use_byte_size_t(), 0, at::DataPtr(nullptr, device));
    made.like = tensor_in(std::move(nothing), sources[i], 0);
    made.data = sources[i].const_data_ptr();
    made.buffer = i < second ? 0 : 1;
    made.offset = buffer_bytes_[made.buffer];
    made.bytes = sources[i].nbytes();
    buffer_bytes_[made.buffer] += aligned_size(made.bytes);
  }
  if (!device.is_cpu()) nodes_.capture(current_stream(device_of_tensors(device)), sources_.size());
}

std::vector<at::Tensor> FreshCopies::make() {
  std::array<c10::Storage, 2> buffers;
  std::vector<at::Tensor> made(sources_.size());
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    if (!source.like.defined()) continue;
    c10::Storage& buffer = buffers[source.buffer];
    if (!buffer) buffer = new_storage(source.like.device(), buffer_bytes_[source.buffer]);
    made[i] = tensor_in(buffer, source.like, static_cast<std::int64_t>(source.offset / source.like.itemsize()));
    nodes_.set(i, {made[i].mutable_data_ptr(), source.data, source.bytes});
  }
  return made;
}

}  // namespace reprise::libtorch
