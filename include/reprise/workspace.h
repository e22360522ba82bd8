// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

#include "reprise/detail/export.h"
#include "reprise/stream.h"

/// \file
/// Workspaces: memory of a graph that a library may use for its captured work.

namespace reprise {

/// Device memory that a library may use for work on one stream. Empty: the library uses its own.
struct Workspace {
  void* data = nullptr;   ///< aligned to 512 bytes; null when empty
  std::size_t bytes = 0;  ///< as requested; 0 when empty

  explicit operator bool() const noexcept { return data != nullptr; }  ///< true if not empty
};

/// Returns scratch memory for the captured work of a library such as cuBLAS, whose address stays in the graph.
///
///     const Workspace workspace = library_workspace("cublas", 32 << 20, stream);
///     if (workspace) cublasSetWorkspace(handle, workspace.data, workspace.bytes);
///
/// *In a capture of this library* (found by the capture's id: forked streams and other threads are part of it) the
/// memory comes from the private pool of the capture. Each stream of the capture has a workspace of its own for each
/// library, the same one for every request; their contents do not outlive the work of the library. The graphs of one
/// pool share their workspaces, since they never run at the same time. Each graph that requested a workspace holds it:
/// it is released with the last of them, when template, executables and running launches are gone, and by nothing else.
/// A capture that fails releases it at once.
///
/// *Elsewhere*, in a capture begun with raw driver calls, and in a broken one, the workspace is empty: let the library
/// use its own memory. (Eager work needs no workspace that lives as long as a graph.)
///
/// A request for more bytes than the stream's workspace has returns another one, which later requests return too; work
/// captured before keeps using the smaller one.
///
/// Thread-safe.
/// \param library any name: requests with the same name share a workspace.
/// \param bytes the size; for 0 the workspace is empty.
/// \param stream the stream of the library's work.
/// \throws OutOfMemoryError
REPRISE_EXPORT Workspace library_workspace(std::string_view library, std::size_t bytes,
                                           const StreamRef& stream = current_stream());

}  // namespace reprise
