// SPDX-License-Identifier: Apache-2.0
#include "inspect/annotations/capture_annotations.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "backend/check.h"
#include "backend/error_context.h"
#include "backend/rules/call_stack.h"
#include "graph/capture/framework_captures.h"
#include "inspect/annotations/annotation_text.h"
#include "inspect/annotations/progress_marks.h"

namespace reprise {
// Not the registry's counter: most captures have no annotations, and a scope in them costs one load, in programs, too,
// which do not see the registry.
std::atomic<int> annotation_detail::annotated_captures{0};
}  // namespace reprise

namespace reprise::inspect {

using backend::Checked;

namespace {

constinit captures::Slot<CaptureAnnotations> annotations_of;

}  // namespace

void CaptureAnnotations::notify_framework(const Thread& thread) const noexcept {
  const graphs::FrameworkCaptures* const framework = graphs::framework_captures();
  if (framework == nullptr || thread.id != std::this_thread::get_id()) return;
  framework->annotation_changed(*open_in_, log_.annotations[thread.in_force()]);
}

CaptureAnnotations::CaptureAnnotations(captures::Capture& capture, const captures::Body& body, bool is_body,
                                       const Annotation& around, std::shared_ptr<ProgressMarks> marks)
    : stream_(body.stream),
      capture_id_(body.id),
      graph_(body.graph),
      is_body_(is_body),
      marks_(std::move(marks)),
      open_in_(&capture),
      log_(around) {}

std::shared_ptr<CaptureAnnotations> CaptureAnnotations::open(captures::Capture& capture,
                                                             std::shared_ptr<ProgressMarks> marks) {
  const backend::CaptureInfo info = captures::find(capture.stream()).info;
  const captures::Body whole{.id = info.id, .stream = capture.stream(), .graph = info.graph};
  auto annotations =
      std::make_shared<CaptureAnnotations>(capture, whole, /*is_body=*/false, Annotation(), std::move(marks));
  capture.attach(annotations_of, annotations);
  annotation_detail::annotated_captures.fetch_add(1, std::memory_order_relaxed);
  return annotations;
}

std::shared_ptr<CaptureAnnotations> CaptureAnnotations::of(const captures::Capture& capture) noexcept {
  return capture.get(annotations_of);
}

std::shared_ptr<CaptureAnnotations> CaptureAnnotations::of(const captures::Found& found) noexcept {
  if (found.part != captures::Part::own) return nullptr;
  auto annotations = of(*found.capture);
  return annotations != nullptr && found.body != nullptr ? annotations->body_of(found.body->id) : annotations;
}

std::shared_ptr<CaptureAnnotations> CaptureAnnotations::body_of(std::uint64_t id) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto known = bodies_.find(id);
  return known != bodies_.end() ? known->second : nullptr;
}

std::shared_ptr<CaptureAnnotations> CaptureAnnotations::take_body(std::uint64_t id) noexcept {
  const std::lock_guard lock(mutex_);
  auto taken = bodies_.extract(id);
  return taken ? std::move(taken.mapped()) : nullptr;
}

void CaptureAnnotations::begin_body(captures::Capture& capture, const captures::Body& body) {
  const auto around = body.outer != nullptr ? body_of(body.outer->id) : nullptr;
  auto made = std::make_shared<CaptureAnnotations>(capture, body, /*is_body=*/true,
                                                   around != nullptr ? around->in_force() : in_force(), marks_);
  const std::lock_guard lock(mutex_);
  if (!finished_) bodies_.emplace(body.id, std::move(made));
}

void CaptureAnnotations::end_body(const captures::Body& body) {
  const auto ended = body_of(body.id);
  if (ended == nullptr) return;
  ended->finish();
  if (keep_if_broken(ended)) {
    (void)take_body(body.id);
    return;
  }
  const AnnotationLog log = ended->take_log();
  std::vector<backend::Edge> edges;
  if (needs_edges(log)) Checked(body.stream.device().backend()).graph_edges(body.graph, &edges);
  const std::vector<std::size_t> annotation_of_node = assign_annotations(log, edges);
  const std::lock_guard lock(mutex_);
  bodies_.erase(body.id);
  for (std::size_t i = 0; i < log.nodes.size(); ++i)
    if (const Annotation& annotation = log.annotations[annotation_of_node[i]]; !annotation.empty())
      inner_.of_bodies.emplace(log.nodes[i], annotation);
}

void CaptureAnnotations::abandon_body(const captures::Body& body) noexcept {
  const auto ended = take_body(body.id);
  if (ended == nullptr) return;
  ended->finish();
  (void)keep_if_broken(ended);
  ended->give_up();
}

// For broke_in(), which the report of the whole capture needs after the body. Returns whether the body is broken.
bool CaptureAnnotations::keep_if_broken(const std::shared_ptr<CaptureAnnotations>& body) noexcept {
  const std::scoped_lock lock(mutex_, body->mutex_);
  if (!body->broken_) return false;
  try {
    broken_bodies_.push_back(body);
  } catch (...) {  // no memory: the report names the scope around the body
  }
  return true;
}

void CaptureAnnotations::add_child(NodeAnnotations nodes) {
  const std::lock_guard lock(mutex_);
  inner_.has_children = true;
  inner_.of_children.merge(nodes);
}

InnerNodes CaptureAnnotations::take_inner_nodes() {
  const std::lock_guard lock(mutex_);
  return std::move(inner_);
}

// Annotation in force on the calling thread.
Annotation CaptureAnnotations::in_force() const {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(threads_, std::this_thread::get_id(), &Thread::id);
  return log_.annotations[known != threads_.end() ? known->in_force() : 0];
}

std::string CaptureAnnotations::within() noexcept try {
  if (annotation_detail::annotated_captures.load(std::memory_order_relaxed) == 0) return {};
  std::string text;
  captures::for_each([&](const captures::Capture& each) {
    const auto annotations = text.empty() ? of(each) : nullptr;
    if (annotations != nullptr) text = annotations->within_this();
  });
  return text;
} catch (...) {  // no memory: the error is reported without it
  return {};
}

std::string CaptureAnnotations::within_this() const {
  // Not waited for: the caller may hold it, with an error of a query of ours.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return {};
  for (auto body = bodies_.rbegin(); body != bodies_.rend(); ++body)  // ids ascend: inner ones first
    if (std::string text = body->second->within_this(); !text.empty()) return text;
  for (const Thread& thread : threads_)
    if (thread.id == std::this_thread::get_id() && thread.in_force() != 0)
      return annotation_text(log_.annotations[thread.in_force()]);
  return {};
}

std::uint64_t CaptureAnnotations::enter(const Annotation& own, const StreamRef& stream,
                                        std::span<const GraphNodeHandle> tails) {
  const std::lock_guard lock(mutex_);
  if (finished_) return 0;
  Thread& thread = threads_[thread_of_caller()];
  Nodes all_tails(tails.begin(), tails.end());
  if (query_streams(thread, stream, &all_tails) != CaptureStatus::active) {
    found_broken(thread);
    return 0;
  }
  look_at_graph();
  Scope scope{++last_scope_, stream, own, 0};
  // Everything that can fail comes before any visible change.
  thread.scopes.reserve(thread.scopes.size() + 1);
  log_.boundaries.reserve(log_.boundaries.size() + 1);
  Annotation merged = log_.annotations[thread.in_force()];
  for (const auto& [key, value] : own) merged.insert_or_assign(key, value);
  scope.merged = log_.number_of(merged);
  log_.boundaries.push_back(
      {static_cast<std::size_t>(&thread - threads_.data()), log_.nodes.size(), scope.merged, std::move(all_tails)});
  thread.scopes.push_back(std::move(scope));
  notify_framework(thread);
  return last_scope_;
}

void CaptureAnnotations::leave(std::uint64_t scope) noexcept {
  std::shared_ptr<CaptureAnnotations> next;
  {
    const std::lock_guard lock(mutex_);
    if (!finished_) {
      try {
        leave_checked(scope);
      } catch (...) {
        if (failure_ == nullptr) failure_ = std::current_exception();
      }
      return;
    }
    const auto continued = continued_.find(scope);
    if (continued == continued_.end()) return;
    next = next_;
    scope = continued->second;
    continued_.erase(continued);
  }
  next->leave(scope);
}

void CaptureAnnotations::continue_in(const std::shared_ptr<CaptureAnnotations>& next) {
  const std::lock_guard lock(mutex_);
  const auto caller = std::ranges::find(threads_, std::this_thread::get_id(), &Thread::id);
  if (caller == threads_.end()) return;
  next_ = next;
  for (const Scope& scope : caller->scopes)
    if (const std::uint64_t number = next->enter(scope.own, next->stream_, {}); number != 0)
      continued_.emplace(scope.number, number);
}

void CaptureAnnotations::leave_checked(std::uint64_t scope) {
  for (Thread& thread : threads_) {
    const auto found = std::ranges::find(thread.scopes, scope, &Scope::number);
    if (found == thread.scopes.end()) continue;
    const auto which = static_cast<std::size_t>(found - thread.scopes.begin());
    Nodes tails;
    CaptureStatus status = CaptureStatus::none;
    try {
      mark(*found);
      status = query_streams(thread, std::nullopt, &tails);
      if (status == CaptureStatus::active) look_at_graph();
    } catch (...) {
      remove(thread, which);
      notify_framework(thread);
      throw;
    }
    if (status == CaptureStatus::invalidated) found_broken(thread);
    remove(thread, which);
    notify_framework(thread);
    log_.boundaries.push_back(
        {static_cast<std::size_t>(&thread - threads_.data()), log_.nodes.size(), thread.in_force(), std::move(tails)});
    return;
  }
}

// Adds the mark, whose node is the last one of the scope. On a stream that was forked off it could come after the join,
// and leave work that nothing joins.
void CaptureAnnotations::mark(const Scope& scope) {
  if (marks_ == nullptr || !scope.stream || *scope.stream != stream_) return;
  const captures::Found now = captures::find(*scope.stream);
  if (now.part == captures::Part::own && now.info.id == capture_id_)
    marks_->add(*scope.stream, log_.annotations[scope.merged], is_body_);
}

// Usually the last one. Inner scopes that are still open get their remaining annotation.
void CaptureAnnotations::remove(Thread& thread, std::size_t which) {
  thread.scopes.erase(thread.scopes.begin() + static_cast<std::ptrdiff_t>(which));
  Annotation merged = which == 0 ? Annotation{} : log_.annotations[thread.scopes[which - 1].merged];
  for (std::size_t i = which; i < thread.scopes.size(); ++i) {
    for (const auto& [key, value] : thread.scopes[i].own) merged.insert_or_assign(key, value);
    thread.scopes[i].merged = log_.number_of(merged);
  }
}

void CaptureAnnotations::stream_ends(const StreamRef& stream) noexcept {
  const std::lock_guard lock(mutex_);
  for (Thread& thread : threads_)
    for (Scope& scope : thread.scopes)
      if (scope.stream == stream) scope.stream.reset();
}

void CaptureAnnotations::finish() noexcept {
  const std::lock_guard lock(mutex_);
  if (std::exchange(finished_, true)) return;
  captures::Capture* const open_in = std::exchange(open_in_, nullptr);
  if (!is_body_) {
    open_in->detach(annotations_of);
    annotation_detail::annotated_captures.fetch_sub(1, std::memory_order_relaxed);
  }
  if (log_.boundaries.empty() && log_.annotations.front().empty()) return;
  try {
    finish_checked();
  } catch (...) {
    if (failure_ == nullptr) failure_ = std::current_exception();
  }
}

void CaptureAnnotations::finish_checked() {
  Nodes tails;
  const CaptureStatus status = query(stream_, &tails);
  broken_ = status == CaptureStatus::invalidated;
  if (status != CaptureStatus::active) return;
  look_at_graph();
  log_.listed = std::move(found_);
  log_.boundaries.push_back({AnnotationLog::no_thread, log_.nodes.size(), 0, {}});
}

Annotation CaptureAnnotations::broke_in(const CaptureReport& report) const {
  const std::lock_guard lock(mutex_);
  for (const auto& body : broken_bodies_)  // inner ones end first
    if (Annotation annotation = body->broke_in(report); !annotation.empty()) return annotation;
  for (auto body = bodies_.rbegin(); body != bodies_.rend(); ++body)
    if (Annotation annotation = body->second->broke_in(report); !annotation.empty()) return annotation;
  if (!broken_ && !report.broken_by) return {};
  // Prefers the thread that broke it, if known and ever in a scope.
  const std::uint64_t number = report.broken_by ? report.broken_by->thread : 0;
  const auto by = std::ranges::find(threads_, number, &Thread::number);
  if (number != 0 && by != threads_.end()) return log_.annotations[by->broke_in.value_or(by->in_force())];
  if (broke_in_) return log_.annotations[*broke_in_];
  const auto open = std::ranges::find_if(threads_, [](const Thread& thread) { return !thread.scopes.empty(); });
  return open != threads_.end() ? log_.annotations[open->in_force()] : Annotation{};
}

AnnotationLog CaptureAnnotations::take_log() {
  const std::lock_guard lock(mutex_);
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  return std::move(log_);
}

void CaptureAnnotations::give_up() noexcept {
  std::exception_ptr failure;
  {
    const std::lock_guard lock(mutex_);
    failure = std::exchange(failure_, nullptr);
    if (broken_) return;  // reported by the capture
  }
  try {
    if (failure != nullptr) std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

std::size_t CaptureAnnotations::thread_of_caller() {
  const auto known = std::ranges::find(threads_, std::this_thread::get_id(), &Thread::id);
  if (known == threads_.end()) {
    threads_.push_back({std::this_thread::get_id(), backend::thread_number(), {}, std::nullopt});
    return threads_.size() - 1;
  }
  return static_cast<std::size_t>(known - threads_.begin());
}

void CaptureAnnotations::found_broken(Thread& thread) {
  if (thread.broke_in) return;
  thread.broke_in = thread.in_force();
  if (!broke_in_) broke_in_ = thread.in_force();
}

CaptureStatus CaptureAnnotations::query_streams(const Thread& thread, const std::optional<StreamRef>& known,
                                                Nodes* tails) {
  CaptureStatus status = known ? CaptureStatus::active : CaptureStatus::none;
  std::vector<StreamRef> queried;
  if (known) queried.push_back(*known);
  for (const Scope& scope : thread.scopes) {
    if (!scope.stream || std::ranges::find(queried, *scope.stream) != queried.end()) continue;
    queried.push_back(*scope.stream);
    status = query(*scope.stream, tails);
    if (status != CaptureStatus::active) return status;
  }
  return queried.empty() ? query(stream_, tails) : status;
}

CaptureStatus CaptureAnnotations::query(const StreamRef& stream, Nodes* tails) {
  const captures::Found found = captures::find(stream);
  const backend::CaptureInfo& info = found.info;
  if (info.status == CaptureStatus::active && info.id != capture_id_) return CaptureStatus::none;
  tails->insert(tails->end(), info.dependencies.begin(), info.dependencies.end());
  return info.status;
}

void CaptureAnnotations::look_at_graph() {
  Checked(stream_.device().backend()).graph_nodes(graph_, &found_);
  const std::size_t known = log_.nodes.size();
  // In order of creation. Nodes cannot be removed from a capturing graph, so the new ones are the last.
  if (known == 0 ||
      (known <= found_.size() && found_.front() == log_.nodes.front() && found_[known - 1] == log_.nodes.back())) {
    log_.nodes.insert(log_.nodes.end(), found_.begin() + static_cast<std::ptrdiff_t>(known), found_.end());
    return;
  }
  const std::unordered_set<GraphNodeHandle> before(log_.nodes.begin(), log_.nodes.end());
  std::ranges::copy_if(found_, std::back_inserter(log_.nodes),
                       [&](GraphNodeHandle node) { return !before.contains(node); });
}

}  // namespace reprise::inspect

std::string reprise::backend::error_context() noexcept {
  return reprise::inspect::CaptureAnnotations::within();
}
