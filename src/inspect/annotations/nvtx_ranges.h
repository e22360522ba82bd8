// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

// Ranges for tools that record time lines, through NVTX: in its domain `reprise`, per thread.
//
// NVTX is a header; it opens the tool named by NVTX_INJECTION64_PATH when it is called first, and does nothing without
// one. Where that header was not found, no_nvtx.cpp stands in.

namespace reprise::inspect {

/// True if a tool takes ranges. The first call makes NVTX open the tool, so it must not be made in a capture.
bool ranges_are_taken() noexcept;

/// Begins a range of the calling thread.
void push_range(const std::string& text) noexcept;

/// Ends the last range begun by the calling thread.
void pop_range() noexcept;

}  // namespace reprise::inspect
