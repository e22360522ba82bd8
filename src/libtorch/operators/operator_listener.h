// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/Exception.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/capture_listener.h"
#include "libtorch/operators/forward_scopes.h"

namespace reprise::libtorch {

class OperatorNames;

/// What the operators of libtorch add to a capture: its report and errors name the operator that broke it, and the
/// backward pass of annotated work is annotated.
class OperatorListener final : public graphs::CaptureListener {
 public:
  OperatorListener() = default;
  ~OperatorListener() override { close(); }

  void begin(const graphs::CaptureContext& context) override;
  void started(const graphs::CaptureContext& context) override;
  void describe(CaptureReport& report) override;
  void ended(const graphs::CaptureContext& context, GraphHandle template_graph) override;
  void abandoned() noexcept override;
  void reset() noexcept override { scopes_.reset(); }

 private:
  void close() noexcept;

  std::shared_ptr<OperatorNames> names_;         // while the capture is underway
  std::optional<BackwardAnnotations> backward_;  // likewise
  std::shared_ptr<ForwardScopes> scopes_;        // as long as the graph: it may be the forward half of another one
};

/// From now on it takes part in all captures. Does nothing the second time. Thread-safe.
void register_operator_listener();

/// Calls a function that captures; an error of libtorch's that leaves it names the operator, too, if one of the capture
/// had failed.
template <class Function>
void with_operator_names(Function&& function);

/// The operators of the last capture that was abandoned on this thread of which the last one failed, the outermost
/// first; empty if none did. Forgets them.
std::vector<std::string> take_failed_operators() noexcept;
/// Adds them to an error.
void add_failed_operators(c10::Error& error);

template <class Function>
void with_operator_names(Function&& function) {
  static_cast<void>(take_failed_operators());
  try {
    function();
  } catch (c10::Error& error) {
    add_failed_operators(error);
    throw;
  }
}

}  // namespace reprise::libtorch
