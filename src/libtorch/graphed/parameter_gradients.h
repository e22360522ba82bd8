// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory/copy_nodes.h"
#include "reprise/handles.h"
#include "reprise/stream.h"

namespace reprise::libtorch {

/// True if this leaf has a hook for its gradient, of the tensor or of the node that accumulates.
bool has_gradient_hooks(const at::Tensor& leaf);

/// Gradients of parameters that a graph adds to `.grad` itself: Gradients::accumulate_in_graph.
///
/// Each parameter has one place for its gradient, shared by all graphs that add to it; places first requested by one
/// callable lie in one allocation. The graph ends in two groups of nodes, of which one is enabled at a time:
///
///     overwrite  copies gradients to their places: no parameter has a `.grad` there
///     add        adds them: all parameters have
///     leave      neither: this backward is not for them (torch::autograd::grad)
///
/// If only some have one there, the places of the others are set to -0, the neutral element of addition, and the graph
/// adds. A `.grad` in other memory is added to afterwards.
///
///     capture()  at the end of the backward's capture
///     prepare()  before each replay: looks at all `.grad`
///     update()   updates the executable, if the group is another one than at the last replay
///     finish()   after the launch: sets `.grad`
///
/// Threads: one at a time, also among those that have parameters in common.
class ParameterGradients {
 public:
  /// None.
  ParameterGradients() = default;
  ParameterGradients(const std::vector<at::Tensor>& parameters, const std::vector<std::string>& names);

  /// \param gradients of the parameters; undefined ones have none, and their `.grad` is left alone. \throws UsageError
  void capture(const std::vector<at::Tensor>& gradients);

  /// \param wanted true if this backward computes them.
  /// \throws UsageError if a parameter has a hook, or a `.grad` in a part of this memory.
  void prepare(bool wanted);
  void update(GraphExecHandle exec);
  void finish();

  /// All memory of the places.
  std::vector<at::Tensor> memory() const;

 private:
  enum class Mode { leave, overwrite, add };
  enum class Found { none, here, elsewhere };  // where a parameter's `.grad` is
  struct Place {
    at::Tensor parameter;
    at::Tensor memory;
    at::Tensor given;  // to the parameter as its `.grad`, last

    const at::Tensor& view();
    bool same_place(const at::Tensor& tensor) const;
  };
  struct Gradient {
    std::shared_ptr<Place> place;
    std::string name;
    const void* data = nullptr;  // in the graph's memory
    std::size_t copy = 0;        // number of the copy
    bool has_gradient = false;
    Found found = Found::none;
  };
  class Places;

  Found look(const Gradient& gradient) const;
  void enable_adds(GraphExecHandle exec, bool enabled);

  std::vector<Gradient> gradients_;
  std::optional<Device> device_;
  memory::CopyNodes copies_;
  std::vector<GraphNodeHandle> adds_;
  Mode mode_ = Mode::leave;                  // of the replay that is being prepared
  std::optional<bool> adds_enabled_ = true;  // in the executable; nothing: not known
};

}  // namespace reprise::libtorch
