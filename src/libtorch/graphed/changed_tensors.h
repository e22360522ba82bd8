// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

// State of callables that they have not registered: tensors that are members, or of the enclosing function.

namespace reprise::libtorch {

/// Tensors that operators change in place while callables are warmed up and captured, and that were there before. What
/// each run changes is state, as a count of steps: it gets the values from before the first run. What one run alone
/// changed was initialised in it, and stays.
///
/// Restores at the end of its life. Only one exists at a time, or one within another on the same thread. Notified by
/// this thread and those of its backward passes.
class ChangedTensors {
 public:
  /// \param restored tensors that others restore.
  ChangedTensors(c10::Device device, const std::vector<at::Tensor>& restored);
  ~ChangedTensors();  ///< an error becomes a warning
  ChangedTensors(const ChangedTensors&) = delete;
  ChangedTensors& operator=(const ChangedTensors&) = delete;

  /// Another run of a callable begins. \param captures nothing can be copied in it.
  void next_run(bool captures);

 private:
  struct Changed {
    at::Tensor tensor, values;  // from before
    std::uint32_t version;
    std::size_t last_run;
    bool is_state;  // more than one run changed it
  };

  static std::unique_ptr<at::ObserverContext> begins(const at::RecordFunction& call);
  static void ends(const at::RecordFunction& call, at::ObserverContext* context);
  const std::vector<std::size_t>& mutable_arguments(const at::RecordFunction& call);
  void note_change(const at::Tensor& tensor);  // with the mutex held
  void restore();

  const c10::Device device_;
  ChangedTensors* const before_;
  std::mutex mutex_;                                    // guards the rest
  std::unordered_set<const c10::StorageImpl*> others_;  // that were made since, or are restored by others
  std::vector<Changed> changed_;                        // in order of their first changes
  /// Operators, by the address of the name in their schema, which at::RecordFunction copies at each request.
  std::unordered_map<const char*, std::vector<std::size_t>> mutable_arguments_;
  std::size_t run_ = 0;
  bool captures_ = false;
  at::CallbackHandle handle_;
};

}  // namespace reprise::libtorch
