// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "backend/backend.h"
#include "reprise/annotations.h"

// The names of graph nodes in texts.

namespace reprise::inspect {

/// A kernel's name in its source, as far as known: "Scale" for a function object, also where nvcc compiled it,
/// "scale<float>" for a `__global__` function. "kernel" if the runtime fails to provide it, which is reported.
std::string kernel_text(backend::Backend& backend, FunctionHandle function);

/// Describes a node by its kind and its number among the nodes of the template, in order of creation: "kernel Scale
/// (node 3)"; nodes of a graph in node 3 are "3.0", "3.1", ... With its annotation, if it has one: "kernel Scale (node
/// 3) in forward".
std::string node_text(std::string_view what, std::string_view number, const Annotation* annotation);

}  // namespace reprise::inspect
