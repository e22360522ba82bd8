// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <set>
#include <vector>

#include "reprise/cublas.h"
#include "tests/cuda_libraries/cuda_test.h"

// cuBLASLt in captures.

namespace reprise::test {
namespace {

constexpr int rows = 256;
constexpr std::size_t values_of_matrix = std::size_t{rows} * rows;

// A product of matrices of `rows` by `rows` floats, with the first algorithm that cuBLASLt proposes.
class Product {
 public:
  explicit Product(const CublasLtHandle& lt) : lt_(lt) {
    check_cublas(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    check_cublas(cublasLtMatrixLayoutCreate(&layout_, CUDA_R_32F, rows, rows, rows), "cublasLtMatrixLayoutCreate");
    cublasLtMatmulPreference_t preference = nullptr;
    check_cublas(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const std::size_t bytes = lt.workspace_bytes();
    check_cublas(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                      sizeof bytes),
                 "cublasLtMatmulPreferenceSetAttribute");
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    check_cublas(cublasLtMatmulAlgoGetHeuristic(lt.get(), operation_, layout_, layout_, layout_, layout_, preference, 1,
                                                &result, &found),
                 "cublasLtMatmulAlgoGetHeuristic");
    EXPECT_EQ(found, 1);
    algorithm_ = result.algo;
    check_cublas(cublasLtMatmulPreferenceDestroy(preference), "cublasLtMatmulPreferenceDestroy");
  }
  ~Product() {
    EXPECT_EQ(cublasLtMatrixLayoutDestroy(layout_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulDescDestroy(operation_), CUBLAS_STATUS_SUCCESS);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  void operator()(const Buffer<float>& a, const Buffer<float>& b, Buffer<float>& c) const {
    const StreamRef stream = current_stream();
    const float one = 1, zero = 0;
    const CublasLtWorkspace workspace = lt_.workspace(stream);
    EXPECT_EQ(workspace.bytes(), lt_.workspace_bytes());
    check_cublas(
        cublasLtMatmul(lt_.get(), operation_, &one, a.data(), layout_, b.data(), layout_, &zero, c.data(), layout_,
                       c.data(), layout_, &algorithm_, workspace.data(), workspace.bytes(), stream.native()),
        "cublasLtMatmul");
  }

 private:
  const CublasLtHandle& lt_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
};

/// Matrices, and the eager product of the first two in the last one.
struct Matrices {
  explicit Matrices(Device device) : lt(device), product(lt) {
    product(a, b, d);
    current_stream().synchronize();
  }
  const CublasLtHandle lt;
  const Product product;
  Buffer<float> a{whole_numbers(values_of_matrix, 1)};
  Buffer<float> b{whole_numbers(values_of_matrix, 2)};
  Buffer<float> c{values_of_matrix};
  Buffer<float> d{values_of_matrix};
};

class CublasLt : public CudaTest {};

TEST_F(CublasLt, ACapturedProductIsTheEagerOneInEachReplay) {
  Matrices m(device());

  GraphOptions options;
  options.pool = graph_pool_handle();
  CUDAGraph graph;
  capture(graph, options, [&] { m.product(m.a, m.b, m.c); });
  EXPECT_EQ(allocator().statistics(options.pool).allocated_bytes, m.lt.workspace_bytes());
  for (unsigned seed = 1; seed < 5; ++seed) {
    m.a.write_async(whole_numbers(values_of_matrix, seed));
    m.c.fill_bytes_async(0xff);
    m.product(m.a, m.b, m.d);
    graph.replay();
    EXPECT_EQ(read(m.c), read(m.d));
    EXPECT_NE(read(m.c), std::vector<float>(values_of_matrix, 0));
  }
}

TEST_F(CublasLt, TheMatricesOfACapturedProductAreItsInputs) {
  Matrices m(device());
  GraphOptions options;
  options.check_input_liveness = true;
  CUDAGraph graph;
  capture(graph, options, [&] { m.product(m.a, m.b, m.c); });
  std::set<const void*> found;
  for (const GraphInput& input : graph.inputs()) {
    EXPECT_TRUE(input.not_checked.empty()) << input.nodes.front() << ": " << input.not_checked;
    found.insert(input.address);
  }
  EXPECT_THAT(found,
              ::testing::IsSupersetOf({static_cast<const void*>(m.a.data()), static_cast<const void*>(m.b.data()),
                                       static_cast<const void*>(m.c.data())}));
  graph.replay();
  EXPECT_EQ(read(m.c), read(m.d));
  m.b.reset();
  EXPECT_THROW(graph.replay(), DeadInputError);
}

TEST_F(CublasLt, OutsideOfACaptureTheWorkspaceGoesBackAtOnce) {
  const CublasLtHandle lt(device(), {.workspace_bytes = std::size_t{3} << 20});
  const std::uint64_t before = allocator().statistics().allocated_bytes;
  {
    const CublasLtWorkspace workspace = lt.workspace();
    EXPECT_NE(workspace.data(), nullptr);
    EXPECT_EQ(allocator().statistics().allocated_bytes, before + (std::size_t{3} << 20));
  }
  EXPECT_EQ(allocator().statistics().allocated_bytes, before);
}

}  // namespace
}  // namespace reprise::test
