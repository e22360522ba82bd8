// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace reprise::text {

/// A number of bytes in words: "512 bytes", "1.5 KiB", "20.0 MiB", "1.25 GiB".
std::string size_text(std::uint64_t bytes);

}  // namespace reprise::text
