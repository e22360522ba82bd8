// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "backend/rules/capture_rules.h"

// The words of docs/capture-rules.md for what the table of capture rules says in enums.

namespace reprise::docs {

/// What the calls of a class do, in the plural: "wait for a stream or ask it".
std::string words_of(backend::CallClass call_class);

/// When a rule holds: "the stream captures".
std::string words_of(backend::Situation situation);

}  // namespace reprise::docs
