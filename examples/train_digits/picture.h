// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "reprise/graph.h"

namespace digits {

/// Makes sure that a picture can be written, before time is spent on what it shows. Leaves no new file behind.
/// \throws InputError
void check_picture_path(const std::filesystem::path& svg);

/// Draws a captured graph with Graphviz. Returns where the picture is, for the user; without Graphviz, where its source
/// is and what to install.
/// \throws std::runtime_error if Graphviz fails.
std::string write_picture(const reprise::CUDAGraph& graph, const std::filesystem::path& svg);

}  // namespace digits
