// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "reprise/breakable.h"
#include "reprise/eager_function.h"
#include "reprise/export.h"
#include "reprise/libtorch/tensor_structures.h"

/// \file
/// Tensors as results of eager parts: with this header, what a function passed to eager() returns may be a
/// TensorStructure of tensors on the device of the graph. The results of eager() are detached tensors of the same
/// shapes and types in static memory, to which those of each run are copied. Structure, values in it, shapes, types and
/// devices must be the same each time.

namespace reprise::libtorch::detail {

/// The static tensors of an eager part.
class REPRISE_EXPORT FixedTensors {
 public:
  /// Allocates tensors like those of the first run, for the current stream.
  /// \throws UsageError if one is not on the device of that.
  const std::vector<at::Tensor>& make(const std::vector<at::Tensor>& like, const StreamRef& stream);
  /// Copies what a run returned, on a stream.
  /// \param same_structure false: the run returned another structure, or other values in it.
  /// \throws UsageError unless all is as in the first run.
  void copy(const std::vector<at::Tensor>& returned, bool same_structure, const StreamRef& stream) const;

 private:
  std::vector<at::Tensor> tensors_;
};

}  // namespace reprise::libtorch::detail

namespace reprise::eager_detail {

template <class F, libtorch::TensorStructure Returned>
requires(!BufferResults<Returned> && !libtorch::CapturedValue<Returned>) class FunctionOf<F, Returned> final
    : public Function {
 public:
  template <class From>
  explicit FunctionOf(From&& from) : function_(std::forward<From>(from)) {}

  void run(const StreamRef& stream) override { returned_.emplace(eager_detail::call(function_.get(), stream)); }
  void copy_results(const StreamRef& stream) override {
    using libtorch::for_each_tensor;
    libtorch::detail::MatchingCollector collector(shape_);
    for_each_tensor(*returned_, collector);
    fixed_.copy(collector.tensors, collector.matches(), stream);
    returned_.reset();
  }
  void drop_results() noexcept override { returned_.reset(); }
  std::span<const std::byte> object() const noexcept override { return function_.bytes(); }

  /// As in other ones.
  Returned make_fixed(const StreamRef& stream) {
    using libtorch::for_each_tensor;
    libtorch::detail::TensorCollector collector;
    for_each_tensor(*returned_, collector);
    libtorch::detail::ShapeRecorder recorder;
    for_each_tensor(*returned_, recorder);
    shape_ = std::move(recorder.shape);
    Returned made = *returned_;
    libtorch::detail::TensorAssigner assigner(fixed_.make(collector.tensors, stream));
    for_each_tensor(made, assigner);
    return made;
  }

 private:
  FunctionObject<F> function_;
  std::optional<Returned> returned_;
  libtorch::detail::StructureShape shape_;
  libtorch::detail::FixedTensors fixed_;
};

}  // namespace reprise::eager_detail
