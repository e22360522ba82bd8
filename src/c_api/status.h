// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "reprise/c_api.h"

/// \file
/// The boundary between C and C++: exceptions become a status, and a text for the calling thread.

namespace reprise::c_api {

/// Thrown when a function of the user's returned an error: that status is the result of the call.
struct CallbackFailed {
  reprise_status status = REPRISE_ERROR_CALLBACK;
};

/// To be called while an exception is handled: notes it as the last error of the thread.
/// \param call the function of the interface, which begins the text.
/// \returns the status of the exception.
reprise_status note_exception(const char* call) noexcept;

/// Runs a function of the interface. \returns REPRISE_SUCCESS, or the status of the exception that left `body`.
template <class Body>
reprise_status guarded(const char* call, const Body& body) noexcept {
  try {
    body();
    return REPRISE_SUCCESS;
  } catch (...) {
    return note_exception(call);
  }
}

/// Forgets the status of the thread's last error, but not its text: what fails next within a callback counts.
void forget_status() noexcept;

/// \throws UsageError that names the parameter `name` if it is null.
void require(const void* pointer, const char* name);

/// A reference to what a parameter points to. \throws UsageError as require().
template <class T>
T& required(T* pointer, const char* name) {
  require(pointer, name);
  return *pointer;
}

/// Writes a text as the functions that return one do.
/// \throws UsageError if `buffer` is null and `size` is not 0.
void write_text(std::string_view text, char* buffer, size_t size, size_t* length);

}  // namespace reprise::c_api
