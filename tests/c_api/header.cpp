// SPDX-License-Identifier: Apache-2.0
// Compiled as C++17: the header of the interface for C, on its own.
#include "reprise/c_api.h"

int main() {
  return reprise_last_error_code();
}
