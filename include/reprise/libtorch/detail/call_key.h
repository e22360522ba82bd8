// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "reprise/cache_key.h"
#include "reprise/detail/export.h"
#include "reprise/libtorch/detail/tensor_structures.h"

/// \file
/// The key of a call of a CachedCallable. For internal use.

namespace reprise::libtorch::detail {

/// Properties of a call that decide which work it does.
struct CallKey {
  CacheKey key;
  std::optional<c10::Device> device = {};  ///< the CPU only where all tensors are there; none without tensors
};

/// The modules and all parts of them, each once.
REPRISE_EXPORT std::vector<std::shared_ptr<torch::nn::Module>> all_modules(
    const std::vector<std::shared_ptr<torch::nn::Module>>& modules);

/// Visits the arguments of a call, as for_each_tensor() does, and makes its key. They must live until then.
class REPRISE_EXPORT CallRecorder {
 public:
  void operator()(at::Tensor& tensor) {
    structure_.push_back(StructureStep::tensor);
    tensors_.push_back(&tensor);
  }
  template <class T>
  void value(const T& value) {
    structure_.push_back(StructureStep::value);
    values_.push_back(value_text(value));
  }
  void size(std::string_view /*container*/, std::size_t size) { structure_.push_back(static_cast<std::int64_t>(size)); }
  /// True if a tensor is on a device other than the CPU.
  bool has_device() const;
  void end_of_element() { structure_.push_back(StructureStep::end_of_element); }

  /// \param types of the arguments.
  /// \param modules whose modes belong to the key.
  /// \param device where no argument is a tensor of a device.
  CallKey key(const std::type_info& types, const std::vector<std::shared_ptr<torch::nn::Module>>& modules,
              std::optional<c10::Device> device) &&;

 private:
  std::vector<std::int64_t> structure_;
  std::vector<std::string> values_;
  std::vector<const at::Tensor*> tensors_;
};

/// Names of the fields of such keys, in order.
REPRISE_EXPORT std::vector<std::string> call_key_fields();

}  // namespace reprise::libtorch::detail
