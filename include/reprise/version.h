// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The version of the library.

#define REPRISE_VERSION_MAJOR 0  ///< changes with incompatible changes
#define REPRISE_VERSION_MINOR 1  ///< changes with new features; before 1.0 with incompatible ones too
#define REPRISE_VERSION_PATCH 0  ///< changes with corrections
#define REPRISE_VERSION "0.1.0"  ///< all three
