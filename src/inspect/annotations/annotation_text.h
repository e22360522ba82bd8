// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reprise/annotations.h"
#include "reprise/detail/export.h"

namespace reprise::inspect {

/// An annotation in one line, as in all texts: the value of `name`, then the others as `key=value`, for example
/// `forward, layer=3`. Without control characters; empty for an empty annotation.
REPRISE_EXPORT_INTERNAL std::string annotation_text(const Annotation& annotation);

}  // namespace reprise::inspect
