// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/host_device.h"

#include <ATen/Context.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include "backend/backend.h"
#include "libtorch/host/cuda_like_kernels.h"
#include "libtorch/host/fallback.h"
#include "libtorch/host/host_generator.h"
#include "libtorch/host/host_memory.h"
#include "libtorch/host/host_streams.h"
#include "libtorch/host/memory_kernels.h"
#include "support/immortal.h"
#include "text/format.h"

// Registers the host device in libtorch.

namespace reprise::libtorch {
namespace {

const c10::impl::DeviceGuardImplInterface& guard() {
  return *c10::impl::getDeviceGuardImpl(type_here);
}

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return guard().deviceCount(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { guard().setDevice({type_here, device}); }
  c10::DeviceIndex getCurrentDevice() const override { return guard().getDevice().index(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return guard().exchangeDevice({type_here, device}).index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_host_generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return at::make_generator<HostGenerator>(Generator(host_device_of({type_here, device})));
  }
  at::Device getDeviceFromPtr(void* data) const override {
    backend::PointerInfo info;
    TORCH_CHECK(backend::host_backends().front()->pointer_info(data, &info) == ErrorCode::success &&
                    info.kind == backend::MemoryKind::device,
                "The address ", data, " belongs to no host device.");
    return {type_here, static_cast<c10::DeviceIndex>(info.device_index)};
  }
  bool isPinnedPtr(const void* data) const override {
    backend::PointerInfo info;
    if (backend::host_backends().front()->pointer_info(data, &info) == ErrorCode::success &&
        info.kind == backend::MemoryKind::pinned)
      return true;
    // TensorOptions::pinned_memory() has CUDA pin the memory where libtorch finds a GPU, whatever the accelerator is.
    return at::globalContext().isPinnedPtr(data, c10::DeviceType::CUDA);
  }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    resize_storage(storage, bytes);
  }
};

bool has_compatible_shallow_copy_type(const at::Tensor& a, const at::Tensor& b) {
  // Module::to() assigns the data of a tensor of one device to a parameter of another one.
  return a.layout() == b.layout();
}

struct Registration {
  Registration() {
    if (c10::is_privateuse1_backend_registered())
      throw UsageError(
          text::format("host_device() registers the host device as the PrivateUse1 backend of libtorch, and this "
                       "process has one already, \"{}\"; there can be one in a process.",
                       c10::get_privateuse1_backend()));
    c10::register_privateuse1_backend("reprise");
    register_guard();
    c10::SetAllocator(type_here, device_allocator());
    at::RegisterPrivateUse1HooksInterface(new Hooks);  // libtorch keeps it
    register_memory_kernels(aten);
    register_cuda_like_kernels(aten);
    register_cuda_like_autograd(aten_autograd);
    register_lazy_views(conjugated);
    register_lazy_views(negated);
    everything.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
    autocast.fallback(torch::CppFunction::makeFallthrough());
    // libtorch 2.8 has none for this key: an operator without a rule for gradients could not be called.
    if (!c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(c10::DispatchKey::AutogradPrivateUse1))
      autograd.fallback(torch::CppFunction::makeFallthrough());
    register_autocast(aten_autocast);
    for (torch::Library* each : {&aten, &aten_autograd})
      each->impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
  }

  torch::Library aten{torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__};
  torch::Library aten_autograd{torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__};
  torch::Library aten_autocast{torch::Library::IMPL, "aten", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__};
  torch::Library conjugated{torch::Library::IMPL, "aten", c10::DispatchKey::Conjugate, __FILE__, __LINE__};
  torch::Library negated{torch::Library::IMPL, "aten", c10::DispatchKey::Negative, __FILE__, __LINE__};
  torch::Library everything{torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__};
  torch::Library autocast{torch::Library::IMPL, "_", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__};
  torch::Library autograd{torch::Library::IMPL, "_", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__};
};

}  // namespace

c10::Device host_device(int index) {
  static const support::Immortal<Registration> registered;  // libtorch lives until the process ends
  static_cast<void>(registered);
  if (index < 0 || index >= guard().deviceCount())
    throw UsageError(
        text::format("host_device() expected the number of a host device below {}, found {}; the "
                     "environment variable REPRISE_HOST_DEVICES says how many there are.",
                     static_cast<int>(guard().deviceCount()), index));
  return {type_here, static_cast<c10::DeviceIndex>(index)};
}

}  // namespace reprise::libtorch
