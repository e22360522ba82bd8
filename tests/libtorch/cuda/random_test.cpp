// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <functional>
#include <thread>

#include "tests/libtorch/cuda/cuda_tensors_fixture.h"

// Random numbers of libtorch's CUDA generators in graphs: each replay draws what eager work would have drawn in its
// place, also beside graphs of libtorch's own.

namespace reprise::libtorch::test {
namespace {

using ::testing::HasSubstr;

template <class F>
std::string error_of(F&& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

class CudaRandom : public OnCudaDevice {
 protected:
  void SetUp() override {
    OnCudaDevice::SetUp();
    generator_ = at::cuda::detail::getDefaultCUDAGenerator(0);
    set(42, 0);
    x_ = torch::zeros({64}, options_);
    y_ = torch::zeros({64}, options_);
    torch::cuda::synchronize();
  }

  void set(std::uint64_t seed, std::uint64_t offset) {
    generator_.set_current_seed(seed);
    generator_.set_offset(offset);
  }
  GeneratorState state() const { return {generator_.current_seed(), generator_.get_offset()}; }

  // Draws twice, with several numbers a thread.
  void work() {
    x_.uniform_();
    y_.copy_(torch::dropout(torch::ones({64}, options_), 0.5, true) + torch::randn({64}, options_));
  }
  torch::Tensor both() const {
    torch::cuda::synchronize();
    return torch::cat({x_, y_}).cpu();
  }
  torch::Tensor eager() {
    work();
    return both();
  }
  torch::Tensor replayed(CUDAGraph& graph) {
    graph.replay();
    return both();
  }
  void capture_work(CUDAGraph& graph) {
    capture(graph, [&] { work(); });
  }
  // What `steps` give, once with graphs and once eagerly from the same state on.
  using Steps = std::vector<std::function<torch::Tensor()>>;
  void expect_equal(const Steps& with_graphs, const Steps& eagerly) {
    const GeneratorState begin = state();
    std::vector<torch::Tensor> found, expected;
    for (const auto& step : with_graphs) found.push_back(step());
    const GeneratorState end = state();
    set(begin.seed, begin.offset);
    for (const auto& step : eagerly) expected.push_back(step());
    EXPECT_EQ(end, state());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(torch::equal(found[i], expected[i])) << "step " << i;
  }

  // A replay of a graph of work() begins where the seed does.
  void expect_first_numbers(CUDAGraph& graph) {
    set(42, 0);
    const torch::Tensor found = replayed(graph);
    set(42, 0);
    EXPECT_TRUE(torch::equal(found, eager()));
  }

  const torch::TensorOptions options_ = torch::TensorOptions().device(torch::kCUDA, 0);
  at::Generator generator_;
  torch::Tensor x_, y_;
  CUDAGraph graph_;
};

// A graph of libtorch's own, for the same work.
struct LibtorchGraph {
  explicit LibtorchGraph(const std::function<void()>& body) {
    torch::cuda::synchronize();
    const c10::StreamGuard guard(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    body();
    graph.capture_end();
  }
  at::cuda::CUDAGraph graph;
};

TEST_F(CudaRandom, DrawNothingWhenTheyAreCaptured) {
  capture_work(graph_);
  EXPECT_EQ(state(), (GeneratorState{42, 0}));
  const torch::Tensor first = eager();
  set(42, 0);
  EXPECT_TRUE(torch::equal(eager(), first));
}

TEST_F(CudaRandom, AreThoseOfEagerWorkAtEachReplay) {
  capture_work(graph_);
  const auto replay = [&] { return replayed(graph_); };
  const auto eagerly = [&] { return eager(); };
  expect_equal({replay, replay, replay, replay}, {eagerly, eagerly, eagerly, eagerly});
}

TEST_F(CudaRandom, GoOnAfterEagerDrawsAndSeedsThatAreSetInBetween) {
  capture_work(graph_);
  const auto replay = [&] { return replayed(graph_); };
  const auto eagerly = [&] { return eager(); };
  const auto seed = [&] { return set(7, 0), eager(); };
  const auto offset = [&] { return generator_.set_offset(4096), eager(); };
  expect_equal({replay, eagerly, replay, seed, replay, replay, offset, replay},
               {eagerly, eagerly, eagerly, seed, eagerly, eagerly, offset, eagerly});
}

TEST_F(CudaRandom, AlternateBetweenGraphsOfBothLibraries) {
  LibtorchGraph before([&] { work(); });
  capture_work(graph_);
  LibtorchGraph after([&] { work(); });
  CUDAGraph other;
  capture_work(other);
  const auto ours = [&] { return replayed(graph_); };
  const auto second = [&] { return replayed(other); };
  const auto theirs = [&](LibtorchGraph& graph) {
    graph.graph.replay();
    return both();
  };
  const auto first_of_theirs = [&] { return theirs(before); };
  const auto second_of_theirs = [&] { return theirs(after); };
  const auto eagerly = [&] { return eager(); };
  expect_equal({ours, first_of_theirs, ours, second, second_of_theirs, eagerly, second, ours, first_of_theirs},
               Steps(9, eagerly));
}

TEST_F(CudaRandom, AreDrawnOnForkedStreamsToo) {
  const auto forked = [&] {
    const c10::Stream begin = c10::cuda::getCurrentCUDAStream(), side = c10::cuda::getStreamFromPool();
    c10::Event fork(torch::kCUDA), join(torch::kCUDA);
    fork.record(begin);
    fork.block(side);
    {
      const c10::StreamGuard guard(side);
      y_.normal_();
    }
    join.record(side);
    x_.uniform_();
    join.block(begin);
  };
  capture(graph_, forked);
  const auto replay = [&] { return replayed(graph_); };
  const auto eagerly = [&] { return forked(), both(); };
  expect_equal({replay, replay, replay}, {eagerly, eagerly, eagerly});
}

struct NoiseInBackward : torch::autograd::Function<NoiseInBackward> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0] + torch::rand_like(gradients[0])};
  }
};

TEST_F(CudaRandom, AreDrawnOnThreadsOfAutogradToo) {
  const torch::Tensor w = torch::ones({64}, options_.requires_grad(true));
  const auto step = [&] {
    const torch::Tensor loss = (NoiseInBackward::apply(torch::dropout(w, 0.5, true)) * 2).sum();
    x_.copy_(torch::autograd::grad({loss}, {w})[0]);
  };
  {
    const c10::StreamGuard guard(c10::cuda::getStreamFromPool());
    step();
  }
  set(42, 0);
  capture(graph_, step);
  const auto replay = [&] { return replayed(graph_); };
  const auto eagerly = [&] { return step(), both(); };
  expect_equal({replay, replay, replay}, {eagerly, eagerly, eagerly});
}

TEST_F(CudaRandom, OfRegisteredGeneratorsAreSafeToo) {
  at::Generator own = at::cuda::detail::createCUDAGenerator(0);
  own.set_current_seed(5);
  register_generator_state(graph_, own);
  register_generator_state(graph_, own);         // once is enough
  register_generator_state(graph_, generator_);  // which takes part anyway
  const auto draw = [&] {
    x_.uniform_(0, 1, own);
    y_.uniform_();
  };
  capture(graph_, draw);
  const auto replay = [&] { return replayed(graph_); };
  const auto eagerly = [&] { return draw(), both(); };
  own.set_offset(0);
  const auto again = [&] {
    own.set_current_seed(5);
    return eagerly();
  };
  expect_equal({replay, replay, eagerly, replay}, {again, eagerly, eagerly, eagerly});
}

TEST_F(CudaRandom, OfAWarmUpLeaveRegisteredGeneratorsAsTheyWere) {
  at::Generator own = at::cuda::detail::createCUDAGenerator(0);
  own.set_current_seed(5);
  own.set_offset(8);
  register_generator_state(graph_, own);
  const auto draw = [&] { x_.uniform_(0, 1, own); };
  capture(graph_, {.warmup = 2}, draw);
  EXPECT_EQ(own.get_offset(), 8u);
  const torch::Tensor found = replayed(graph_);
  own.set_current_seed(5);
  own.set_offset(8);
  draw();
  EXPECT_TRUE(torch::equal(found, both()));
}

TEST_F(CudaRandom, OfGeneratorsThatWereNotRegisteredAreRefusedInACapture) {
  at::Generator own = at::cuda::detail::createCUDAGenerator(0);
  EXPECT_THROW(capture(graph_, [&] { x_.uniform_(0, 1, own); }), c10::Error);
  capture_work(graph_);
  expect_first_numbers(graph_);
}

TEST_F(CudaRandom, GoOnFromTheStateThatAGeneratorHadInTheCapture) {
  const at::Generator captured = generator_.graphsafe_get_state();
  capture_work(graph_);
  const torch::Tensor first = replayed(graph_);
  const at::Generator other = at::cuda::detail::createCUDAGenerator(0);
  generator_.graphsafe_set_state(other.graphsafe_get_state());
  const std::uint64_t offset = generator_.get_offset();
  replayed(graph_);
  EXPECT_EQ(generator_.get_offset(), offset);
  generator_.graphsafe_set_state(captured);
  EXPECT_GT(generator_.get_offset(), offset);
  const torch::Tensor third = replayed(graph_);
  set(42, 0);
  EXPECT_TRUE(torch::equal(first, eager()));
  eager();
  EXPECT_TRUE(torch::equal(third, eager()));
}

TEST_F(CudaRandom, LeaveNoNodeInAGraphThatDrawsNone) {
  capture(graph_, [&] { x_.add_(1); });
  EXPECT_EQ(graph_.node_count(), 1U);
  CUDAGraph empty;
  EXPECT_THROW(capture(empty, [] {}), CaptureError);
}

TEST_F(CudaRandom, KeepASeedFromBeingSetInACapture) {
  EXPECT_THROW(capture(graph_, [&] { generator_.set_current_seed(1); }), c10::Error);
  EXPECT_EQ(state(), (GeneratorState{42, 0}));
  const torch::Tensor first = eager();
  set(42, 0);
  capture_work(graph_);
  EXPECT_TRUE(torch::equal(replayed(graph_), first));
}

// libtorch refuses to register a graph with a generator while the current stream is being captured.
TEST_F(CudaRandom, CannotBeAttachedWhileTheCurrentStreamIsCaptured) {
  if (version::draws_by_capture_id) GTEST_SKIP() << "this libtorch does not register graphs with generators";
  capture(graph_, [&] {
    work();
    EXPECT_THAT(error_of([&] { const version::GeneratorDraws draws(generator_.getIntrusivePtr()); }),
                HasSubstr("Cannot register the state during capturing stage"));
  });
  expect_first_numbers(graph_);
}

TEST_F(CudaRandom, AreRefusedOnOtherThreadsWhileACaptureIsUnderway) {
  GraphOptions options;
  options.capture_error_mode = CaptureMode::thread;
  const torch::Tensor other = torch::zeros({4}, options_);
  std::string refused;
  capture(graph_, options, [&] {
    work();
    std::thread([&] { refused = error_of([&] { other.uniform_(); }); }).join();
  });
  EXPECT_THAT(refused, HasSubstr("outside graph capture"));
  EXPECT_EQ(state(), (GeneratorState{42, 0}));
  expect_first_numbers(graph_);
}

TEST_F(CudaRandom, CanBeReplayedAndSeededWhileACaptureIsUnderway) {
  capture_work(graph_);
  CUDAGraph other;
  GraphOptions options;
  options.capture_error_mode = CaptureMode::thread;
  const reprise::Stream stream;
  capture(other, options, [&] {
    work();
    std::thread([&] {
      generator_.set_current_seed(3);
      graph_.replay(stream);
    }).join();
  });
  stream.ref().synchronize();
  const torch::Tensor first = both(), second = replayed(other);
  set(3, 0);
  EXPECT_TRUE(torch::equal(first, eager()));
  EXPECT_TRUE(torch::equal(second, eager()));
}

// A capture of libtorch's, begun and ended on another thread.
void capture_theirs_meanwhile(at::cuda::CUDAGraph& graph, const torch::Tensor& x) {
  std::thread([&] {
    const c10::StreamGuard guard(c10::cuda::getStreamFromPool());
    graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    x.add_(1);
    graph.capture_end();
  }).join();
}

TEST_F(CudaRandom, AreRefusedIfACaptureOfLibtorchTookTheGeneratorMeanwhile) {
  GraphOptions options;
  options.capture_error_mode = CaptureMode::thread;
  const auto with_theirs = [&](const std::function<void()>& body) {
    at::cuda::CUDAGraph theirs;
    capture(graph_, options, [&] {
      body();
      capture_theirs_meanwhile(theirs, y_);
    });
  };
  EXPECT_THAT(error_of([&] { with_theirs([&] { x_.uniform_(); }); }), HasSubstr("cannot be counted"));
  with_theirs([&] { x_.add_(1); });  // draws nothing
  graph_.reset();
  capture_work(graph_);
  expect_first_numbers(graph_);
}

// Two captures at once, the second one within the first.
class TwoCapturesAtOnce : public CudaRandom {
 protected:
  void capture_both(const std::function<void()>& first, const std::function<void()>& second) {
    GraphOptions options;
    options.capture_error_mode = CaptureMode::thread;
    capture(graph_, options, [&] {
      first();
      std::exception_ptr failed;
      std::thread([&] {
        try {
          capture(other_, options, second);
        } catch (...) {
          failed = std::current_exception();
        }
      }).join();
      if (failed) std::rethrow_exception(failed);
    });
  }
  CUDAGraph other_;
};

TEST_F(TwoCapturesAtOnce, AreFineIfOneOfThemDrawsNothing) {
  capture_both([&] { work(); }, [&] { x_.add_(1); });
  const auto replay = [&] { return replayed(graph_); };
  const auto eagerly = [&] { return eager(); };
  expect_equal({replay, replay}, {eagerly, eagerly});
  x_.zero_();
  EXPECT_TRUE(torch::equal(replayed(other_).slice(0, 0, 64), torch::ones({64})));
}

TEST_F(TwoCapturesAtOnce, AreRefusedIfTheSecondOneDraws) {
  EXPECT_THAT(error_of([&] { capture_both([&] { work(); }, [&] { y_.normal_(); }); }),
              HasSubstr("can serve one of them: capture both again, one after the other"));
  capture_work(other_);
  expect_first_numbers(other_);
}

TEST_F(TwoCapturesAtOnce, AreFineIfTheSecondOneDrawsFromAGeneratorOfItsOwn) {
  at::Generator own = at::cuda::detail::createCUDAGenerator(0);
  own.set_current_seed(5);
  register_generator_state(other_, own);
  capture_both([&] { x_.uniform_(); }, [&] { y_.uniform_(0, 1, own); });
  const torch::Tensor found = replayed(other_);
  own.set_current_seed(5);
  y_.uniform_(0, 1, own);
  EXPECT_TRUE(torch::equal(found, both()));
}

TEST_F(TwoCapturesAtOnce, AreRefusedForOneRegisteredGenerator) {
  register_generator_state(other_, generator_);
  EXPECT_THAT(error_of([&] { capture_both([&] { work(); }, [&] { x_.add_(1); }); }),
              HasSubstr("takes part in another capture"));
}

}  // namespace
}  // namespace reprise::libtorch::test
