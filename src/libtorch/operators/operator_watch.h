// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/types.h"
#include "captures/capture.h"
#include "reprise/device.h"
#include "reprise/stream.h"

namespace reprise::libtorch {

/// An operator that a thread is running in a capture. Lives as long as the call.
struct RunningOperator {
  const char* name;               ///< with its namespace: aten::mm
  const RunningOperator* within;  ///< the one that called it; null if none did
  StreamRef stream;               ///< current when it began

  /// The names of all that run, the outermost first.
  std::vector<std::string> names() const;
};

/// Notified of libtorch's operators in one capture: those called by threads, also autograd's, whose current stream
/// takes part in the capture.
///
/// Uses at::RecordFunction, in the whole process, from the opening of the first watch until the last one is closed:
/// other operators then cost a query of their current stream; before and after there is no cost.
///
/// Threads: a watch is notified from several at once, possibly also shortly after it was closed.
class OperatorWatch : public std::enable_shared_from_this<OperatorWatch> {
 public:
  virtual ~OperatorWatch() = default;
  OperatorWatch(const OperatorWatch&) = delete;
  OperatorWatch& operator=(const OperatorWatch&) = delete;

  using Nodes = std::vector<GraphNodeHandle>;

  /// To be closed before the end of the capture's registration. Watches of one capture are opened by one thread.
  void open(captures::Capture& capture);
  void close() noexcept;  ///< no-op the second time

  const Device& device() const noexcept { return device_; }

  /// `tails` is what the next node of the stream would have depended on before an operator that no other one called;
  /// else it is null.
  virtual void began(const RunningOperator& op, const at::RecordFunction& call, const Nodes* tails) = 0;
  struct End {
    bool failed;                          ///< it throws
    bool itself;                          ///< true if the exception did not come from an operator that it called
    const backend::CaptureInfo& capture;  ///< of the stream
  };
  virtual void ended(const RunningOperator& op, const End& end) = 0;
  /// A backward pass is about to add the gradient of this leaf on the default stream, which takes part in no capture.
  virtual void adds_outside(const at::Tensor& /*leaf*/) {}

 protected:
  explicit OperatorWatch(const Device& device) : device_(device) {}

 private:
  const Device device_;
  captures::Capture* capture_ = nullptr;  // while it is open
};

/// Makes a watch and opens it. The end of the last pointer closes it.
template <class Watch, class... Arguments>
std::shared_ptr<Watch> open_watch(captures::Capture& capture, Arguments&&... arguments) {
  auto watch = std::make_shared<Watch>(capture.device(), std::forward<Arguments>(arguments)...);
  watch->open(capture);
  Watch* const here = watch.get();
  return {here, [kept = std::move(watch)](Watch* /*here*/) { kept->close(); }};
}

}  // namespace reprise::libtorch
