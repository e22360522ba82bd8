// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/detail/export.h"

/// \file
/// The call of the library that an error came from, for its text.

namespace reprise::detail {

/// Names the function of the library that the calling thread is in, until the end of the scope: BackendError begins
/// with the outermost name. For internal use, in functions that call no code of users.
class REPRISE_EXPORT PublicCall {
 public:
  /// \param name a literal, for example `Buffer::write`.
  explicit PublicCall(const char* name) noexcept;
  ~PublicCall();
  PublicCall(const PublicCall&) = delete;
  PublicCall& operator=(const PublicCall&) = delete;

  /// The outermost name; null outside.
  static const char* current() noexcept;

 private:
  const bool outermost_;
};

}  // namespace reprise::detail
