// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/device.h"

// Caches of device memory that are not this library's: a framework's.

namespace reprise::memory {

/// Gives cached memory of a device back to the driver, as far as nobody needs it.
using EmptyCache = void (*)(const Device& device) noexcept;

/// From now on `empty` is called where this library gives its own cached memory back because somebody needs it: when
/// the driver has none left, and before a capture that begins on an idle device. Until the process ends. It is called
/// without any lock of this library, in the capture mode `relaxed`, maybe while captures are underway. Thread-safe.
void add_other_cache(EmptyCache empty) noexcept;

/// Empties all of them; none is the usual number.
void empty_other_caches(const Device& device) noexcept;

}  // namespace reprise::memory
