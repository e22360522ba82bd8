// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/differential/run.h"

namespace reprise::differential {
namespace {

class Shrinker {
 public:
  Shrinker(const Program& program, const std::function<bool(const Program&)>& fails)
      : smallest_(program), fails_(fails) {}

  Program shrink() {
    use_one_device();
    clear(&Program::discard_template);
    clear(&Program::concurrent);
    for (bool smaller = true; smaller;) {
      smaller = remove_buffers();
      smaller |= replace_inner_buffers();
      smaller |= merge_streams();
      for (std::size_t size = std::max<std::size_t>(1, smallest_.operations.size() / 2);; size /= 2) {
        smaller |= remove_operations(size);
        if (size == 1) break;
      }
      smaller |= remove_pairs();
    }
    return compact(smallest_);
  }

 private:
  bool accept(const Program& candidate) {
    if (!analyse(candidate).good() || !fails_(candidate)) return false;
    smallest_ = candidate;
    return true;
  }

  void use_one_device() {
    Program candidate = smallest_;
    for (StreamSpec& stream : candidate.streams) stream.device = 0;
    for (EventSpec& event : candidate.events) event.device = 0;
    for (BufferSpec& buffer : candidate.buffers) buffer.device = 0;
    accept(candidate);
  }

  void clear(bool Program::*option) {
    Program candidate = smallest_;
    candidate.*option = false;
    if (smallest_.*option) accept(candidate);
  }

  bool remove_operations(std::size_t size) {
    bool smaller = false;
    for (std::size_t end = smallest_.operations.size(); end >= size;) {
      Program candidate = smallest_;
      const auto first = candidate.operations.begin() + static_cast<std::ptrdiff_t>(end - size);
      candidate.operations.erase(first, first + static_cast<std::ptrdiff_t>(size));
      if (accept(candidate)) {
        smaller = true;
        end = std::min(end - size, smallest_.operations.size());
      } else {
        --end;
      }
    }
    return smaller;
  }

  // A fork and its join can only go together.
  bool remove_pairs() {
    bool smaller = false;
    for (std::size_t a = 0; a < smallest_.operations.size(); ++a) {
      for (std::size_t b = a + 1; b < smallest_.operations.size(); ++b) {
        Program candidate = smallest_;
        candidate.operations.erase(candidate.operations.begin() + static_cast<std::ptrdiff_t>(b));
        candidate.operations.erase(candidate.operations.begin() + static_cast<std::ptrdiff_t>(a));
        if (!accept(candidate)) continue;
        smaller = true;
        --b;
        if (a >= smallest_.operations.size()) break;
      }
    }
    return smaller;
  }

  bool remove_buffers() {
    bool smaller = false;
    for (int buffer = 0; buffer < static_cast<int>(smallest_.buffers.size()); ++buffer) {
      Program candidate = smallest_;
      std::erase_if(candidate.operations, [&](const Operation& operation) {
        return operation.out.buffer == buffer || operation.in.buffer == buffer || operation.in2.buffer == buffer;
      });
      if (candidate.operations.size() < smallest_.operations.size()) smaller |= accept(candidate);
    }
    return smaller;
  }

  // Memory that is there before the program, instead of memory that the program allocates.
  bool replace_inner_buffers() {
    bool smaller = false;
    for (std::size_t buffer = 0; buffer < smallest_.buffers.size(); ++buffer) {
      if (smallest_.buffers[buffer].place != Place::inner) continue;
      Program candidate = smallest_;
      candidate.buffers[buffer].place = Place::device;
      std::erase_if(candidate.operations, [&](const Operation& operation) {
        return operation.out.buffer == static_cast<int>(buffer) && operation.kind >= Kind::allocate;
      });
      smaller |= accept(candidate);
    }
    return smaller;
  }

  // All that one stream does, another one does.
  bool merge_streams() {
    bool smaller = false;
    for (int from = static_cast<int>(smallest_.streams.size()) - 1; from > 0; --from) {
      for (int to = 0; to < from; ++to) {
        Program candidate = smallest_;
        bool any = false;
        for (Operation& operation : candidate.operations) {
          any |= operation.stream == from;
          if (operation.stream == from) operation.stream = to;
          if (operation.other_stream == from) operation.other_stream = to;
        }
        std::erase_if(candidate.operations, [&](const Operation& operation) {
          return (operation.kind == Kind::wait_stream && operation.stream == operation.other_stream) ||
                 (operation.kind == Kind::end_stream && operation.stream == to);
        });
        if (any && accept(candidate)) {
          smaller = true;
          break;
        }
      }
    }
    return smaller;
  }

  Program smallest_;
  const std::function<bool(const Program&)>& fails_;
};

}  // namespace

Program shrink(const Program& program, const std::function<bool(const Program&)>& fails) {
  return Shrinker(program, fails).shrink();
}

}  // namespace reprise::differential
