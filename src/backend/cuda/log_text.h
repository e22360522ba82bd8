// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace reprise::backend::cuda {

/// The message of the last error of thread `thread_id` in lines "[time][thread][source][E] message" or
/// "[time][thread][source][E][function] message", as written by drivers of 12.9 and later. Lines that only repeat the
/// result code are skipped. Empty if there is none.
std::string last_message(std::string_view log, std::string_view thread_id);

/// A failed call in the log.
struct LoggedFailure {
  std::string function;  ///< the driver's, with its version: "cuMemAlloc_v2"
  int code = 0;          ///< what it returned
  std::string thread;    ///< as in the log
};

/// The call that probably broke a capture, from the lines written during it: the first failure with a code of captures
/// other than 901, which is a consequence; else the last failure before the first 901.
/// \param can_break returns whether a call of this name that returned this code can have broken a capture.
std::optional<LoggedFailure> first_capture_failure(std::string_view log,
                                                   bool (*can_break)(std::string_view name, int code));

}  // namespace reprise::backend::cuda
