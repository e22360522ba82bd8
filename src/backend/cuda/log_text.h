// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace reprise::backend::cuda {

/// The message of the last error that thread `thread_id` left in a text of lines "[time][thread][source][E] message" or
/// "[time][thread][source][E][function] message", as drivers of 12.9 and later write them. Lines that only repeat the
/// result code are passed over. Empty if there is none.
std::string last_message(std::string_view log, std::string_view thread_id);

/// A call that failed, as the log tells of it.
struct LoggedFailure {
  std::string function;  ///< the driver's, with its version: "cuMemAlloc_v2"
  int code = 0;          ///< what it returned
  std::string thread;    ///< as the log writes it
};

/// The call that probably broke a capture, from what the log got while that was underway: the first that failed with a
/// code of captures other than 901, which is what comes of it; else the last that failed before the first 901.
/// \param can_break is asked whether a call of this name can break captures.
std::optional<LoggedFailure> first_capture_failure(std::string_view log, bool (*can_break)(std::string_view name));

}  // namespace reprise::backend::cuda
