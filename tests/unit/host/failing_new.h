// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace reprise::test {

/// While it lives, one of the calling thread's calls of operator new throws std::bad_alloc.
class FailingNew {
 public:
  /// \param nth 1 is the next call.
  explicit FailingNew(std::size_t nth) noexcept;
  ~FailingNew();
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;

  /// True once it has failed.
  static bool happened() noexcept;
};

}  // namespace reprise::test
