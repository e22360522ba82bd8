// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reprise::graphs {

/// What the stack is overwritten with before the two captures of capture(): bytes of parameters that have these values
/// in this order were left unwritten by the body.
inline constexpr unsigned char stack_pattern_of_dry_run = 0xA5;
inline constexpr unsigned char stack_pattern_of_capture = 0x5A;

}  // namespace reprise::graphs
