// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContextLight.h>

#include <algorithm>
#include <barrier>
#include <memory>
#include <set>
#include <thread>

#include "tests/libtorch/cuda/cuda_tensors_fixture.h"

// Workspaces of cuBLAS in captures.

namespace reprise::libtorch::test {
namespace {

class CudaTensorWorkspaces : public OnCudaDevice {
 protected:
  using Known = std::set<std::pair<std::tuple<void*, void*>, void*>>;
  static Known known() {
    Known all;
    for (std::size_t map = 0; map < version::workspace_maps; ++map) {
      const auto lock = version::lock_workspaces(map);
      for (auto& [key, workspace] : version::workspaces(map)) all.emplace(key, version::memory_of(workspace).get());
    }
    return all;
  }
  Tensor capture_product(CUDAGraph& graph, const Tensor& a, MempoolId pool = {}) {
    Tensor y;
    GraphOptions options;
    options.pool = pool;
    capture(graph, options, [&] { y = torch::addmm(a, torch::mm(a, a), a); });
    return y;
  }
  Tensor eager_product(const Tensor& a) { return torch::addmm(a, torch::mm(a, a), a); }
};

TEST_F(CudaTensorWorkspaces, OfEagerWorkAreAsBeforeAfterACapture) {
  const Tensor a = random({512, 512});
  eager_product(a);
  const Known before = known();
  EXPECT_FALSE(before.empty());
  CUDAGraph graph;
  const Tensor y = capture_product(graph, a);
  EXPECT_EQ(known(), before);
  graph.replay();
  EXPECT_TRUE(same(y, eager_product(a)));
}

TEST_F(CudaTensorWorkspaces, OfACaptureThatFailedAreReleased) {
  const Tensor a = random({512, 512});
  eager_product(a);
  const Known before = known();
  const std::int64_t reserved_before = settled_reserved();
  CUDAGraph graph;
  EXPECT_THROW(capture(graph, {},
                       [&] {
                         const Tensor y = torch::mm(a, a);
                         throw std::runtime_error("the body fails");
                       }),
               std::runtime_error);
  EXPECT_EQ(known(), before);
  EXPECT_TRUE(falls_to(reserved_before));
}

TEST_F(CudaTensorWorkspaces, OfAGraphStayWhenLibtorchClearsItsOwn) {
  const Tensor a = random({512, 512});
  const Tensor expected = eager_product(a);
  CUDAGraph graph;
  const Tensor y = capture_product(graph, a);
  at::cuda::clearCublasWorkspaces();
  settle();
  const Tensor other = torch::full({64 << 20}, 7.0, device_);  // takes memory that was released
  graph.replay();
  EXPECT_TRUE(same(y, expected));
  EXPECT_TRUE(all_are(other, 7));
}

TEST_F(CudaTensorWorkspaces, OfAGraphStayWhenAnotherOneAndItsThreadEnd) {
  const Tensor a = random({512, 512});
  const Tensor expected = eager_product(a);
  const MempoolId pool = graph_pool_handle();
  auto first = std::make_unique<CUDAGraph>();
  CUDAGraph second;
  Tensor y;
  std::thread([&] {
    eager_product(a);  // this thread's handle cannot be made in a capture
    const Tensor of_first = capture_product(*first, a, pool);
    y = capture_product(second, a, pool);
    torch::cuda::synchronize();
    first.reset();
  }).join();
  settle();
  const Tensor other = torch::full({64 << 20}, 7.0, device_);
  second.replay();
  EXPECT_TRUE(same(y, expected));
  EXPECT_TRUE(all_are(other, 7));
}

TEST_F(CudaTensorWorkspaces, AreSharedByTheGraphsOfAPoolAndFreedWithTheLast) {
  const Tensor a = random({512, 512});
  eager_product(a);
  const std::int64_t before = settled_reserved();
  {
    const MempoolId pool = graph_pool_handle();
    CUDAGraph first, second;
    Tensor y = capture_product(first, a, pool);
    const std::int64_t one = settled_reserved() - before;
    const auto workspace = static_cast<std::int64_t>(at::cuda::getChosenWorkspaceSize());
    EXPECT_GE(one, workspace);
    Tensor z = capture_product(second, a, pool);
    EXPECT_LT(settled_reserved() - before, one + workspace);
    first.replay();
    second.replay();
    EXPECT_TRUE(same(z, eager_product(a)));
    torch::cuda::synchronize();
  }
  EXPECT_TRUE(falls_to(before));
}

TEST_F(CudaTensorWorkspaces, OfAutogradsThreadBelongToTheGraph) {
  const Tensor w = random({256, 256}).requires_grad_(), x = random({64, 256});
  const auto step = [&] { return torch::autograd::grad({torch::mm(x, w).sum()}, {w})[0]; };
  const Tensor eager = step();
  const Known before = known();
  Tensor gradient;
  CUDAGraph graph;
  capture(graph, [&] { gradient = step(); });
  EXPECT_EQ(known(), before);
  at::cuda::clearCublasWorkspaces();
  settle();
  const Tensor other = torch::full({64 << 20}, 7.0, device_);
  graph.replay();
  EXPECT_TRUE(same(gradient, eager));
  EXPECT_TRUE(all_are(other, 7));
}

TEST_F(CudaTensorWorkspaces, OfTwoCapturesAtOnceAreApart) {
  const Tensor a = random({512, 512}), b = random({384, 384});
  const Tensor product_of_a = eager_product(a), product_of_b = eager_product(b);
  CUDAGraph of_a, of_b;
  Tensor y, z;
  std::barrier both(2);
  const auto capture_at_once = [&](CUDAGraph& graph, const Tensor& from, Tensor& to) {
    eager_product(from);
    torch::cuda::synchronize();
    both.arrive_and_wait();
    GraphOptions options;
    options.capture_error_mode = CaptureMode::thread;
    const Stream stream(device());
    const StreamGuard guard(stream);
    graph.capture_begin(options);
    both.arrive_and_wait();
    to = eager_product(from);
    both.arrive_and_wait();
    graph.capture_end();
  };
  std::thread other([&] { capture_at_once(of_b, b, z); });
  const Known before = known();
  capture_at_once(of_a, a, y);
  other.join();
  const Known after = known();
  EXPECT_TRUE(std::includes(after.begin(), after.end(), before.begin(), before.end())) << "all are there again";
  at::cuda::clearCublasWorkspaces();
  settle();
  const Tensor filled = torch::full({64 << 20}, 7.0, device_);
  of_a.replay();
  of_b.replay();
  EXPECT_TRUE(same(y, product_of_a));
  EXPECT_TRUE(same(z, product_of_b));
  EXPECT_TRUE(all_are(filled, 7));
}

TEST_F(CudaTensorWorkspaces, OfEagerWorkOnAnotherThreadDuringACaptureAreItsOwn) {
  const Tensor a = random({512, 512});
  const Tensor expected = eager_product(a);
  GraphOptions options;
  options.capture_error_mode = CaptureMode::thread;
  Tensor y, other;
  CUDAGraph graph;
  capture(graph, options, [&] {
    y = eager_product(a);
    std::thread([&] {
      const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
      other = eager_product(a);
      c10::cuda::getCurrentCUDAStream().synchronize();
    }).join();
  });
  EXPECT_TRUE(same(other, expected));
  graph.replay();
  EXPECT_TRUE(same(y, expected));
}

}  // namespace
}  // namespace reprise::libtorch::test
