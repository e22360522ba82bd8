// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "tests/differential/run.h"

namespace reprise::differential {
namespace {

class Shrinker {
 public:
  Shrinker(const Program& program, const std::function<bool(const Program&)>& fails)
      : smallest_(program), fails_(fails) {}

  Program shrink() {
    use_one_device();
    for (bool Program::*option :
         {&Program::discard_template, &Program::concurrent, &Program::auto_free, &Program::keep_graph})
      clear(option);
    for (bool smaller = true; smaller;) {
      smaller = remove_buffers();
      smaller |= replace_inner_buffers();
      smaller |= merge_streams();
      for (std::size_t size = std::max<std::size_t>(1, smallest_.operations.size() / 2);; size /= 2) {
        smaller |= remove_operations(size);
        if (size == 1) break;
      }
      smaller |= remove_pairs();
      smaller |= remove_changes();
      smaller |= remove_variations();
      smaller |= simplify_bodies();
    }
    return compact(smallest_);
  }

 private:
  bool accept(Program candidate) {
    Version version;
    for (Change& change : candidate.changes) version = change.to = reached(candidate, version, change);
    if (!analyse(candidate).good() || !fails_(candidate)) return false;
    smallest_ = std::move(candidate);
    return true;
  }

  void use_one_device() {
    Program candidate = smallest_;
    for (StreamSpec& stream : candidate.streams) stream.device = 0;
    for (EventSpec& event : candidate.events) event.device = 0;
    for (BufferSpec& buffer : candidate.buffers) buffer.device = 0;
    for (Body& body : candidate.bodies) body.device = 0;
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

  bool remove_changes() {
    bool smaller = false;
    for (std::size_t i = smallest_.changes.size(); i-- > 0;) {
      Program candidate = smallest_;
      candidate.changes.erase(candidate.changes.begin() + static_cast<std::ptrdiff_t>(i));
      smaller |= accept(candidate);
    }
    return smaller;
  }

  bool remove_variations() {
    bool smaller = false;
    for (std::size_t i = 0; i < smallest_.operations.size(); ++i) {
      Program candidate = smallest_;
      candidate.operations[i].varies = Varies::never;
      if (smallest_.operations[i].varies != Varies::never) smaller |= accept(candidate);
      candidate = smallest_;
      candidate.operations[i].may_rest = false;
      if (smallest_.operations[i].may_rest) smaller |= accept(candidate);
      candidate = smallest_;
      candidate.operations[i].programmatic = false;
      if (smallest_.operations[i].programmatic) smaller |= accept(candidate);
      candidate = smallest_;
      candidate.operations[i].short_lived = false;
      if (smallest_.operations[i].short_lived) smaller |= accept(candidate);
      candidate = smallest_;
      candidate.operations[i].replaced = Replaced::never;
      if (smallest_.operations[i].replaced != Replaced::never) smaller |= accept(candidate);
      candidate = smallest_;
      candidate.operations[i].generator = 0;
      if (smallest_.operations[i].generator != 0) smaller |= accept(candidate);
    }
    for (std::size_t b = 0; b < smallest_.bodies.size(); ++b)
      for (std::size_t i = 0; i < smallest_.bodies[b].operations.size(); ++i) {
        const auto simplify = [&](auto Operation::*member, auto to) {
          Program candidate = smallest_;
          Operation& operation = candidate.bodies[b].operations[i];
          if (std::exchange(operation.*member, to) != to) smaller |= accept(candidate);
        };
        simplify(&Operation::varies, Varies::never);
        simplify(&Operation::programmatic, false);
        simplify(&Operation::short_lived, false);
        simplify(&Operation::beside, false);
        simplify(&Operation::generator, 0U);
      }
    return smaller;
  }

  // Without their operations, one by one; then the operations of bodies instead of what has them.
  bool simplify_bodies() {
    bool smaller = false;
    for (std::size_t b = 0; b < smallest_.bodies.size(); ++b)
      for (std::size_t i = smallest_.bodies[b].operations.size(); i-- > 0;) {
        Program candidate = smallest_;
        auto& operations = candidate.bodies[b].operations;
        operations.erase(operations.begin() + static_cast<std::ptrdiff_t>(i));
        if (!operations.empty()) smaller |= accept(candidate);
      }
    smaller |= open_bodies([](Program & program) -> auto& { return program.operations; });
    for (std::size_t b = 0; b < smallest_.bodies.size(); ++b)
      smaller |= open_bodies([b](Program & program) -> auto& { return program.bodies[b].operations; });
    return smaller;
  }

  // `list`: the operations of the program, or of a body.
  template <class List>
  bool open_bodies(const List& list) {
    for (std::size_t i = list(smallest_).size(); i-- > 0;) {
      for (const int body : bodies_of(list(smallest_)[i])) {
        Program candidate = smallest_;
        std::vector<Operation> inside = candidate.bodies[static_cast<std::size_t>(body)].operations;
        auto& operations = list(candidate);
        for (Operation& each : inside) {
          each.stream = operations[i].stream;
          each.beside = false;
        }
        const auto place = operations.erase(operations.begin() + static_cast<std::ptrdiff_t>(i));
        operations.insert(place, inside.begin(), inside.end());
        if (accept(candidate) || simplify_control_flow(list, i, body)) return true;
      }
    }
    return false;
  }

  // An if_ with one of its bodies.
  template <class List>
  bool simplify_control_flow(const List& list, std::size_t i, int body) {
    Program candidate = smallest_;
    Operation& operation = list(candidate)[i];
    if (!is_control_flow(operation.kind) || operation.kind == Kind::if_) return false;
    operation.kind = Kind::if_;
    operation.body = body;
    operation.further_bodies.clear();
    operation.limit = 0;
    return accept(candidate);
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
      if (smallest_.buffers[buffer].place != Place::inner && smallest_.buffers[buffer].place != Place::ordered)
        continue;
      Program candidate = smallest_;
      candidate.buffers[buffer].place = Place::device;
      std::erase_if(candidate.operations, [&](const Operation& operation) {
        return operation.out.buffer == static_cast<int>(buffer) && !is_for_bodies(operation.kind);
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
