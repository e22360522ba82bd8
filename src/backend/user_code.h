// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reprise::backend {

/// While it lives, the calling thread runs code of the user's, such as a hook or the body of a capture: the errors of
/// what that calls begin with its own calls, not with the one around (see detail::PublicCall).
class UserCode {
 public:
  UserCode() noexcept;
  ~UserCode();
  UserCode(const UserCode&) = delete;
  UserCode& operator=(const UserCode&) = delete;

 private:
  const char* const around_;
};

}  // namespace reprise::backend
