#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of replays and of graphed callables beside Python's: runs reprise_libtorch_benchmarks (its path is the
argument), measures torch.cuda.CUDAGraph and torch.cuda.make_graphed_callables for the same work, and prints both side
by side, with ratios and the limits that the project sets itself; --json writes all figures to a file, as the program does.
Exits with 1 if a limit is missed. Needs a CUDA device and torch; both must see the same one."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch

STEPS = 50  # before the host waits, as in graphed.cpp


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


# As in graphed.cpp, which has the same names.
NETWORKS = {
    "4 x 256, batch 32": (lambda: perceptron(4, 256), (32, 256)),
    "16 x 256, batch 32": (lambda: perceptron(16, 256), (32, 256)),
    "8 x 1024, batch 64": (lambda: perceptron(8, 1024), (64, 1024)),
    "3 convolutions, batch 32": (convolutions, (32, 3, 32, 32)),
    "transformer block, 64 x 8 x 256": (lambda: torch.nn.TransformerEncoderLayer(256, 4, 1024, 0.0), (64, 8, 256)),
}


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


def ours(program, rounds):
    """What the program writes to its JSON file."""
    environment = dict(os.environ, REPRISE_DEVICE=f"cuda:{torch.cuda.current_device()}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "figures.json")
        command = [program, "--rounds", str(rounds), "--json", path, "replays", "graphed", "allocator"]
        subprocess.run(command, env=environment, check=True)
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def rows_of(results, name):
    return next(table["rows"] for table in results["tables"] if table["name"] == name)


def table(name, title, columns, rows):
    return {"name": name, "title": title, "columns": [{"name": each, "unit": unit, "digits": digits}
                                                      for each, unit, digits in columns], "rows": rows}


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
        allowed = 0.05 if kind == "none" else 0.10
        over = mine / bare - 1
        holds = over <= allowed or mine - bare <= 0.060
        print(f"  {kernels:>7.0f}  {kind:<6} {bare:>8.2f} {mine:>8.2f} {100 * over:>+8.1f} % {1e3 * (mine - bare):>+4.0f} ns"
              f" {libtorch:>10.2f} {theirs[kernels, kind]:>8.2f}  {limits.text(holds, f'{allowed:.0%} or 60 ns')}")


def print_graphed(limits, theirs, rows):
    print("\nForward and backward(g), us a step")
    print(f"  {'network':<32} {'':<20} {'reprise':>8} {'bare':>8} {'ratio':>7} {'':<16} {'Python':>8} {'ratio':>7}")
    for name, kind, us, bare, _ in rows:
        beside = theirs[name][kind if kind in ("adding", "eager") else "graphed"]
        ratio, limit = "", ""
        if bare is not None:
            ratio = f"{us / bare:.3f}"
            most = {"default": 1.1, "accumulate_in_graph": 1.1, "adding": 1.6}.get(kind)
            limit = limits.text(us <= most * bare, f"{most}") if most else ""
        half = ""
        if kind in ("default", "accumulate_in_graph") and " x 256, " in name:
            # Where the device needs more than half of Python's time, nothing but the bare launches is a limit.
            half = limits.text(us <= max(0.55 * beside, 1.1 * bare), "0.55, or 1.1 of bare")
        bare_text = "" if bare is None else f"{bare:.1f}"
        print(f"  {name:<32} {kind:<20} {us:>8.1f} {bare_text:>8} {ratio:>7} {limit:<16} {beside:>8.1f}"
              f" {us / beside:>7.2f} {half}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="reprise_libtorch_benchmarks")
    parser.add_argument("--rounds", type=int, default=20, help="each figure is the median of so many")
    parser.add_argument("--json", help="a file for all figures")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("graphed_callables.py: error: torch finds no CUDA device")
    results = ours(arguments.program, arguments.rounds)
    replays, graphed = python_replays(arguments.rounds), python_graphed(arguments.rounds)
    limits = Limits()
    print_replays(limits, replays, rows_of(results, "tensor_replays"))
    print_graphed(limits, graphed, rows_of(results, "graphed"))
    print(f"\n{limits.missed} limits missed" if limits.missed else "\nall limits are kept")
    if arguments.json:
        results["torch"] = torch.__version__
        results["python"] = sys.version.split()[0]
        results["tables"] += [
            table("python_replays", "Replays of torch.cuda.CUDAGraph, the host's part",
                  [("kernels", "", 0), ("random", "", 0), ("replay", "us", 2)],
                  [[*key, us] for key, us in replays.items()]),
            table("python_graphed", "Forward and backward(g) in Python, eager and with torch.cuda.make_graphed_callables",
                  [("network", "", 0), ("", "", 0), ("step", "us", 1)],
                  [[name, kind, us] for name, kinds in graphed.items() for kind, us in kinds.items()]),
        ]
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    return 1 if limits.missed else 0


if __name__ == "__main__":
    sys.exit(main())
