// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host/memory_kernels.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_cpu_dispatch.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/unfold_cpu_dispatch.h>
#include <ATen/ops/view_as_complex_cpu_dispatch.h>
#include <ATen/ops/view_as_real_cpu_dispatch.h>
#include <ATen/ops/view_cpu_dispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "backend/host_work.h"
#include "libtorch/host/host_memory.h"
#include "libtorch/host/host_streams.h"
#include "libtorch/host/kernel_work.h"
#include "libtorch/host/operator_call.h"
#include "reprise/memory.h"

namespace reprise::libtorch {

void resize_storage(const c10::Storage& storage, std::size_t bytes) {
  const c10::DeviceGuard guard(storage.device());
  c10::DataPtr memory = device_allocator()->allocate(bytes);
  const std::size_t kept = std::min(bytes, storage.nbytes());
  if (kept > 0) copy_async(memory.get(), storage.data(), kept, current_stream_of(storage.device()));
  storage.unsafeGetStorageImpl()->set_data_ptr(std::move(memory));
  storage.unsafeGetStorageImpl()->set_nbytes(bytes);
}

namespace {

constexpr c10::DispatchKeySet keys_here(c10::DispatchKey::PrivateUse1);

c10::Device resolve(std::optional<c10::Device> device) {
  return device.has_value() && device->has_index() ? host_c10_device(host_device_of(*device)) : current_c10_device();
}

// --- Memory and views -----------------------------------------------------------------------------------------------

at::Tensor empty(c10::IntArrayRef sizes, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> /*layout*/,
                 std::optional<c10::Device> device, std::optional<bool> pinned,
                 std::optional<c10::MemoryFormat> format) {
  TORCH_CHECK(!pinned.value_or(false), "Only tensors of the CPU can be pinned.");
  const c10::DeviceGuard guard(resolve(device));
  return at::detail::empty_generic(sizes, device_allocator(), keys_here, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout> /*layout*/, std::optional<c10::Device> device,
                         std::optional<bool> pinned) {
  TORCH_CHECK(!pinned.value_or(false), "Only tensors of the CPU can be pinned.");
  const c10::DeviceGuard guard(resolve(device));
  return at::detail::empty_strided_generic(sizes, strides, device_allocator(), keys_here, c10::dtype_or_default(dtype));
}

at::Tensor& set_to_nothing(at::Tensor& self) {
  const c10::DeviceGuard guard(self.device());
  const c10::Storage nothing(c10::Storage::use_byte_size_t(), 0, device_allocator(), /*resizable=*/true);
  return at::cpu::set_(self, nothing, 0, {0}, {1});
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  c10::impl::getDeviceGuardImpl(c10::DeviceType::PrivateUse1)->recordDataPtrOnStream(self.storage().data_ptr(), stream);
}

bool is_set_to(const at::Tensor& self, const at::Tensor& other) {
  return self.is_alias_of(other) && self.storage_offset() == other.storage_offset() &&
         self.sizes().equals(other.sizes()) && self.strides().equals(other.strides());
}

// --- Copies ---------------------------------------------------------------------------------------------------------

bool can_copy_bytes(const at::Tensor& from, const at::Tensor& to) {
  return from.scalar_type() == to.scalar_type() && from.sizes().equals(to.sizes()) &&
         from.strides().equals(to.strides()) && from.is_non_overlapping_and_dense() && from.is_neg() == to.is_neg() &&
         from.is_conj() == to.is_conj();
}

// On one device or between two: the CPU's copy kernel, for any strides and types. It waits for the work of the other
// device's stream, and that stream for the copy: the source may be freed or written next.
void copy_on_device(const at::Tensor& from, const at::Tensor& to) {
  const c10::DeviceGuard guard(to.device());
  const StreamRef stream = current_stream_of(to.device()), other = current_stream_of(from.device());
  if (stream != other) stream.wait(other);
  const TensorOperand source(from), target(to);
  enqueue_kernels(
      stream, "aten::copy_", [=] { target.on_cpu().copy_(source.on_cpu()); },
      std::array{source.access(false), target.access(true)});
  if (stream != other) other.wait(stream);
}

// A graph reads or writes pinned memory in each replay, and keeps it alive; else it is kept until the copy is done.
void finish_with_pinned(const at::Tensor& tensor, const StreamRef& stream, bool non_blocking, const char* why) {
  if (!non_blocking) return wait_for(stream, why);
  if (stream.capture_status() == CaptureStatus::none) return pinned_memory_used(tensor.const_data_ptr(), stream);
  backend::keep_in_captured_graph(stream, std::make_shared<c10::Storage>(tensor.storage()));
}

// A graph reads the memory in each replay: a capture refuses memory that the caller may change or free as soon as the
// call returns.
void require_lasting(const at::Tensor& from, bool non_blocking, const StreamRef& stream) {
  if (stream.capture_status() == CaptureStatus::none) return;
  if (!non_blocking) wait_for(stream, "aten::copy_ from the CPU");
  TORCH_CHECK(from.is_pinned(),
              "aten::copy_ from pageable memory of the CPU is not possible in a capture: each replay "
              "would read it again. Copy from pinned memory with non_blocking=true, or before the capture.");
}

// From the CPU. Pageable memory is read during the call, pinned memory in the order of the stream.
void copy_to_device(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const c10::DeviceGuard guard(to.device());
  const StreamRef stream = current_stream_of(to.device());
  const bool as_bytes = can_copy_bytes(from, to);
  const at::Tensor source = as_bytes ? from : from.resolve_conj().resolve_neg().contiguous();
  require_lasting(source, non_blocking, stream);
  const at::Tensor target = as_bytes ? to : at::empty(source.sizes(), source.options().device(to.device()));
  copy_async(target.mutable_data_ptr(), source.const_data_ptr(), source.nbytes(), stream);
  if (source.is_pinned()) finish_with_pinned(source, stream, non_blocking, "aten::copy_ from the CPU");
  if (!as_bytes) copy_on_device(target.expand(to.sizes()), to);
}

void copy_to_cpu(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const c10::DeviceGuard guard(from.device());
  const StreamRef stream = current_stream_of(from.device());
  if (can_copy_bytes(from, to)) {
    copy_async(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes(), stream);
    if (to.is_pinned())
      finish_with_pinned(to, stream, non_blocking, "aten::copy_ to the CPU");
    else
      wait_for(stream, "aten::copy_ to the CPU");
    return;
  }
  const at::Tensor dense = from.resolve_conj().resolve_neg().contiguous();
  at::Tensor packed = at::empty(dense.sizes(), dense.options().device(at::kCPU));
  copy_to_cpu(dense, packed, false);
  to.copy_(packed);
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (to.numel() == 0) return to;
  const at::Tensor source = from.sizes().equals(to.sizes()) ? from : from.expand(to.sizes());
  at::assert_no_internal_overlap(to);
  if (source.device() == to.device()) at::assert_no_partial_overlap(to, source);
  if (is_here(source) && is_here(to))
    copy_on_device(source, to);
  else if (is_here(to))
    copy_to_device(source, to, non_blocking);
  else
    copy_to_cpu(source, to, non_blocking);
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (!from.sizes().equals(to.sizes())) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef sizes, std::optional<c10::MemoryFormat> format) {
  const c10::DeviceGuard guard(self.device());
  at::native::resize_impl_cpu_(self.unsafeGetTensorImpl(), sizes, std::nullopt, false);
  if (format) self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  const std::size_t needed = at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.dtype().itemsize(),
                                                              static_cast<std::size_t>(self.storage_offset()));
  if (self.storage().nbytes() < needed) resize_storage(self.storage(), needed);
  return self;
}

// --- Values for the host --------------------------------------------------------------------------------------------

c10::Scalar local_scalar_dense(const at::Tensor& self) {
  at::Tensor value = at::empty({1}, self.options().device(at::kCPU));
  const c10::DeviceGuard guard(self.device());
  const StreamRef stream = current_stream_of(self.device());
  if (stream.capture_status() == CaptureStatus::none)
    copy_async(value.mutable_data_ptr(), self.const_data_ptr(), value.nbytes(), stream);
  wait_for(stream, "aten::_local_scalar_dense (item())");
  return value.item();
}

}  // namespace

void register_memory_kernels(torch::Library& aten) {
  aten.impl("empty.memory_format", &empty);
  aten.impl("empty_strided", &empty_strided);
  aten.impl("as_strided", &at::cpu::as_strided);
  aten.impl("view", static_cast<at::Tensor (*)(const at::Tensor&, c10::IntArrayRef)>(&at::cpu::view));
  aten.impl("_reshape_alias", static_cast<at::Tensor (*)(const at::Tensor&, c10::IntArrayRef, c10::IntArrayRef)>(
                                  &at::cpu::_reshape_alias));
  aten.impl("set_.source_Storage_storage_offset",
            static_cast<at::Tensor& (*)(at::Tensor&, at::Storage, std::int64_t, c10::IntArrayRef, c10::IntArrayRef)>(
                &at::cpu::set_));
  aten.impl("set_.source_Storage", static_cast<at::Tensor& (*)(at::Tensor&, at::Storage)>(&at::cpu::set_));
  aten.impl("set_.source_Tensor", static_cast<at::Tensor& (*)(at::Tensor&, const at::Tensor&)>(&at::cpu::set_));
  aten.impl("set_", &set_to_nothing);
  aten.impl("unfold", &at::cpu::unfold);
  aten.impl("view_as_real", &at::cpu::view_as_real);
  aten.impl("view_as_complex", &at::cpu::view_as_complex);
  aten.impl("record_stream", &record_stream);
  aten.impl("is_set_to", &is_set_to);
  aten.impl("resize_", &resize);
  aten.impl("_copy_from", &copy_from);
  aten.impl("_copy_from_and_resize", &copy_from_and_resize);
  aten.impl("_local_scalar_dense", &local_scalar_dense);
}

}  // namespace reprise::libtorch
