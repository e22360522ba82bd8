// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/host_counters.h"

#include <ATen/Context.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <link.h>
#include <torch/library.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/objects/thread_tag.h"
#include "backend/rules/call_stack.h"
#include "captures/registry.h"
#include "libtorch/operators/host_counters.h"
#include "libtorch/operators/operator_watch.h"
#include "libtorch/tensor_device.h"
#include "reprise/error.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::libtorch {
namespace {

// A key of torchdistx, which nothing in libtorch uses: a mode of a thread, like those of functorch.
constexpr c10::DispatchKey key = c10::DispatchKey::DeferredInit;

thread_local int captures_of_thread = 0;  // for which the key is included
thread_local int allowed = 0;             // AllowHostCounters that live

// The `step` of an optimizer in libtorch's code.
struct Step {
  const char* optimizer;
  std::string_view makes_state;  // the operator; empty: it counts on the host, and is refused with a state as well
  std::uintptr_t begin = 0, end = 0;

  bool counts() const { return makes_state.empty(); }
};

// The advice for an optimizer that counts: what can be captured instead.
std::string replacement_of(std::string_view optimizer) {
  if (optimizer == "torch::optim::Adagrad")
    return "take reprise::libtorch::optim::Adam, AdamW or SGD, which count on the device and make their states when "
           "they are constructed";
  return text::format("take reprise::libtorch{}, which counts on the device", optimizer.substr(5));
}

// RTLD_DEFAULT does not find a libtorch that was loaded for one module only, as Python does.
std::vector<Step> find_steps() {
  std::vector<Step> found;
  Dl_info of_libtorch{};
  void* libtorch = nullptr;
  if (dladdr(reinterpret_cast<void*>(&at::globalContext), &of_libtorch) != 0)
    libtorch = dlopen(of_libtorch.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  struct Known {
    const char *optimizer, *makes_state, *symbol;
  };
  constexpr std::array<Known, 5> all{{
      {"torch::optim::Adam", "", "_ZN5torch5optim4Adam4stepESt8functionIFN2at6TensorEvEE"},
      {"torch::optim::AdamW", "", "_ZN5torch5optim5AdamW4stepESt8functionIFN2at6TensorEvEE"},
      {"torch::optim::Adagrad", "", "_ZN5torch5optim7Adagrad4stepESt8functionIFN2at6TensorEvEE"},
      {"torch::optim::SGD", "aten::clone", "_ZN5torch5optim3SGD4stepESt8functionIFN2at6TensorEvEE"},
      {"torch::optim::RMSprop", "aten::zeros_like", "_ZN5torch5optim7RMSprop4stepESt8functionIFN2at6TensorEvEE"},
  }};
  for (const auto& [optimizer, makes_state, symbol] : all) {
    void* const address = dlsym(libtorch != nullptr ? libtorch : RTLD_DEFAULT, symbol);
    Dl_info info{};
    void* entry = nullptr;
    if (address == nullptr || dladdr1(address, &info, &entry, RTLD_DL_SYMENT) == 0 || entry == nullptr) continue;
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    found.push_back({optimizer, makes_state, begin, begin + static_cast<const ElfW(Sym)*>(entry)->st_size});
  }
  if (libtorch != nullptr) dlclose(libtorch);
  return found;
}

// True if both are code of the same library.
bool lie_together(std::uintptr_t one, std::uintptr_t other) {
  Dl_info of_one{}, of_other{};
  return dladdr(reinterpret_cast<void*>(one), &of_one) != 0 && dladdr(reinterpret_cast<void*>(other), &of_other) != 0 &&
         of_one.dli_fbase == of_other.dli_fbase;
}

// The `step` of an optimizer that calls this; null if none does. A closure, which the program gives to `step`, is not
// a part of it.
const Step* calling_step() {
  static const std::vector<Step> steps = find_steps();
  std::array<void*, 48> frames;  // an operator is called within a few
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  std::uintptr_t called = 0;
  for (int i = 0; i < count; ++i) {
    // A return address follows the call.
    const auto inside = reinterpret_cast<std::uintptr_t>(frames.at(static_cast<std::size_t>(i))) - 1;
    for (const Step& each : steps)
      if (inside >= each.begin && inside < each.end) return lie_together(called, inside) ? &each : nullptr;
    called = inside;
  }
  return nullptr;
}

// The first refused `step` of a capture.
struct Refusal {
  std::mutex mutex;
  std::optional<CaptureReport::Call> call;
};

constinit captures::Slot<Refusal> refusal_of;

std::string error_text(const CaptureReport::Call& call) {
  return text::format("{} was called in a capture: {}. Instead, {}.", call.name, call.rule, call.advice);
}

[[noreturn]] void refuse(captures::Capture& capture, const Step& step) {
  CaptureReport::Call call;
  call.name = text::format("{}::step", step.optimizer);
  if (step.counts()) {
    call.rule =
        "this optimizer counts its steps on the host, and a graph would keep the count of its capture, so that each "
        "replay would take the step of that count, with wrong results";
    call.advice = text::format(
        "{}; or call `step` after the replay, outside of the capture; or, if the count does not matter, allow it with "
        "reprise::libtorch::AllowHostCounters",
        replacement_of(step.optimizer));
  } else {
    call.rule =
        "its state does not exist yet, and the graph would make it, so that it begins anew at each replay, with wrong "
        "results";
    call.advice =
        "call `step` once before the capture, as GraphOptions::warmup = 1 does; or take an optimizer of "
        "reprise::libtorch::optim, whose state is made when it is constructed; or, if the state shall begin anew, "
        "allow it with reprise::libtorch::AllowHostCounters";
  }
  call.thread = backend::thread_number();
  call.capturing_thread = capture.owner() == std::this_thread::get_id();
  call.stack = backend::call_stack();
  std::string text = error_text(call);
  if (const auto refusal = capture.get_or_attach(refusal_of)) {
    const std::lock_guard lock(refusal->mutex);
    if (!refusal->call) refusal->call = std::move(call);
  }
  throw UsageError(std::move(text));
}

void refuse_counters(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (allowed > 0 || !captures::any_underway()) return;
  const at::Tensor& first = torch::jit::peek(stack, 0, op.schema().arguments().size()).toTensor();
  if (!first.defined() || !(first.is_cuda() || first.is_privateuseone())) return;  // eager work, also in a capture
  const Step* const step = calling_step();
  if (step == nullptr || (!step->counts() && op.schema().name() != step->makes_state)) return;
  const captures::Found found = captures::find(current_stream(device_of_tensors(first.device())));
  if (found.part == captures::Part::own) refuse(*found.capture, *step);
}

void kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (captures_of_thread == 0 && !captures::any_underway()) c10::impl::tls_set_dispatch_key_included(key, false);
  refuse_counters(op, *stack);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key), stack);
}

/// Includes the key on each thread that runs an operator in the capture. Exceptions cannot leave began(): libtorch
/// catches them.
class Including final : public OperatorWatch {
 public:
  explicit Including(const Device& device) : OperatorWatch(device) {}
  void began(const RunningOperator& /*op*/, const at::RecordFunction& /*call*/, const Nodes* /*tails*/) override {
    if (!c10::impl::tls_is_dispatch_key_included(key)) c10::impl::tls_set_dispatch_key_included(key, true);
  }
  void ended(const RunningOperator& /*op*/, const End& /*end*/) override {}
};

struct Kernels {
  Kernels() {
    others.fallback(torch::CppFunction::makeFallthrough());
    // The first operator on a parameter without a state; those of each step that few others use.
    for (const char* const name : {"zeros_like", "clone", "addcmul_", "addcdiv_"})
      aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&kernel>());
  }
  torch::Library others{torch::Library::IMPL, "_", key, __FILE__, __LINE__};
  torch::Library aten{torch::Library::IMPL, "aten", key, __FILE__, __LINE__};
};

}  // namespace

AllowHostCounters::AllowHostCounters() noexcept : thread_(backend::thread_tag()) {
  ++allowed;
}

AllowHostCounters::~AllowHostCounters() {
  if (thread_ == backend::thread_tag())
    --allowed;
  else
    warn(
        "An AllowHostCounters ended on another thread than it began on, and changed nothing: captures on its own "
        "thread may still take the steps of optimizers that it allows. Keep it as a local variable.");
}

void register_host_counters() {
  static const support::Immortal<Kernels> kernels;  // libtorch lives until the process ends
  static_cast<void>(kernels);
}

void HostCounterListener::started(captures::Capture& capture) {
  capture_ = &capture;
  thread_ = std::this_thread::get_id();
  if (captures_of_thread++ == 0) c10::impl::tls_set_dispatch_key_included(key, true);
  watch_ = open_watch<Including>(capture);
}

void HostCounterListener::describe(const captures::Capture& /*capture*/, const backend::CaptureFindings& /*findings*/,
                                   CaptureReport& report) {
  const auto refusal = capture_ != nullptr ? capture_->get(refusal_of) : nullptr;
  if (refusal == nullptr || report.broken_by) return;
  const std::lock_guard lock(refusal->mutex);
  report.broken_by = refusal->call;
}

void HostCounterListener::ended(captures::Capture& capture, graphs::CapturedGraph& /*graph*/) {
  leave();
  const auto refusal = capture.get(refusal_of);
  if (refusal == nullptr) return;
  const std::lock_guard lock(refusal->mutex);
  if (refusal->call) throw UsageError(error_text(*refusal->call));
}

// On another thread the key stays included: the kernels then find no capture.
void HostCounterListener::leave() noexcept {
  watch_.reset();
  capture_ = nullptr;
  if (std::exchange(thread_, std::nullopt) != std::this_thread::get_id()) return;
  if (--captures_of_thread == 0) c10::impl::tls_set_dispatch_key_included(key, false);
}

}  // namespace reprise::libtorch
