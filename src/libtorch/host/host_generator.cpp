// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host/host_generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/Utils.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "libtorch/host/host_streams.h"
#include "support/immortal.h"

namespace reprise::libtorch {
namespace {

// The last step of splitmix64.
std::uint64_t finalised(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

}  // namespace

HostGenerator::HostGenerator(const Generator& generator)
    : c10::GeneratorImpl(host_c10_device(generator.device()), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      generator_(generator) {}

// Seed and offset as 16 bytes, as from libtorch's CUDA generator.
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
  static support::Immortal<Made> made;
  const Device device = host_device_of({c10::DeviceType::PrivateUse1, index});
  const std::lock_guard lock(made->mutex);
  at::Generator& generator = made->generators[device.index()];
  if (!generator.defined()) generator = at::make_generator<HostGenerator>(default_generator(device));
  return generator;
}

at::Generator cpu_generator(const PhiloxState& state) {
  // splitmix64 fills the state of the CPU's generator, because its finaliser decorrelates near seeds and offsets. The
  // generator's own seeding takes 32 bits only.
  std::uint64_t x = finalised(state.seed()) + 0x9E3779B97F4A7C15U * (state.offset() + 1);
  at::mt19937_data_pod data{};
  data.seed_ = x;
  data.seeded_ = true;
  data.left_ = 1;
  for (std::uint32_t& word : data.state_) word = static_cast<std::uint32_t>(finalised(x += 0x9E3779B97F4A7C15U));
  at::mt19937 engine;
  engine.set_data(data);
  auto generator = at::make_generator<at::CPUGeneratorImpl>();
  generator.get<at::CPUGeneratorImpl>()->set_engine(engine);
  return generator;
}

}  // namespace reprise::libtorch
