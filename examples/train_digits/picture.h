// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "reprise/graph.h"

namespace digits {

/// Checks that a picture can be written, before the training. Leaves no new file behind.
/// \throws InputError
void check_picture_path(const std::filesystem::path& svg);

/// Draws a captured graph with Graphviz. Returns a text with the path of the picture; without Graphviz, with that of
/// its source and what to install. \throws std::runtime_error if Graphviz fails.
std::string write_picture(const reprise::CUDAGraph& graph, const std::filesystem::path& svg);

}  // namespace digits
