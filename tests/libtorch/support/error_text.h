// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace reprise::libtorch::test {

/// The text of the exception that `call` throws, of libtorch's without the backtrace; empty if it throws none.
template <class F>
std::string error_text(F&& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace reprise::libtorch::test
