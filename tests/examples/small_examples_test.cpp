// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <future>
#include <string>
#include <vector>

#include "run_program.h"

namespace reprise::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

class SmallExamples : public testing::Test {
 protected:
  Outcome run(const std::string& program, const std::vector<std::string>& arguments,
              const std::vector<std::string>& environment = {}) const {
    return run_program(program, arguments, folder_.path(), environment);
  }
  /// Bad input is exit code 2, nothing on standard output, and one line on standard error that contains `message`.
  void expect_refused(const Outcome& outcome, const std::string& message) const {
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(": error: "), HasSubstr(message)));
    EXPECT_EQ(count(outcome.err, "\n"), 1u) << outcome.err;
  }

  TemporaryFolder folder_;
};

TEST_F(SmallExamples, MultiStreamGivesTheResultOfTheHostEagerlyAndReplayed) {
  const Outcome outcome = run(MULTI_STREAM, {});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("eager     the same as on the host\n"), HasSubstr("graph     14 nodes\n"),
                                 HasSubstr("replayed  the same as on the host"), Not(HasSubstr("NOT"))));
}

TEST_F(SmallExamples, ConjugateGradientHasOneResultInAllWaysAndDrawsItsConvergence) {
  const Outcome outcome = run(CONJUGATE_GRADIENT, {"--side", "16", "--svg", "convergence.svg"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("bitwise the same in all three ways"), HasSubstr("converged  yes after 2")));
  const std::string svg = read_file(folder_.path() / "convergence.svg");
  EXPECT_THAT(svg, AllOf(HasSubstr("<svg"), HasSubstr("<polyline"), HasSubstr("1e-"), HasSubstr("</svg>")));
  const Outcome stopped = run(CONJUGATE_GRADIENT, {"--side", "16", "--limit", "3"});
  EXPECT_EQ(stopped.exit_code, 1);
  EXPECT_THAT(stopped.out, HasSubstr("converged  NO after 3 iterations"));
  expect_refused(run(CONJUGATE_GRADIENT, {"--side", "16", "--svg", "no/such/folder.svg"}), "cannot write");
}

TEST_F(SmallExamples, EagerPartsChooseTheSameTokensEagerlyAndReplayed) {
  const Outcome outcome = run(EAGER_PARTS, {"--tokens", "12", "--layers", "3"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("graph     2 segments of 8 nodes, 1 eager part\n"),
                                 HasSubstr("captured  the same tokens as eagerly\n"), Not(HasSubstr("NOT"))));
  expect_refused(run(EAGER_PARTS, {"--tokens", "0"}), "--tokens");
}

TEST_F(SmallExamples, BrokenCaptureReportsWhatBrokeItAndFixesIt) {
  const Outcome outcome = run(BROKEN_CAPTURE, {});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("(mode global) was broken after 2 nodes"), HasSubstr("cuStreamSynchronize"),
                                 HasSubstr("read results after a replay"), HasSubstr("broken_capture::first_value"),
                                 HasSubstr("fixed: 1 node, and a replay that is right\n")));
  expect_refused(run(BROKEN_CAPTURE, {"--device", "nothing"}), "--device");
}

TEST_F(SmallExamples, FailWhereTheirOutputIsLost) {
  const std::vector<std::vector<std::string>> commands = {
      {TRAIN_DIGITS, "--help"},       {MULTI_STREAM, "--device=host"},
      {MULTI_STREAM, "--help"},       {CHANGING_INPUTS, "--device=host"},
      {CHANGING_INPUTS, "--help"},    {BROKEN_CAPTURE, "--device=host"},
      {BROKEN_CAPTURE, "--help"},     {CONJUGATE_GRADIENT, "--device=host", "--side", "16"},
      {CONJUGATE_GRADIENT, "--help"}, {MANY_SHAPES, "--device=host", "--lengths", "2", "--rounds", "1"},
      {MANY_SHAPES, "--help"},        {EAGER_PARTS, "--device=host"},
      {EAGER_PARTS, "--help"},        {C_PROGRAM},
#ifdef GRAPHED_CALLABLES
      {GRAPHED_CALLABLES, "--help"},
#endif
#ifdef DATA_PARALLEL
      {DATA_PARALLEL, "--help"},
#endif
#ifdef CUBLAS_MLP
      {CUBLAS_MLP, "--help"},
#endif
#ifdef NCCL_ALLREDUCE
      {NCCL_ALLREDUCE, "--help"},
#endif
  };
  for (const std::vector<std::string>& command : commands) {
    std::vector<std::string> arguments = {"-c", "exec \"$0\" \"$@\" > /dev/full"};
    arguments.insert(arguments.end(), command.begin(), command.end());
    const Outcome outcome = run("/bin/sh", arguments);
    EXPECT_EQ(outcome.exit_code, 1) << command.front();
    EXPECT_THAT(outcome.err, testing::EndsWith(": failed: standard output cannot be written\n")) << command.front();
  }
}

TEST_F(SmallExamples, CProgramReportsABrokenCaptureWithTheNamesOfItsFunctions) {
  const Outcome outcome = run(C_PROGRAM, {});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("cudaErrorStreamCaptureUnsupported (900)"), HasSubstr("main at ")));
}

TEST_F(SmallExamples, MultiStreamWritesAGraphThatForksAndJoins) {
  EXPECT_EQ(run(MULTI_STREAM, {"--dot", "fork.dot"}).exit_code, 0);
  const std::string dot = read_file(folder_.path() / "fork.dot");
  EXPECT_THAT(dot, HasSubstr("digraph"));
  EXPECT_EQ(count(dot, " -> "), 16u);  // 4 from the fork, 8 in the branches, 4 to the join
}

TEST_F(SmallExamples, MultiStreamRunsWithOneBranchAndWithMany) {
  for (const char* branches : {"1", "64"}) {
    const Outcome outcome = run(MULTI_STREAM, {"--branches", branches, "--values", "1"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, Not(HasSubstr("NOT")));
  }
}

TEST_F(SmallExamples, MultiStreamRefusesBadArguments) {
  expect_refused(run(MULTI_STREAM, {"--branches", "0"}), "--branches: Value 0 not in range");
  expect_refused(run(MULTI_STREAM, {"--values", "many"}), "--values");
  expect_refused(run(MULTI_STREAM, {"--device", "abacus"}), "--device: expected the name of a device");
  expect_refused(run(MULTI_STREAM, {"stray"}), "stray");
}

TEST_F(SmallExamples, ChangingInputsGivesTheResultOfTheHostCopiedAndPatched) {
  for (const char* const inputs : {"1", "8"}) {
    const Outcome outcome = run(CHANGING_INPUTS, {"--inputs", inputs, "--values", "100"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("copied    the same as on the host\n"),
                                   HasSubstr("patched   the same as on the host\n"), HasSubstr("us with patches"),
                                   Not(HasSubstr("NOT"))));
  }
}

TEST_F(SmallExamples, ChangingInputsRefusesBadArguments) {
  expect_refused(run(CHANGING_INPUTS, {"--inputs", "0"}), "--inputs: Value 0 not in range");
  expect_refused(run(CHANGING_INPUTS, {"--device", "abacus"}), "--device: expected the name of a device");
}

TEST_F(SmallExamples, ManyShapesServesEachLengthWithTheSameResultInEveryWay) {
  const Outcome outcome = run(MANY_SHAPES, {"--lengths", "12", "--entries", "8", "--rounds", "4", "--layers", "2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.out, " the same as eager"), 4u);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("12 graphs"), HasSubstr("8 graphs"), HasSubstr("2 graphs"),
                                 HasSubstr("recaptures: new key"), Not(HasSubstr("NOT"))));
}

TEST_F(SmallExamples, ManyShapesDrawsTimeAndMemory) {
  EXPECT_EQ(run(MANY_SHAPES, {"--lengths", "3", "--rounds", "1", "--svg", "shapes.svg"}).exit_code, 0);
  const std::string svg = read_file(folder_.path() / "shapes.svg");
  EXPECT_THAT(svg, AllOf(HasSubstr("<svg"), HasSubstr("padded"), HasSubstr("</svg>")));
  EXPECT_EQ(count(svg, "<rect"), 9u);  // the ground, and two for each of four
}

TEST_F(SmallExamples, ManyShapesRefusesBadArguments) {
  expect_refused(run(MANY_SHAPES, {"--lengths", "0"}), "--lengths");
  expect_refused(run(MANY_SHAPES, {"--device", "abacus"}), "--device: expected the name of a device");
  EXPECT_EQ(run(MANY_SHAPES, {"--lengths", "2", "--rounds", "1", "--svg", "no/such/folder.svg"}).exit_code, 1);
}

#ifdef GRAPHED_CALLABLES
TEST_F(SmallExamples, GraphedCallablesTrainToTheSameLossEagerlyAndGraphed) {
  const Outcome outcome = run(GRAPHED_CALLABLES, {"--device", "host", "--steps", "8"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("device     reprise:0\n"),
                                 HasSubstr("graphed    the same loss, to the last bit, in every step\n"),
                                 HasSubstr("rows that it was not captured for"), Not(HasSubstr("NOT"))));
}

TEST_F(SmallExamples, GraphedCallablesRefuseBadArguments) {
  expect_refused(run(GRAPHED_CALLABLES, {"--device", "abacus"}), "--device: expected the name of a device");
  expect_refused(run(GRAPHED_CALLABLES, {"--steps", "0"}), "--steps");
}
#endif

#ifdef WHOLE_NETWORK
TEST_F(SmallExamples, WholeNetworkTrainsToTheSameParametersEagerlyAndReplayed) {
  for (const char* const precision : {"float32", "float16"}) {
    const Outcome outcome = run(WHOLE_NETWORK, {"--device", "host", "--precision", precision});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr(std::string("AdamW in ") + precision + ": a graph of "),
                                   HasSubstr("graphed    the same losses and parameters, to the last bit, as eager\n"),
                                   Not(HasSubstr("NOT"))));
  }
}

TEST_F(SmallExamples, WholeNetworkSkipsTheSameStepsEagerlyAndReplayed) {
  const Outcome outcome = run(WHOLE_NETWORK, {"--device", "host", "--precision", "float16"});
  const std::size_t at = outcome.out.find("scale ");
  ASSERT_NE(at, std::string::npos) << outcome.out << outcome.err;
  double scale = 0;
  int replayed = 0, eager = -1;
  ASSERT_EQ(std::sscanf(outcome.out.c_str() + at, "scale %lf in the end; %d steps were skipped, eagerly %d", &scale,
                        &replayed, &eager),
            3)
      << outcome.out;
  EXPECT_GT(replayed, 0);  // the scale grows until gradients overflow
  EXPECT_EQ(replayed, eager);
}

TEST_F(SmallExamples, WholeNetworkRefusesBadArguments) {
  expect_refused(run(WHOLE_NETWORK, {"--device", "abacus"}), "--device: expected the name of a device");
  expect_refused(run(WHOLE_NETWORK, {"--precision", "int8"}), "--precision");
  expect_refused(run(WHOLE_NETWORK, {"--steps", "0"}), "--steps");
}
#endif

#ifdef TRAIN_TRANSFORMER
TEST_F(SmallExamples, TrainTransformerHasTheSameLossEagerlyAndGraphedAndDrawsIt) {
  const Outcome outcome = run(TRAIN_TRANSFORMER, {"--device", "host", "--steps", "60", "--svg", "loss.svg"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("step       one graph of "),
                                 HasSubstr("graphed    the same loss as eager, to the last bit, in every step\n"),
                                 HasSubstr(" characters (tokens) a second eager, "), HasSubstr("writes     the "),
                                 HasSubstr(" are of the grammar\n"), Not(HasSubstr("NOT"))));
  const std::string svg = read_file(folder_.path() / "loss.svg");
  EXPECT_THAT(svg,
              AllOf(HasSubstr("<svg"), HasSubstr("loss, graphed"), HasSubstr("learning rate"), HasSubstr("</svg>")));
  EXPECT_EQ(count(svg, "<polyline"), 3u);
}

TEST_F(SmallExamples, TrainTransformerTrainsASmallerModelWithoutDropoutForOneStep) {
  const Outcome outcome =
      run(TRAIN_TRANSFORMER, {"--device", "host", "--steps", "1", "--blocks", "1", "--width", "8", "--heads", "1",
                              "--context", "4", "--rows", "1", "--dropout", "0", "--sample", "0"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("1 blocks of width 8"), HasSubstr("to the last bit"), Not(HasSubstr("writes"))));
}

TEST_F(SmallExamples, TrainTransformerRefusesBadArguments) {
  expect_refused(run(TRAIN_TRANSFORMER, {"--device", "abacus"}), "--device: expected the name of a device");
  expect_refused(run(TRAIN_TRANSFORMER, {"--device", "host", "--heads", "3"}),
                 "--width: 32 is no multiple of the 3 heads");
  expect_refused(run(TRAIN_TRANSFORMER, {"--steps", "0"}), "--steps");
  expect_refused(run(TRAIN_TRANSFORMER, {"--svg", "no/such/folder.svg"}), "cannot write");
}
#endif

#ifdef DATA_PARALLEL
// What follows the losses: the parameters, which must be the same on all ranks.
std::string parameters_of(const Outcome& outcome) {
  const std::size_t at = outcome.out.find("parameters add up to ");
  return at != std::string::npos ? outcome.out.substr(at) : "none; " + outcome.err;
}

TEST_F(SmallExamples, DataParallelTrainsToTheSameParametersInTwoProcesses) {
  // A port of no other test: launchers choose one that is free.
  const std::string port = "MASTER_PORT=" + std::to_string(20000 + getpid() % 9000);
  const auto rank = [&](const char* number) {
    return run(DATA_PARALLEL_ON_HOSTS, {"--device", "host", "--steps", "20"},
               {std::string("RANK=") + number, std::string("LOCAL_RANK=") + number, "WORLD_SIZE=2",
                "MASTER_ADDR=127.0.0.1", port});
  };
  auto other = std::async(std::launch::async, rank, "1");
  const Outcome first = rank("0"), second = other.get();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(first.out, HasSubstr("rank 0 of 2 on reprise:0: loss "));
  EXPECT_THAT(second.out, HasSubstr("rank 1 of 2 on reprise:0: loss "));
  EXPECT_THAT(parameters_of(first), HasSubstr("add up to"));
  EXPECT_EQ(parameters_of(first), parameters_of(second));
}

TEST_F(SmallExamples, DataParallelTrainsAloneOrSaysWhatItLooksFor) {
  const std::vector<std::string> alone = {"RANK=0", "WORLD_SIZE=1"};
  const Outcome outcome = run(DATA_PARALLEL, {"--device", "host", "--steps", "20"}, alone);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("rank 0 of 1 on reprise:0: loss "));
  const Outcome without = run(DATA_PARALLEL, {"--device", "host"});
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.err, HasSubstr("RANK is not set"));
}
#endif

#ifdef CUBLAS_MLP
TEST_F(SmallExamples, CublasSaysThatItNeedsACudaDevice) {
  const std::vector<std::string> no_gpu = {"CUDA_VISIBLE_DEVICES="};
  expect_refused(run(CUBLAS_MLP, {}, no_gpu), "cuBLAS runs on CUDA devices only, not on the simulated host device");
  expect_refused(run(CUBLAS_MLP, {"--device", "host"}), "cuBLAS");
}
#endif

#ifdef NCCL_ALLREDUCE
TEST_F(SmallExamples, NcclSaysThatItNeedsACudaDevice) {
  expect_refused(run(NCCL_ALLREDUCE, {}, {"CUDA_VISIBLE_DEVICES="}), "NCCL runs on CUDA devices only");
  expect_refused(run(NCCL_ALLREDUCE, {"--values", "0"}), "--values: Value 0 not in range");
}
#endif

}  // namespace
}  // namespace reprise::test
