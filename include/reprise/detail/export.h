// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The mark of what the shared library exports.

/// Exports a class with all its members, a function or a variable from the shared library, which hides what has no such
/// mark: its own inner parts, and what it is built with. Exceptions that it throws can be caught by their types.
#ifdef __cplusplus
#define REPRISE_EXPORT [[gnu::visibility("default")]]
#else
#define REPRISE_EXPORT __attribute__((visibility("default")))
#endif

/// For internal use: exports an inner part, which components share that are libraries of their own.
#define REPRISE_EXPORT_INTERNAL REPRISE_EXPORT
