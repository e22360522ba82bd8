#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of replays, of graphed callables and of whole training steps beside Python's: runs
reprise_libtorch_benchmarks (its path is the argument), measures torch.cuda.CUDAGraph and
torch.cuda.make_graphed_callables for the same work, and prints both side by side, with ratios and the limits that the
project sets itself; --json writes all figures to a file, as the program does. A part that fails is named; the others go
on, and the file has what they measured. Exits with 1 if a part failed or a limit is missed. Needs a CUDA device and
torch; both must see the same one."""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

import torch

STEPS = 50  # before the host waits, as in networks.cpp
PARTS = ("replays", "graphed", "steps", "allocator")  # of the program
PART_LIMIT_S = 150


def median_us(rounds, call, calls):
    """What a call takes from its beginning until the device is done, over many calls."""
    figures = []
    for i in range(rounds + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        if i > 0:  # the first one warms up
            figures.append(1e6 * (time.perf_counter() - begin) / calls)
    return statistics.median(figures)


def submit_us(rounds, call):
    """What handing it over takes the host, in bursts that the stream has time for, as in submit.cpp."""
    figures = []
    for i in range(rounds + 1):
        total = 0.0
        for _ in range(50):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(20):
                call()
            total += time.perf_counter() - begin
        if i > 0:
            figures.append(1e6 * total / 50 / 20)
    torch.cuda.synchronize()
    return statistics.median(figures)


def python_replays(rounds):
    """{(kernels, kind): us}"""
    x = torch.zeros(256, device="cuda")
    figures = {}
    for kernels in (1, 10, 100):
        for kind, work in (("none", lambda: x.add_(1)), ("drawn", lambda: x.uniform_())):
            work()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(kernels):
                    work()
            figures[kernels, kind] = submit_us(rounds, graph.replay)
    return figures


def perceptron(layers, width):
    parts = []
    for _ in range(layers):
        parts += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts, torch.nn.Linear(width, width))


def convolutions():
    def convolution(inputs, outputs):
        return torch.nn.Conv2d(inputs, outputs, 3, stride=2, padding=1)

    relu, parts = torch.nn.ReLU, torch.nn.Sequential
    return parts(convolution(3, 32), relu(), convolution(32, 64), relu(), convolution(64, 128), relu(),
                 torch.nn.Flatten(), torch.nn.Linear(2048, 10))


# As in networks.cpp, which has the same names.
NETWORKS = {
    "4 x 256, batch 32": (lambda: perceptron(4, 256), (32, 256)),
    "16 x 256, batch 32": (lambda: perceptron(16, 256), (32, 256)),
    "8 x 1024, batch 64": (lambda: perceptron(8, 1024), (64, 1024)),
    "3 convolutions, batch 32": (convolutions, (32, 3, 32, 32)),
    "transformer block, 64 x 8 x 256": (lambda: torch.nn.TransformerEncoderLayer(256, 4, 1024, 0.0), (64, 8, 256)),
}
# As in steps.cpp.
NETWORKS_OF_STEPS = ("4 x 256, batch 32", "3 convolutions, batch 32", "transformer block, 64 x 8 x 256")


def python_graphed(rounds):
    """{network: {kind: us}}"""
    figures = {}
    for name, (make, shape) in NETWORKS.items():
        x = torch.randn(shape, device="cuda")
        network = make().cuda()
        gradient = torch.randn_like(network(x))

        def stepper(network, from_none):
            parameters = list(network.parameters())

            def step():
                if from_none:
                    for each in parameters:
                        each.grad = None
                network(x).backward(gradient)

            return step

        eager = stepper(network, True)
        graphed = torch.cuda.make_graphed_callables(make().cuda(), (x,))
        figures[name] = {
            "eager": median_us(rounds, eager, STEPS),
            "graphed": median_us(rounds, stepper(graphed, True), STEPS),
            "adding": median_us(rounds, stepper(graphed, False), STEPS),
        }
    return figures


class Training:
    """A network, its optimizer, and two batches that steps take in turns, as in steps.cpp."""

    def __init__(self, make, shape):
        self.network = make().cuda()
        self.batches = []
        with torch.no_grad():
            for _ in range(2):
                x = torch.randn(shape, device="cuda")
                self.batches.append((x, torch.randn_like(self.network(x))))
        rate = torch.tensor(1e-4, device="cuda")
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=rate, fused=True, capturable=True)
        self.turn = 0

    def next_batch(self):
        self.turn += 1
        return self.batches[self.turn % len(self.batches)]

    def train(self, x, target):
        torch.nn.functional.mse_loss(self.network(x), target).backward()
        self.optimizer.step()

    def step(self):
        self.optimizer.zero_grad()
        self.train(*self.next_batch())

    def captured(self):
        """The whole step as one graph, as in PyTorch's notes on CUDA graphs."""
        x, target = (each.clone() for each in self.batches[0])
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.optimizer.zero_grad()
                self.train(x, target)
        torch.cuda.current_stream().wait_stream(stream)
        self.optimizer.zero_grad()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.train(x, target)

        def step():
            for static, new in zip((x, target), self.next_batch()):
                static.copy_(new)
            graph.replay()

        return step


def python_steps(rounds, name):
    """{kind: us} of one of NETWORKS"""
    make, shape = NETWORKS[name]
    graphed = Training(make, shape)
    # Captured in training mode, with the input that it is called with.
    graphed.network = torch.cuda.make_graphed_callables(graphed.network, (graphed.batches[0][0].clone(),))
    return {
        "eager": median_us(rounds, Training(make, shape).step, STEPS),
        "graphed callables": median_us(rounds, graphed.step, STEPS),
        "captured": median_us(rounds, Training(make, shape).captured(), STEPS),
    }


class Report:
    """The figures so far, in the file after each part, and the parts that failed."""

    def __init__(self, path):
        self.path = path
        self.results = {"torch": torch.__version__, "python": sys.version.split()[0], "tables": [], "failed": []}

    def save(self):
        if self.path:
            with open(self.path, "w", encoding="utf-8") as file:
                json.dump(self.results, file, indent=1)

    def failed(self, part, error):
        print(f"FAILED: {part}: {error}", flush=True)
        self.results["failed"].append({"part": part, "error": error})
        self.save()

    def attempt(self, part, function, *arguments):
        """The result of a part; {} if it fails."""
        try:
            return function(*arguments)
        except Exception as error:  # whatever it is: the other parts go on
            traceback.print_exc()
            self.failed(part, str(error).split("\n", 1)[0])
            return {}

    def run_program(self, program, rounds, part):
        """Adds what the program measures of one benchmark, in a process of its own."""
        environment = dict(os.environ, REPRISE_DEVICE=f"cuda:{torch.cuda.current_device()}")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "figures.json")
            command = [program, "--rounds", str(rounds), "--json", path, part]
            status = subprocess.run(command, env=environment, timeout=PART_LIMIT_S, check=False).returncode
            if not os.path.exists(path):
                raise RuntimeError(f"exit code {status}, and no figures")
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
        for key, value in found.items():
            if key in ("tables", "failed"):
                self.results[key] += value
            else:
                self.results[key] = value
        self.save()
        return found

    def rows_of(self, name):
        return next((table["rows"] for table in self.results["tables"] if table["name"] == name), [])

    def add_table(self, name, title, columns, rows):
        self.results["tables"].append({"name": name, "title": title, "rows": rows, "columns": [
            {"name": each, "unit": unit, "digits": digits} for each, unit, digits in columns]})
        self.save()


class Limits:
    """Prints what is compared with a limit, and counts what missed it."""

    def __init__(self):
        self.missed = 0

    def text(self, holds, limit):
        self.missed += not holds
        return f"{'' if holds else 'MISSED '}({limit})"


def print_replays(limits, theirs, rows):
    print("\nReplays, the host's part, us")
    print(f"  {'kernels':>7}  {'random':<6} {'bare':>8} {'reprise':>8} {'over bare':>18} {'CUDAGraph':>10} {'Python':>8}")
    for kernels, kind, bare, mine, _, _, _, libtorch in rows:
        beside = theirs.get((kernels, kind))
        allowed = 0.05 if kind == "none" else 0.10
        over = mine / bare - 1
        holds = over <= allowed or mine - bare <= 0.060
        print(f"  {kernels:>7.0f}  {kind:<6} {bare:>8.2f} {mine:>8.2f} {100 * over:>+8.1f} % {1e3 * (mine - bare):>+4.0f} ns"
              f" {libtorch or math.nan:>10.2f} {beside or math.nan:>8.2f}  {limits.text(holds, f'{allowed:.0%} or 60 ns')}")


def print_graphed(limits, theirs, rows):
    print("\nForward and backward(g), us a step")
    print(f"  {'network':<32} {'':<20} {'reprise':>8} {'bare':>8} {'ratio':>7} {'':<16} {'Python':>8} {'ratio':>7}")
    for name, kind, us, bare, _ in rows:
        beside = theirs.get(name, {}).get(kind if kind in ("adding", "eager") else "graphed", math.nan)
        ratio, limit = "", ""
        if bare is not None:
            ratio = f"{us / bare:.3f}"
            most = {"default": 1.1, "adding": 1.6}.get(kind)
            limit = limits.text(us <= most * bare, f"{most}") if most else ""
        half = ""
        if kind == "default" and " x 256, " in name:
            # Where the device needs more than half of Python's time, nothing but the bare launches is a limit.
            half = limits.text(us <= max(0.55 * beside, 1.1 * bare), "0.55, or 1.1 of bare")
        bare_text = "" if bare is None else f"{bare:.1f}"
        print(f"  {name:<32} {kind:<20} {us:>8.1f} {bare_text:>8} {ratio:>7} {limit:<16} {beside:>8.1f}"
              f" {us / beside:>7.2f} {half}")


def print_steps(limits, theirs, rows):
    print("\nTraining steps, us")
    print(f"  {'network':<32} {'':<20} {'reprise':>8} {'bare':>8} {'ratio':>7} {'':<8} {'Python':>8} {'ratio':>7}")
    for name, kind, us, bare, _ in rows:
        beside = theirs.get(name, {}).get("captured" if kind == "graphed_step" else kind, math.nan)
        bare_text, ratio, limit = "", "", ""
        if bare is not None:
            bare_text, ratio, limit = f"{bare:.1f}", f"{us / bare:.3f}", limits.text(us <= 1.05 * bare, 1.05)
        print(f"  {name:<32} {kind:<20} {us:>8.1f} {bare_text:>8} {ratio:>7} {limit:<8} {beside:>8.1f}"
              f" {us / beside:>7.2f}")


def rows_of_kinds(figures):
    return [[name, kind, us] for name, kinds in figures.items() for kind, us in kinds.items()]


def measure_python(report, rounds):
    """Python's figures: of replays, of graphed callables, of steps."""
    replays = report.attempt("Python's replays", python_replays, rounds)
    report.add_table("python_replays", "Replays of torch.cuda.CUDAGraph, the host's part",
                     [("kernels", "", 0), ("random", "", 0), ("replay", "us", 2)],
                     [[*key, us] for key, us in replays.items()])
    step_of_network = [("network", "", 0), ("", "", 0), ("step", "us", 1)]
    graphed = report.attempt("Python's graphed callables", python_graphed, rounds)
    report.add_table("python_graphed",
                     "Forward and backward(g) in Python, eager and with torch.cuda.make_graphed_callables",
                     step_of_network, rows_of_kinds(graphed))
    steps = {name: report.attempt(f"Python's steps, {name}", python_steps, rounds, name) for name in NETWORKS_OF_STEPS}
    report.add_table("python_steps",
                     "A training step in Python: eager, with torch.cuda.make_graphed_callables, and captured as a whole "
                     "by torch.cuda.graph", step_of_network, rows_of_kinds(steps))
    return replays, graphed, steps


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="reprise_libtorch_benchmarks")
    parser.add_argument("--rounds", type=int, default=20, help="each figure is the median of so many")
    parser.add_argument("--json", help="a file for all figures")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("graphed_callables.py: error: torch finds no CUDA device")
    report = Report(arguments.json)
    for part in PARTS:
        report.attempt(part, report.run_program, arguments.program, arguments.rounds, part)
    replays, graphed, steps = measure_python(report, arguments.rounds)
    limits = Limits()
    for show, theirs, ours in ((print_replays, replays, "tensor_replays"), (print_graphed, graphed, "graphed"),
                               (print_steps, steps, "steps")):
        report.attempt(f"the comparison of {ours}", show, limits, theirs, report.rows_of(ours))
    failures = [each["part"] for each in report.results["failed"]]
    print(f"\n{limits.missed} limits missed" if limits.missed else "\nall limits are kept")
    if failures:
        print(f"but {len(failures)} parts failed: {'; '.join(failures)}")
    return 1 if limits.missed or failures else 0


if __name__ == "__main__":
    sys.exit(main())
