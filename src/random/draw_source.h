// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "reprise/random.h"

namespace reprise::random {

/// A generator, as graphs that draw from it see it: one of this library's, or of another that keeps seed and offset in
/// a place of its own. Thread-safe.
class DrawSource {
 public:
  virtual ~DrawSource() = default;

  virtual Device device() const noexcept = 0;
  /// Stands for the seed and offset that it draws from: several sources may share them.
  virtual const void* identity() const noexcept { return this; }

  /// Spends numbers; returns the state before that.
  virtual GeneratorState spend(std::uint64_t increment) = 0;
  /// Undoes the last spend(), unless numbers were spent or the state was set since.
  virtual void undo_spend(const GeneratorState& before, std::uint64_t increment) noexcept = 0;

  virtual void begin_capture() noexcept {}  ///< a capture drew for the first time
  virtual void end_capture() noexcept {}    ///< it is over
};

/// A generator that serves draws in a capture itself. Before the capture, attach() gives it device words from which
/// kernels read seed and offset; after it, detach() returns how much was drawn.
class ExternalGenerator : public DrawSource {
 public:
  /// Makes later draws in a capture read the words (as PhiloxState does), from offset 0 of the graph on. Returns false,
  /// and changes nothing, if words of another capture are attached.
  virtual bool attach(std::uint64_t* words) = 0;
  /// Draws for a child of the graph whose words are attached, in its place among the draws of kernels. Returns the
  /// offset of the first number in the graph.
  virtual std::uint64_t draw(std::uint64_t increment) = 0;
  /// The capture is over, and the generator as it was before attach(). Returns by how much all draws of the capture
  /// advanced the offset; nullopt if the generator was used otherwise meanwhile, so that it is unknown.
  virtual std::optional<std::uint64_t> detach() = 0;
  /// The same for a capture that failed. Does nothing if nothing is attached.
  virtual void abandon() noexcept = 0;
};

}  // namespace reprise::random
