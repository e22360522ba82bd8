// SPDX-License-Identifier: Apache-2.0
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "doctor_command.h"
#include "explain_command.h"
#include "reprise/version.h"

// The command `reprise`.

namespace {

constexpr const char* explain_text =
    "Runs a program, and reports each of its captures of CUDA streams that failed or left work out: the call that did "
    "it, its stack, the rule, and what to do instead. Any program of CUDA: in C++, a Python script with PyTorch, one "
    "that uses reprise. What it prints and its exit code stay as they are.";
constexpr const char* explain_example = R"(The program and its arguments come after --. Example:
  reprise explain -- python3 train.py --epochs 1
  reprise explain --output captures.txt -- ./solver

Each call of CUDA is watched through CUPTI meanwhile, so that the program is slower, and profilers of CUDA do not work
in it.)";

constexpr const char* doctor_text =
    "Prints what reprise finds on this machine: driver, devices, CUPTI, torch, and for which architectures its "
    "own kernels were compiled; which variables REPRISE_* are set; and for each thing that is missing, why, "
    "and what it disables.";
constexpr const char* doctor_example =
    "Exit code: 0 if there is a usable GPU, 1 if there are host devices alone, 2 if a GPU or its driver is broken or\n"
    "does not fit.";

// The parser is not passed what follows --.
struct ExplainHelp : CLI::Formatter {
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    while (!usage.empty() && usage.back() == '\n') usage.pop_back();
    return usage + " -- PROGRAM [ARGUMENTS...]\n";
  }
};

// Exit codes of sysexits.h: those of `doctor`, and of most programs that `explain` runs, are smaller.
constexpr int wrong_arguments = 64;
constexpr int failed = 70;

int usage_error(const std::string& text) {
  std::fprintf(stderr, "reprise: error: %s\n", text.c_str());
  return wrong_arguments;
}

// The texts of CLI11 do not say what there is instead.
int refuse(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const std::vector<std::string> rest = app.remaining(true);
  const std::string found = rest.empty() ? "none" : '"' + rest.front() + '"';
  if (chosen.empty())
    return usage_error("expected a command, explain or doctor; found " + found + "; reprise --help says what they do");
  const std::string name = "reprise " + chosen.front()->get_name();
  if (rest.empty()) return usage_error(error.what() + ("; " + name + " --help lists the options"));
  const char* const or_program = chosen.front()->get_name() == "explain" ? ", or -- before the program" : "";
  return usage_error("expected an option of " + name + or_program + "; found " + found + "; " + name +
                     " --help lists them");
}

int run(int argc, char** argv) {
  CLI::App app("Tools for CUDA graphs.", "reprise");
  app.set_version_flag("--version", "reprise " REPRISE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n  reprise explain -- python3 train.py --epochs 1\n  reprise doctor\n\n`reprise explain --help` says "
      "more.\n\nExit code: 64 if the arguments are wrong, 70 if the command itself fails; others as each command has "
      "them.");
  reprise::tools::ExplainOptions options;
  CLI::App* const explain = app.add_subcommand("explain", explain_text);
  explain->add_option("--output", options.output, "Writes the reports into a file instead of standard error")
      ->type_name("FILE");
  explain->add_flag("--all", options.all, "Reports the captures that went well, too");
  explain->footer(explain_example);
  explain->formatter(std::make_shared<ExplainHelp>());
  CLI::App* const doctor = app.add_subcommand("doctor", doctor_text);
  doctor->footer(doctor_example);
  // Arguments after -- belong to the program.
  char** const end = argv + argc;
  char** const separator = std::find_if(argv, end, [](const char* one) { return std::string(one) == "--"; });
  try {
    app.parse(static_cast<int>(separator - argv), argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::CallForVersion& version) {
    std::printf("%s\n", version.what());
    return 0;
  } catch (const CLI::ParseError& error) {
    return refuse(app, error);
  }
  if (doctor->parsed()) {
    if (separator != end) return usage_error("reprise doctor runs no program; found --; remove it and what follows");
    return reprise::tools::doctor();
  }
  if (separator == end || separator + 1 == end)
    return usage_error("expected -- and a program; found none; write reprise explain -- PROGRAM ARGUMENTS...");
  options.command.assign(separator + 1, end);
  return reprise::tools::explain(options);
}

// Output that is lost, as on a full disk, is a failure.
int or_lost_output(int exit_code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  std::fputs("reprise: error: standard output cannot be written\n", stderr);
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return or_lost_output(run(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprise: failed: %s\n", error.what());
    return failed;
  }
}
