// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/operators/operator_sweep.h"

// Matrix products, linear algebra, Fourier transforms and complex numbers.

namespace reprise::libtorch::test::matrices {
namespace {

const std::vector<Input> product{normal({3, 4}), normal({4, 5})}, batched{normal({2, 3, 4}), normal({2, 4, 5})},
    vectors{normal({6}), normal({6})}, square{normal({4, 4})}, tall{normal({5, 3})}, positive_definite{definite(4)},
    system{definite(4), normal({4, 2})}, real{normal({4, 8})},
    complex{normal({4, 6}, torch::kComplexFloat), normal({4, 6}, torch::kComplexFloat)};

// One of the pair (v, -v), which both are right.
torch::Tensor up_to_sign(const torch::Tensor& v) {
  return v.abs();
}

}  // namespace

SweptOperators matrix_products() {
  return {
      swept("mm", product, [](In x) { return x[0].mm(x[1]); }),
      swept("mm of transposed matrices", {normal({4, 3}), normal({5, 4})}, [](In x) { return x[0].t().mm(x[1].t()); }),
      swept("mm in double precision", {normal({3, 4}, torch::kDouble), normal({4, 5}, torch::kDouble)},
            [](In x) { return x[0].mm(x[1]); }),
      swept("addmm", {normal({5}), normal({3, 4}), normal({4, 5})},
            [](In x) { return torch::addmm(x[0], x[1], x[2], 0.5, 2); }),
      swept("bmm", batched, [](In x) { return x[0].bmm(x[1]); }),
      swept("baddbmm", {normal({2, 3, 5}), normal({2, 3, 4}), normal({2, 4, 5})},
            [](In x) { return x[0].baddbmm(x[1], x[2]); }),
      swept("addbmm", {normal({3, 5}), normal({2, 3, 4}), normal({2, 4, 5})},
            [](In x) { return x[0].addbmm(x[1], x[2]); }),
      swept("matmul, broadcast", {normal({2, 1, 3, 4}), normal({5, 4, 2})}, [](In x) { return x[0].matmul(x[1]); }),
      swept("mv", {normal({3, 6}), normal({6})}, [](In x) { return x[0].mv(x[1]); }),
      swept("addmv", {normal({3}), normal({3, 6}), normal({6})}, [](In x) { return x[0].addmv(x[1], x[2]); }),
      swept("dot", vectors, [](In x) { return x[0].dot(x[1]); }),
      swept("vdot", {normal({6}, torch::kComplexFloat), normal({6}, torch::kComplexFloat)},
            [](In x) { return x[0].vdot(x[1]); }),
      swept("outer", vectors, [](In x) { return x[0].outer(x[1]); }),
      swept("addr", {normal({6, 6}), normal({6}), normal({6})}, [](In x) { return x[0].addr(x[1], x[2]); }),
      swept("inner", {normal({3, 4}), normal({5, 4})}, [](In x) { return torch::inner(x[0], x[1]); }),
      swept("linear", {normal({2, 3, 4}), normal({5, 4}), normal({5})},
            [](In x) { return torch::linear(x[0], x[1], x[2]); }),
      swept("bilinear", {normal({3, 4}), normal({3, 5}), normal({2, 4, 5}), normal({2})},
            [](In x) { return torch::bilinear(x[0], x[1], x[2], x[3]); }),
      swept("einsum", batched,
            [](In x) {
              return torch::einsum("bij,bjk->ik", {x[0], x[1]});
            }),
      swept("tensordot", {normal({2, 3, 4}), normal({4, 3, 5})},
            [](In x) {
              return torch::tensordot(x[0], x[1], {1, 2}, {1, 0});
            }),
      swept("linalg_multi_dot", {normal({3, 4}), normal({4, 5}), normal({5, 2})},
            [](In x) {
              return torch::linalg_multi_dot({x[0], x[1], x[2]});
            }),
      swept("kron", product, [](In x) { return torch::kron(x[0], x[1]); }),
      swept("linalg_cross", {normal({4, 3}), normal({4, 3})}, [](In x) { return torch::linalg_cross(x[0], x[1]); }),
      swept("matrix_power", square, [](In x) { return x[0].matrix_power(3); }),
      swept("trace", square, [](In x) { return x[0].trace(); }),
  };
}

SweptOperators linear_algebra() {
  return {
      swept("linalg_det", square, [](In x) { return torch::linalg_det(x[0]); }),
      swept("linalg_slogdet", square, [](In x) { return torch::linalg_slogdet(x[0]); }),
      swept("logdet", positive_definite, [](In x) { return x[0].logdet(); }),
      swept("linalg_inv_ex", square, [](In x) { return torch::linalg_inv_ex(x[0]); }),
      swept("linalg_cholesky_ex", positive_definite, [](In x) { return torch::linalg_cholesky_ex(x[0]); }),
      swept("linalg_solve_ex", system, [](In x) { return torch::linalg_solve_ex(x[0], x[1]); }),
      swept("linalg_lu_factor_ex", square, [](In x) { return torch::linalg_lu_factor_ex(x[0]); }),
      swept("linalg_solve_triangular", system,
            [](In x) { return torch::linalg_solve_triangular(x[0].triu(), x[1], true); }),
      swept("triangular_solve", {normal({4, 2}), definite(4)},
            [](In x) { return std::get<0>(torch::triangular_solve(x[0], x[1])); }),
      swept("cholesky_solve", {normal({4, 2}), definite(4)},
            [](In x) { return torch::cholesky_solve(x[0], x[1].tril()); }),
      swept("cholesky_inverse", positive_definite, [](In x) { return torch::cholesky_inverse(x[0].tril()); }),
      swept("linalg_qr", tall, [](In x) { return torch::linalg_qr(x[0]); }),
      swept("linalg_svdvals", tall, [](In x) { return torch::linalg_svdvals(x[0]); }).within(1e-5),
      swept("linalg_svd", tall,
            [](In x) {
              const auto [u, s, v] = torch::linalg_svd(x[0], false);
              return Tensors{up_to_sign(u), s, up_to_sign(v)};
            }),
      swept("linalg_eigvalsh", positive_definite, [](In x) { return torch::linalg_eigvalsh(x[0]); }),
      swept("linalg_eigh", positive_definite,
            [](In x) {
              const auto [values, v] = torch::linalg_eigh(x[0]);
              return Tensors{values, up_to_sign(v)};
            }),
      forward("linalg_eig", positive_definite, [](In x) { return std::get<0>(torch::linalg_eig(x[0])); }),
      swept("linalg_pinv", tall, [](In x) { return torch::linalg_pinv(x[0]); }),
      swept("linalg_householder_product", {normal({5, 3}), positive({3})},
            [](In x) { return torch::linalg_householder_product(x[0], x[1]); }),
      swept("ormqr", {normal({5, 3}), positive({3}), normal({5, 2})},
            [](In x) { return torch::ormqr(x[0], x[1], x[2]); }),
      forward("linalg_vander", {normal({4})}, [](In x) { return torch::linalg_vander(x[0]); }),
      forward("linalg_matrix_rank", tall, [](In x) { return torch::linalg_matrix_rank(x[0]); }),
  };
}

SweptOperators fourier_and_complex() {
  return {
      swept("fft_fft", real, [](In x) { return torch::fft_fft(x[0]); }),
      swept("fft_ifft", complex, [](In x) { return torch::fft_ifft(x[0]); }),
      swept("fft_rfft", real, [](In x) { return torch::fft_rfft(x[0]); }),
      swept("fft_irfft", complex, [](In x) { return torch::fft_irfft(x[0]); }),
      swept("fft_fft2", complex, [](In x) { return torch::fft_fft2(x[0]); }),
      swept("fft_rfftn", real, [](In x) { return torch::fft_rfftn(x[0]); }),
      swept("fft_fftshift", real, [](In x) { return torch::fft_fftshift(x[0]); }),
      forward("fft_fftfreq", real, [](In x) { return torch::fft_fftfreq(6, 0.5, x[0].options()); }),
      swept("stft", {normal({64}), positive({16})},
            [](In x) { return torch::stft(x[0], 16, 4, 16, x[1], true, "constant", false, {}, true); }),
      swept("complex", {normal({3}), normal({3})}, [](In x) { return torch::complex(x[0], x[1]); }),
      swept("polar", {positive({3}), normal({3})}, [](In x) { return torch::polar(x[0], x[1]); }),
      swept("real and imag", complex,
            [](In x) {
              return Tensors{torch::real(x[0]), torch::imag(x[1])};
            }),
      swept("view_as_real", complex, [](In x) { return torch::view_as_real(x[0]); }),
      swept("view_as_complex", {normal({3, 2})}, [](In x) { return torch::view_as_complex(x[0]); }),
      swept("conj", complex, [](In x) { return x[0].conj(); }),
      swept("conj, then a product", complex, [](In x) { return x[0].conj() * x[1]; }),
      swept("conj_physical", complex, [](In x) { return x[0].conj_physical(); }),
      swept("resolve_conj", complex, [](In x) { return x[0].conj().resolve_conj(); }),
      swept("imag of conj (resolve_neg)", complex, [](In x) { return torch::imag(x[0].conj()).resolve_neg(); }),
      swept("abs of complex numbers", complex, [](In x) { return x[0].abs(); }),
      swept("angle", complex, [](In x) { return x[0].angle(); }),
      swept("sgn", complex, [](In x) { return x[0].sgn(); }),
      swept("complex product and sum", complex, [](In x) { return x[0] * x[1] + 2; }),
      swept("matmul of complex matrices", complex, [](In x) { return x[0].matmul(x[1].t().conj()); }).within(1e-5),
      swept("sum of complex numbers", complex, [](In x) { return x[0].sum(1); }),
  };
}

}  // namespace reprise::libtorch::test::matrices
