// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "backend/rules/capture_rules.h"

// The words of docs/capture-rules.md for the enumerators of the capture rules.

namespace reprise::docs {

/// The kind of a class's calls: "wait for a stream".
std::string words_of(backend::CallClass call_class);

/// When a rule holds: "the stream captures".
std::string words_of(backend::Situation situation);

}  // namespace reprise::docs
