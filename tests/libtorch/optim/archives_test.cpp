// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include "tests/libtorch/optim/optim_fixture.h"

// Archives of captured optimizers, which those of torch::optim read and write.

namespace reprise::libtorch::test {
namespace {

using torch::optim::AdamOptions;
using torch::optim::SGDOptions;

template <class Optimizer>
std::string saved(const Optimizer& optimizer) {
  std::ostringstream out;
  torch::save(optimizer, out);
  return out.str();
}

template <class Optimizer>
void load(const std::string& archive, Optimizer& optimizer) {
  std::istringstream in(archive);
  torch::load(optimizer, in);
}

void copy(const std::vector<Tensor>& from, const std::vector<Tensor>& to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i].detach().copy_(from[i].detach());
}

TEST_F(CapturedOptimizers, AreReadByThoseOfTorchAndGoOnAsThey) {
  const Parameters found = make_parameters(), expected = make_parameters();
  optim::Adam own(found, AdamOptions(0.01).amsgrad(true));
  capture_step(own);
  replay(found, 0, 5);
  torch::optim::Adam torchs(expected, AdamOptions(0.5));
  load(saved(own), torchs);
  copy(found, expected);
  const auto& state = static_cast<torch::optim::AdamParamState&>(*torchs.state().at(expected[0].unsafeGetTensorImpl()));
  EXPECT_EQ(state.step(), 5);
  EXPECT_EQ(torchs.param_groups()[0].options().get_lr(), 0.01);
  train(torchs, expected, 5, 10);
  replay(found, 5, 10);
  expect_close(found, expected);
}

TEST_F(CapturedOptimizers, ReadThoseOfTorchIntoTheStateThatTheirGraphUses) {
  const Parameters found = make_parameters(), expected = make_parameters();
  torch::optim::Adam torchs(expected, AdamOptions(0.01));
  optim::Adam own(found, AdamOptions(0.5));
  capture_step(own);
  replay(found, 0, 3);
  train(torchs, expected, 0, 5);
  load(saved(torchs), own);  // with the learning rate
  copy(expected, found);
  train(torchs, expected, 5, 10);
  replay(found, 5, 10);
  expect_close(found, expected);
}

TEST_F(CapturedOptimizers, OfSgdExchangeArchivesToTheLastBit) {
  for (const double dampening : {0.0, 0.3}) {
    const auto options = SGDOptions(0.1).momentum(0.9).dampening(dampening);
    for (const int before : {0, 3}) {
      const Parameters first = make_parameters(), second = make_parameters(), third = make_parameters();
      torch::optim::SGD torchs(first, options), after(third, options);
      optim::SGD own(second, options);
      capture_step(own);
      train(torchs, first, 0, before);
      replay(second, 0, 2);
      load(saved(torchs), own);
      copy(first, second);
      load(saved(own), after);
      copy(first, third);
      train(torchs, first, before, 6);
      replay(second, before, 6);
      train(after, third, before, 6);
      expect_same(second, first);
      expect_same(third, first);
    }
  }
}

TEST_F(CapturedOptimizers, RefuseArchivesOfOtherParametersAndChangeNothing) {
  const Parameters found = make_parameters(), expected = make_parameters();
  optim::SGD own(found, SGDOptions(0.1).momentum(0.9)), eager(expected, SGDOptions(0.1).momentum(0.9));
  Tensor larger = torch::zeros({134}, device_).requires_grad_();
  larger.mutable_grad() = torch::ones_like(larger);
  torch::optim::SGD other({larger, make_parameters()[1], make_parameters()[2]}, SGDOptions(0.7).momentum(0.9));
  other.step();
  EXPECT_THAT(refusal([&] { load(saved(other), own); }),
              ::testing::HasSubstr("the archive has a state of the size [134] for parameter 0 of group 0"));
  torch::optim::SGD fewer({larger}, SGDOptions(0.7));
  EXPECT_THROW(load(saved(fewer), own), c10::Error);
  train(own, found, 0, 3);
  train(eager, expected, 0, 3);
  expect_same(found, expected);
}

}  // namespace
}  // namespace reprise::libtorch::test
