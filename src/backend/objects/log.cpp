// SPDX-License-Identifier: Apache-2.0
#include "reprise/log.h"

#include <cstdio>
#include <mutex>
#include <utility>

#include "support/immortal.h"

namespace reprise {
namespace {

struct SinkHolder {
  std::mutex mutex;
  LogSink sink;
};

// Never destroyed: destructors of static objects may still warn.
SinkHolder& sink_holder() {
  static support::Immortal<SinkHolder> holder;
  return *holder;
}

}  // namespace

LogSink set_log_sink(LogSink sink) {
  SinkHolder& holder = sink_holder();
  const std::lock_guard lock(holder.mutex);
  return std::exchange(holder.sink, std::move(sink));
}

void warn(std::string_view message) noexcept try {
  SinkHolder& holder = sink_holder();
  const std::lock_guard lock(holder.mutex);
  if (holder.sink) return holder.sink(message);
  // One call, so that lines of several processes do not mix.
  std::fprintf(stderr, "reprise: warning: %.*s\n", static_cast<int>(message.size()), message.data());
} catch (...) {
  // A sink that throws loses its message.
}

}  // namespace reprise
