// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "captures/registry.h"
#include "reprise/capture.h"
#include "tests/unit/memory/memory_fixture.h"

// What the tests of the registry of captures share.

namespace reprise::captures {

using memory::test::MemoryTest;
using memory::test::RawCapture;

/// A capture of this library, as far as the registry knows.
class OwnCapture {
 public:
  explicit OwnCapture(const StreamRef& stream, CaptureMode mode = CaptureMode::global)
      : options_{.capture_error_mode = mode}, registered_(stream, options_, MempoolId{77, 0}), raw_(stream, mode) {
    registered_.capture().add_id(raw_.id());
  }
  Capture& operator*() const { return registered_.capture(); }
  Capture* operator->() const { return &registered_.capture(); }
  Registration& registered() { return registered_; }
  std::uint64_t id() const { return raw_.id(); }
  bool is_whole() const { return raw_.is_whole(); }

 private:
  const GraphOptions options_ = {};
  Registration registered_;
  RawCapture raw_;
};

class Captures : public MemoryTest {
 protected:
  Registration announce(const StreamRef& stream) { return Registration(stream, options_, {}); }

  const GraphOptions options_ = {};
};

}  // namespace reprise::captures
