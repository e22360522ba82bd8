// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

#include "reprise/stream.h"

/// \file
/// Workspaces: memory of a graph that a library may use for its captured work.

namespace reprise {

/// Device memory that a library may use for work on one stream. Empty: the library uses what it has.
struct Workspace {
  void* data = nullptr;   ///< aligned to 512 bytes; null when empty
  std::size_t bytes = 0;  ///< as many as were asked for; 0 when empty

  explicit operator bool() const noexcept { return data != nullptr; }  ///< is it not empty?
};

/// Memory for what a library, such as cuBLAS, captures on a stream: scratch space whose address stays in the graph.
///
///     const Workspace workspace = library_workspace("cublas", 32 << 20, stream);
///     if (workspace) cublasSetWorkspace(handle, workspace.data, workspace.bytes);
///
/// *In a capture of this library* (found by the capture's id: forked streams and other threads are part of it) the
/// memory comes from the private pool of the capture. Each stream of the capture has a workspace of its own for each
/// library, the same one for every request; their contents do not outlive the work of the library. The graphs of one
/// pool share their workspaces, since they never run at the same time. A graph holds what it asked for: it is given
/// back when the last graph that did is gone, with its template, its executables and its running launches, and by
/// nothing else. A capture that fails gives it back at once.
///
/// *Elsewhere*, in a capture that somebody began with raw driver calls, and in one that is broken, the workspace is
/// empty: let the library use memory of its own. (Eager work needs no workspace that lives as long as a graph.)
///
/// A request for more bytes than the stream's workspace has gets another one, and so do later requests; what was
/// captured before goes on using the smaller one.
///
/// Thread-safe.
/// \param library whose it is, any name: requests with the same name share.
/// \param bytes how much; for 0 the workspace is empty.
/// \param stream where the library's work goes.
/// \throws OutOfMemoryError
Workspace library_workspace(std::string_view library, std::size_t bytes, const StreamRef& stream = current_stream());

}  // namespace reprise
