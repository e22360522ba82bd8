// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace digits {

/// Invalid input of the user: an option, a file. The text is one line; the program ends with exit code 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace digits
