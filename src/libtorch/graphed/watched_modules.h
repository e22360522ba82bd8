// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// The state of modules on which a graph captured from them relies.

namespace reprise::libtorch {

/// Records parameters and buffers of modules, to detect changes. Keeps the modules and tensors alive, but not the
/// tensors' memory.
class WatchedModules {
 public:
  /// \param parameters further ones, of no module; they have no name.
  WatchedModules(const std::vector<std::shared_ptr<torch::nn::Module>>& modules,
                 const std::vector<at::Tensor>& parameters);

  /// True if all modules are in the same mode (training or evaluation) as before.
  bool in_same_mode() const;

  /// The changes, a line each, with names; empty if there are none.
  std::vector<std::string> changes() const;

  /// The sum of the versions and addresses of all parameters, and of the buffers that a backward may need: another one
  /// when any was changed in place by anything but a graph, or given other memory.
  std::uint64_t versions() const;

  /// Parameters that need gradients, each once, with their names in the same places.
  const std::vector<at::Tensor>& trained() const { return trained_; }
  const std::vector<std::string>& trained_names() const { return trained_names_; }
  /// All buffers.
  std::vector<at::Tensor> buffers() const;
  /// Names of buffers that need gradients.
  std::vector<std::string> trained_buffers() const;
  /// All parameters, each once, with their names.
  std::vector<std::pair<std::string, at::Tensor>> named_parameters() const;

 private:
  struct Tensor {
    std::string name;
    at::Tensor tensor;
    const void* data = nullptr;
    c10::Device device = c10::Device(c10::kCPU);
    c10::ScalarType dtype = c10::ScalarType::Undefined;
    std::vector<std::int64_t> sizes = {}, strides = {};
    bool conjugated = false, negated = false;
    bool trained = false;

    void remember();
    std::string change() const;  // empty if it is as it was
  };
  struct Module {
    std::shared_ptr<torch::nn::Module> module;
    std::string path;  // with a point at its end, empty for the root
    std::vector<std::shared_ptr<torch::nn::Module>> children;
    std::vector<Tensor> parameters, buffers;
    bool training = true;

    bool has_its_parts() const;
    void add_changes(std::vector<std::string>& changes) const;
  };
  void remember();
  void add(const std::shared_ptr<torch::nn::Module>& module, const std::string& path);
  template <class F>
  void for_each_parameter(F&& f) const;

  std::vector<Module> modules_;
  std::vector<Tensor> listed_;
  std::vector<at::Tensor> trained_;
  std::vector<std::string> trained_names_;
};

}  // namespace reprise::libtorch
