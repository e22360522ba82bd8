// SPDX-License-Identifier: Apache-2.0
#include "c_api/status.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "reprise/error.h"
#include "reprise/graph_update.h"
#include "reprise/liveness.h"
#include "support/thread_object.h"
#include "text/format.h"

namespace reprise::c_api {
namespace {

struct LastError {
  reprise_status status = REPRISE_SUCCESS;
  int code = 0;
  std::string text;
  bool no_memory = false;  // for the text
};

using ThreadError = support::ThreadObject<LastError>;

constexpr const char* no_memory_text = "the host has no memory left for the text of this error";

/// Notes an error as far as there is memory for it.
reprise_status note(const char* call, reprise_status status, int code, std::string_view text) noexcept try {
  LastError& last = ThreadError::get();
  last.status = status;
  last.code = code;
  last.no_memory = true;
  last.text.clear();
  last.text = text::format("{}: {}", call, text);
  last.no_memory = false;
  return status;
} catch (...) {
  return status;
}

reprise_status note_callback(const char* call, reprise_status status) noexcept try {
  if (ThreadError::get().status == status) return status;  // with the text of the call that failed in it
  return note(call, status, 0,
              text::format("the function that was passed returned {}, and the capture was abandoned",
                           reprise_status_name(status)));
} catch (...) {
  return note(call, status, 0, no_memory_text);
}

}  // namespace

reprise_status note_exception(const char* call) noexcept {
  try {
    throw;
  } catch (const CallbackFailed& failed) {
    return note_callback(call, failed.status);
  } catch (const UsageError& error) {
    return note(call, REPRISE_ERROR_USAGE, 0, error.what());
  } catch (const BackendError& error) {
    return note(call, REPRISE_ERROR_BACKEND, static_cast<int>(error.code()), error.what());
  } catch (const EmptyCaptureError& error) {
    return note(call, REPRISE_ERROR_EMPTY_CAPTURE, 0, error.what());
  } catch (const CaptureError& error) {
    return note(call, REPRISE_ERROR_CAPTURE, static_cast<int>(error.code()), error.what());
  } catch (const OutOfMemoryError& error) {
    return note(call, REPRISE_ERROR_OUT_OF_MEMORY, static_cast<int>(ErrorCode::out_of_memory), error.what());
  } catch (const GraphUpdateError& error) {
    return note(call, REPRISE_ERROR_GRAPH_UPDATE, static_cast<int>(ErrorCode::graph_exec_update_failure), error.what());
  } catch (const DeadInputError& error) {
    return note(call, REPRISE_ERROR_DEAD_INPUT, 0, error.what());
  } catch (const std::bad_alloc&) {
    return note(call, REPRISE_ERROR_OUT_OF_HOST_MEMORY, 0, "the host has no memory left");
  } catch (const std::exception& error) {
    return note(call, REPRISE_ERROR_OTHER, 0, error.what());
  } catch (...) {
    return note(call, REPRISE_ERROR_OTHER, 0, "an exception that is not a std::exception");
  }
}

void forget_status() noexcept try { ThreadError::get().status = REPRISE_SUCCESS; } catch (...) {
}

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) throw UsageError(text::format("expected a pointer as the parameter `{}`; found null", name));
}

void write_text(std::string_view text, char* buffer, size_t size, size_t* length) {
  if (size != 0) {
    require(buffer, "buffer");
    const size_t copied = std::min(text.size(), size - 1);
    std::memcpy(buffer, text.data(), copied);
    buffer[copied] = '\0';
  }
  if (length != nullptr) *length = text.size();
}

}  // namespace reprise::c_api

using namespace reprise::c_api;

const char* reprise_status_name(reprise_status status) {
  switch (status) {
    case REPRISE_SUCCESS:
      return "REPRISE_SUCCESS";
    case REPRISE_ERROR_USAGE:
      return "REPRISE_ERROR_USAGE";
    case REPRISE_ERROR_BACKEND:
      return "REPRISE_ERROR_BACKEND";
    case REPRISE_ERROR_CAPTURE:
      return "REPRISE_ERROR_CAPTURE";
    case REPRISE_ERROR_EMPTY_CAPTURE:
      return "REPRISE_ERROR_EMPTY_CAPTURE";
    case REPRISE_ERROR_OUT_OF_MEMORY:
      return "REPRISE_ERROR_OUT_OF_MEMORY";
    case REPRISE_ERROR_OUT_OF_HOST_MEMORY:
      return "REPRISE_ERROR_OUT_OF_HOST_MEMORY";
    case REPRISE_ERROR_GRAPH_UPDATE:
      return "REPRISE_ERROR_GRAPH_UPDATE";
    case REPRISE_ERROR_DEAD_INPUT:
      return "REPRISE_ERROR_DEAD_INPUT";
    case REPRISE_ERROR_CALLBACK:
      return "REPRISE_ERROR_CALLBACK";
    case REPRISE_ERROR_OTHER:
      return "REPRISE_ERROR_OTHER";
  }
  return "unknown";
}

const char* reprise_last_error() {
  try {
    const LastError& last = ThreadError::get();
    return last.no_memory ? no_memory_text : last.text.c_str();
  } catch (...) {
    return no_memory_text;
  }
}

int reprise_last_error_code() {
  try {
    return ThreadError::get().code;
  } catch (...) {
    return 0;
  }
}

const char* reprise_version() {
  return REPRISE_VERSION;
}
