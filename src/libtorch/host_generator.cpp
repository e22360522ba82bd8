// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host_generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/Utils.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "libtorch/host_streams.h"

namespace reprise::libtorch {

HostGenerator::HostGenerator(const Generator& generator)
    : c10::GeneratorImpl(c10_device(generator.device()), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      generator_(generator) {}

// Seed and offset as 16 bytes, as libtorch's CUDA generator gives them.
c10::intrusive_ptr<c10::TensorImpl> HostGenerator::get_state() const {
  const GeneratorState state = generator_.get_state();
  const std::array<std::uint64_t, 2> words{state.seed, state.offset};
  at::Tensor bytes = at::empty({sizeof words}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
  std::memcpy(bytes.mutable_data_ptr(), words.data(), sizeof words);
  return bytes.getIntrusivePtr();
}

void HostGenerator::set_state(const c10::TensorImpl& state) {
  std::array<std::uint64_t, 2> words{};
  TORCH_CHECK(state.device().is_cpu() && state.dtype() == caffe2::TypeMeta::Make<std::uint8_t>() &&
                  state.numel() == sizeof words && state.is_contiguous(),
              "The state of a generator is a CPU tensor of ", sizeof words, " bytes, as get_state() returns it.");
  std::memcpy(words.data(), state.data(), sizeof words);
  generator_.set_state({words[0], words[1]});
}

HostGenerator* HostGenerator::clone_impl() const {
  return new HostGenerator(generator_.clone());
}

const at::Generator& default_host_generator(c10::DeviceIndex index) {
  struct Made {
    std::mutex mutex;
    std::map<int, at::Generator> generators;
  };
  static auto* const made = new Made;
  const Device device = host_device_of({c10::DeviceType::PrivateUse1, index});
  const std::lock_guard lock(made->mutex);
  at::Generator& generator = made->generators[device.index()];
  if (!generator.defined()) generator = at::make_generator<HostGenerator>(default_generator(device));
  return generator;
}

at::Generator cpu_generator(const PhiloxState& state) {
  // The finaliser of splitmix64: near seeds and offsets give seeds that have nothing in common.
  std::uint64_t x = state.seed() + 0x9E3779B97F4A7C15U * (state.offset() + 1);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return at::make_generator<at::CPUGeneratorImpl>(x ^ (x >> 31));
}

}  // namespace reprise::libtorch
