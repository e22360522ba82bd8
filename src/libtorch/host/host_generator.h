// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>

#include "reprise/random.h"

namespace reprise::libtorch {

/// A generator of this library as one of libtorch. Operators draw on the CPU, from a generator that is seeded for each
/// of them by seed and offset: deterministic in both, correct in graphs, but not CUDA's numbers.
class HostGenerator final : public c10::GeneratorImpl {
 public:
  explicit HostGenerator(const Generator& generator);

  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }
  const Generator& generator() const { return generator_; }

  void set_current_seed(std::uint64_t seed) override { generator_.set_current_seed(seed); }
  void set_offset(std::uint64_t offset) override { generator_.set_offset(offset); }
  std::uint64_t get_offset() const override { return generator_.offset(); }
  std::uint64_t current_seed() const override { return generator_.current_seed(); }
  std::uint64_t seed() override { return generator_.seed(); }
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

 private:
  HostGenerator* clone_impl() const override;

  Generator generator_;
};

/// The default generator of a host device; -1 is the current one.
const at::Generator& default_host_generator(c10::DeviceIndex device);

/// A CPU generator for one run of an operator with this state. Called on the thread that runs the operator.
at::Generator cpu_generator(const PhiloxState& state);

}  // namespace reprise::libtorch
