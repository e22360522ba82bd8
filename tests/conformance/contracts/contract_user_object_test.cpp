// SPDX-License-Identifier: Apache-2.0
#include <condition_variable>
#include <mutex>

#include "tests/conformance/contracts/contract.h"

namespace reprise::backend::test {
namespace {

/// Something that a graph can hold. Its destructor, a function of the runtime, says that it is gone.
class Held {
 public:
  explicit Held(Backend& backend) : backend_(backend) {}

  /// What the runtime calls in the end.
  static void destroy(void* held) { static_cast<Held*>(held)->destroy(); }

  /// Waits for the end; false if it does not come.
  bool wait_until_gone() {
    std::unique_lock lock(mutex_);
    return gone_condition_.wait_for(lock, reprise::test::patience, [&] { return times_ > 0; });
  }
  bool gone() const {
    const std::scoped_lock lock(mutex_);
    return times_ > 0;
  }
  int times() const {
    const std::scoped_lock lock(mutex_);
    return times_;
  }
  std::thread::id thread() const {
    const std::scoped_lock lock(mutex_);
    return thread_;
  }
  ErrorCode call_from_destructor() const {
    const std::scoped_lock lock(mutex_);
    return call_;
  }

 private:
  void destroy() {
    void* pointer = nullptr;
    const ErrorCode call = backend_.memory_allocate(&pointer, 64).code();
    const std::scoped_lock lock(mutex_);
    call_ = call;
    thread_ = std::this_thread::get_id();
    ++times_;
    gone_condition_.notify_all();
  }

  Backend& backend_;
  mutable std::mutex mutex_;
  std::condition_variable gone_condition_;
  int times_ = 0;
  std::thread::id thread_;
  ErrorCode call_ = ErrorCode::success;
};

class UserObjectContract : public Contract {
 protected:
  Held held_{GetParam().backend()};
  GraphHandle graph_ = nullptr;
  void SetUp() override { graph_ = new_graph(); }
  void TearDown() override {
    Contract::TearDown();
    if (IsSkipped()) return;  // before an object was made
    EXPECT_TRUE(held_.wait_until_gone()) << "every test gives all references up";
    EXPECT_EQ(held_.times(), 1);
  }

  UserObjectHandle new_object(unsigned references = 1) {
    UserObjectHandle object = nullptr;
    EXPECT_OK(backend().user_object_create(&object, &held_, &Held::destroy, references));
    return object;
  }
  /// The graph holds the only reference.
  void give_to(GraphHandle graph) {
    EXPECT_OK(backend().graph_retain_user_object(graph, new_object(), 1, RetainFlags::move));
  }
  /// The destructor runs some time after the last reference is gone; work that is surely behind it shows that it has
  /// not been queued.
  void expect_still_there() {
    Held other(backend());
    UserObjectHandle object = nullptr;
    EXPECT_OK(backend().user_object_create(&object, &other, &Held::destroy, 1));
    EXPECT_OK(backend().user_object_release(object, 1));
    EXPECT_TRUE(other.wait_until_gone());
    EXPECT_FALSE(held_.gone());
  }
};
REPRISE_ON_EVERY_DEVICE(UserObjectContract);

TEST_P(UserObjectContract, IsDestroyedWhenTheLastReferenceIsReleased) {
  UserObjectHandle object = new_object(2);
  EXPECT_OK(backend().user_object_retain(object, 3));
  EXPECT_OK(backend().user_object_release(object, 4));
  expect_still_there();
  EXPECT_OK(backend().user_object_release(object, 1));
  EXPECT_TRUE(held_.wait_until_gone());
}

TEST_P(UserObjectContract, IsDestroyedOnAnotherThreadThatMustNotCallTheDevice) {
  EXPECT_OK(backend().user_object_release(new_object(), 1));
  EXPECT_TRUE(held_.wait_until_gone());
  if (has(Capability::destruction_on_a_thread_of_its_own)) {
    EXPECT_NE(held_.thread(), std::this_thread::get_id());
  }
  EXPECT_RESULT(ErrorCode::not_permitted, held_.call_from_destructor());
}

TEST_P(UserObjectContract, IsRefusedWithoutReferences) {
  UserObjectHandle object = nullptr;
  EXPECT_RESULT(ErrorCode::invalid_value, backend().user_object_create(&object, &held_, &Held::destroy, 0));
  object = new_object();
  EXPECT_RESULT(ErrorCode::invalid_value, backend().user_object_retain(object, 0));
  EXPECT_OK(backend().user_object_release(object, 1));
}

TEST_P(UserObjectContract, IsDestroyedWithTheTemplateThatHoldsIt) {
  give_to(graph_);
  expect_still_there();
  destroy(graph_);
  EXPECT_TRUE(held_.wait_until_gone());
}

TEST_P(UserObjectContract, AGraphCanAddAReferenceOfItsOwn) {
  UserObjectHandle object = new_object();
  EXPECT_OK(backend().graph_retain_user_object(graph_, object, 1, RetainFlags::add));
  destroy(graph_);
  expect_still_there();
  EXPECT_OK(backend().user_object_release(object, 1));
  EXPECT_TRUE(held_.wait_until_gone());
}

TEST_P(UserObjectContract, AGraphCanGiveItsReferenceUp) {
  UserObjectHandle object = new_object();
  EXPECT_OK(backend().graph_retain_user_object(graph_, object, 1, RetainFlags::move));
  EXPECT_OK(backend().graph_release_user_object(graph_, object, 1));
  EXPECT_TRUE(held_.wait_until_gone());
}

TEST_P(UserObjectContract, LivesAsLongAsAnExecutable) {
  give_to(graph_);
  GraphExecHandle exec = instantiate(graph_);
  destroy(graph_);
  expect_still_there();
  destroy(exec);
  EXPECT_TRUE(held_.wait_until_gone());
}

TEST_P(UserObjectContract, LivesAsLongAsTheLastOfSeveralExecutables) {
  give_to(graph_);
  GraphExecHandle first = instantiate(graph_);
  GraphExecHandle second = instantiate(graph_);
  destroy(graph_);
  destroy(first);
  expect_still_there();
  destroy(second);
  EXPECT_TRUE(held_.wait_until_gone());
}

TEST_P(UserObjectContract, LivesAsLongAsARunningLaunch) {
  Gate& gate = new_gate();
  add_host(graph_, {}, &Gate::pass, &gate);
  give_to(graph_);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  EXPECT_OK(backend().graph_launch(exec, stream));
  EXPECT_TRUE(gate.wait_until_reached());
  destroy(graph_);
  destroy(exec);
  expect_still_there();
  gate.open();
  EXPECT_TRUE(held_.wait_until_gone());
  EXPECT_OK(backend().stream_synchronize(stream));
}

TEST_P(UserObjectContract, LivesAsLongAsALaunchThatHasNotBegun) {
  Gate& gate = new_gate();
  add(graph_, EmptyNodeParams{});
  give_to(graph_);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  hold(stream, gate);
  EXPECT_OK(backend().graph_launch(exec, stream));
  destroy(graph_);
  destroy(exec);
  expect_still_there();
  gate.open();
  EXPECT_TRUE(held_.wait_until_gone());
}

TEST_P(UserObjectContract, LivesOnInAnExecutableThatIsUpdatedToATemplateThatHoldsIt) {
  add(graph_, EmptyNodeParams{});
  GraphExecHandle exec = instantiate(graph_);
  give_to(graph_);
  UpdateInfo info;
  EXPECT_OK(backend().graph_exec_update(exec, graph_, &info));
  destroy(graph_);
  expect_still_there();
  destroy(exec);
  EXPECT_TRUE(held_.wait_until_gone());
}

TEST_P(UserObjectContract, IsDestroyedByAnUpdateToATemplateThatDoesNotHoldItAnyMore) {
  add(graph_, EmptyNodeParams{});
  UserObjectHandle object = new_object();
  EXPECT_OK(backend().graph_retain_user_object(graph_, object, 1, RetainFlags::move));
  GraphExecHandle exec = instantiate(graph_);
  EXPECT_OK(backend().graph_release_user_object(graph_, object, 1));
  expect_still_there();
  UpdateInfo info;
  EXPECT_OK(backend().graph_exec_update(exec, graph_, &info));
  EXPECT_TRUE(held_.wait_until_gone());
}

TEST_P(UserObjectContract, LivesAsLongAsALaunchThatRunsWhenItsExecutableIsUpdated) {
  Gate& gate = new_gate();
  add_host(graph_, {}, &Gate::pass, &gate);
  UserObjectHandle object = new_object();
  EXPECT_OK(backend().graph_retain_user_object(graph_, object, 1, RetainFlags::move));
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  EXPECT_OK(backend().graph_launch(exec, stream));
  EXPECT_TRUE(gate.wait_until_reached());
  EXPECT_OK(backend().graph_release_user_object(graph_, object, 1));
  UpdateInfo info;
  EXPECT_OK(backend().graph_exec_update(exec, graph_, &info));
  expect_still_there();
  gate.open();
  EXPECT_TRUE(held_.wait_until_gone());
  EXPECT_OK(backend().stream_synchronize(stream));
}

TEST_P(UserObjectContract, LivesAsLongAsAClone) {
  give_to(graph_);
  GraphHandle clone = nullptr;
  ASSERT_OK(backend().graph_clone(&clone, graph_));
  own(clone);
  destroy(graph_);
  expect_still_there();
  destroy(clone);
  EXPECT_TRUE(held_.wait_until_gone());
}

TEST_P(UserObjectContract, LivesInAnExecutableThatWasMadeOfAClone) {
  give_to(graph_);
  GraphHandle clone = nullptr;
  ASSERT_OK(backend().graph_clone(&clone, graph_));
  own(clone);
  GraphExecHandle exec = instantiate(clone);
  destroy(graph_);
  destroy(clone);
  expect_still_there();
  destroy(exec);
  EXPECT_TRUE(held_.wait_until_gone());
}

TEST_P(UserObjectContract, CanBeGivenToAGraphThatIsBeingCaptured) {
  StreamHandle stream = new_stream();
  begin_capture(stream);
  CaptureInfo info;
  EXPECT_OK(backend().stream_capture_info(stream, &info));
  give_to(info.graph);
  GraphHandle graph = end_capture(stream);
  expect_still_there();
  destroy(graph);
  EXPECT_TRUE(held_.wait_until_gone());
}

TEST_P(UserObjectContract, IsDestroyedWithACaptureThatFails) {
  StreamHandle stream = new_stream();
  begin_capture(stream);
  CaptureInfo info;
  EXPECT_OK(backend().stream_capture_info(stream, &info));
  give_to(info.graph);
  EXPECT_RESULT(ErrorCode::stream_capture_unsupported, backend().stream_synchronize(stream));
  GraphHandle graph = nullptr;
  EXPECT_RESULT(ErrorCode::stream_capture_invalidated, backend().stream_end_capture(stream, &graph));
  EXPECT_TRUE(held_.wait_until_gone());
}

}  // namespace
}  // namespace reprise::backend::test
