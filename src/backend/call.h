// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kinds of calls that a backend has, in code: error texts, the capture rules of the host device, and whatever else
// is about "a kind of call" names them like this.

namespace reprise::backend {

/// A kind of call of the backend.
enum class Call {
#define REPRISE_CALL(name, cuda, parameters, arguments) name,
#include "backend/calls.def"
};

/// Number of kinds.
inline constexpr int call_count = 0
#define REPRISE_CALL(name, cuda, parameters, arguments) +1
#include "backend/calls.def"
    ;

/// The driver call, for example `cuMemAlloc`.
constexpr const char* cuda_name(Call call) {
  switch (call) {
#define REPRISE_CALL(name, cuda, parameters, arguments) \
  case Call::name:                                      \
    return cuda;
#include "backend/calls.def"
  }
  return "unknown call";
}

}  // namespace reprise::backend
