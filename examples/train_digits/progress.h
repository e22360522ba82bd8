// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace digits {

/// Shows the progress of a run: on a terminal a bar, elsewhere a line every few epochs.
class Progress {
 public:
  Progress(std::string label, unsigned epochs);
  /// Leaves the last state of the bar on a line of its own.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// After an epoch, counted from 1. `loss` is the mean loss of the epoch, `accuracy` from 0 to 1.
  void show(unsigned epoch, double loss, double accuracy);

 private:
  void draw_bar(unsigned epoch, const std::string& text);

  std::string label_;
  unsigned epochs_;
  std::size_t digits_;  // of the number of epochs, to align lines
  bool terminal_;
};

}  // namespace digits
