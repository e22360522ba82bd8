// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace reprise::backend::cuda {

/// The message of the last error that thread `thread_id` left in a text of lines "[time][thread][source][E] message" or
/// "[time][thread][source][E][function] message", as drivers of 12.9 and later write them. Lines that only repeat the
/// result code are passed over. Empty if there is none.
std::string last_message(std::string_view log, std::string_view thread_id);

}  // namespace reprise::backend::cuda
