#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of replays and of graphed callables beside Python's: runs reprise_libtorch_benchmarks (its path is the
argument), measures torch.cuda.CUDAGraph and torch.cuda.make_graphed_callables for the same work, and prints both side
by side, with ratios and the limits that the project sets itself. Exits with 1 if a limit is missed. Needs a CUDA
device and torch; both must see the same one."""

import argparse
import os
import re
import statistics
import subprocess
import sys
import time

import torch

SHAPES = [(4, 256, 32), (16, 256, 32), (8, 1024, 64)]
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


def network_of(layers, width):
    parts = []
    for _ in range(layers):
        parts += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts, torch.nn.Linear(width, width)).cuda()


def python_graphed(rounds):
    """{(layers, width, batch): {kind: us}}"""
    figures = {}
    for layers, width, batch in SHAPES:
        x = torch.randn(batch, width, device="cuda")
        gradient = torch.randn(batch, width, device="cuda")

        def stepper(network, from_none):
            parameters = list(network.parameters())

            def step():
                if from_none:
                    for each in parameters:
                        each.grad = None
                network(x).backward(gradient)

            return step

        eager = stepper(network_of(layers, width), True)
        graphed = torch.cuda.make_graphed_callables(network_of(layers, width), (x,))
        figures[layers, width, batch] = {
            "eager": median_us(rounds, eager, STEPS),
            "graphed": median_us(rounds, stepper(graphed, True), STEPS),
            "adding": median_us(rounds, stepper(graphed, False), STEPS),
        }
    return figures


def ours(program, rounds):
    """What the program prints, and its figures in the form of the functions above; graphed: {kind: (us, bare)}."""
    environment = dict(os.environ, REPRISE_DEVICE=f"cuda:{torch.cuda.current_device()}")
    command = [program, "--rounds", str(rounds), "replays", "graphed"]
    text = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    replays, graphed, shape = {}, {}, None
    for line in text.splitlines():
        words = line.split()
        if found := re.match(r"  (\d+) x (\d+), batch (\d+)$", line):
            shape = tuple(int(each) for each in found.groups())
            graphed[shape] = {}
        elif len(words) >= 5 and words[0].isdigit() and words[1] in ("none", "drawn"):
            replays[int(words[0]), words[1]] = tuple(float(words[each]) for each in (2, -1, 3))
        elif shape and len(words) in (2, 4) and re.match(r"[\d.]+$", words[1]):
            graphed[shape][words[0]] = (float(words[1]), float(words[2]) if len(words) == 4 else None)
    return text, replays, graphed


class Limits:
    """Prints what is compared with a limit, and counts what missed it."""

    def __init__(self):
        self.missed = 0

    def text(self, holds, limit):
        self.missed += not holds
        return f"{'' if holds else 'MISSED '}({limit})"


def print_replays(limits, theirs, replays):
    print("\nReplays, the host's part, us")
    print(f"  {'kernels':>7}  {'random':<6} {'bare':>8} {'reprise':>8} {'over bare':>18} {'CUDAGraph':>10} {'Python':>8}")
    for (kernels, kind), (bare, libtorch, mine) in replays.items():
        allowed = 0.05 if kind == "none" else 0.10
        over = mine / bare - 1
        holds = over <= allowed or mine - bare <= 0.060
        print(f"  {kernels:>7}  {kind:<6} {bare:>8.2f} {mine:>8.2f} {100 * over:>+8.1f} % {1e3 * (mine - bare):>+4.0f} ns"
              f" {libtorch:>10.2f} {theirs[kernels, kind]:>8.2f}  {limits.text(holds, f'{allowed:.0%} or 60 ns')}")


def print_graphed(limits, theirs, graphed):
    print("\nForward and backward(g), us a step")
    print(f"  {'network':<20} {'':<20} {'reprise':>8} {'bare':>8} {'ratio':>7} {'':<16} {'Python':>8} {'ratio':>7}")
    for shape, figures in graphed.items():
        name = "{} x {}, batch {}".format(*shape)
        python = theirs[shape]
        for kind, (us, bare) in figures.items():
            beside = python[{"adding": "adding", "eager": "eager"}.get(kind, "graphed")]
            ratio, limit = "", ""
            if bare is not None:
                ratio = f"{us / bare:.3f}"
                most = {"default": 1.1, "accumulate_in_graph": 1.1, "adding": 1.6}.get(kind)
                limit = limits.text(us <= most * bare, f"{most}") if most else ""
            half = ""
            if kind in ("default", "accumulate_in_graph") and shape[1] == 256:
                half = limits.text(us <= 0.55 * beside, "0.55")
            bare_text = "" if bare is None else f"{bare:.1f}"
            print(f"  {name:<20} {kind:<20} {us:>8.1f} {bare_text:>8} {ratio:>7} {limit:<16} {beside:>8.1f}"
                  f" {us / beside:>7.2f} {half}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="reprise_libtorch_benchmarks")
    parser.add_argument("--rounds", type=int, default=20, help="each figure is the median of so many")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("graphed_callables.py: error: torch finds no CUDA device")
    text, replays, graphed = ours(arguments.program, arguments.rounds)
    print(text)
    limits = Limits()
    print_replays(limits, python_replays(arguments.rounds), replays)
    print_graphed(limits, python_graphed(arguments.rounds), graphed)
    print(f"\n{limits.missed} limits missed" if limits.missed else "\nall limits are kept")
    return 1 if limits.missed else 0


if __name__ == "__main__":
    sys.exit(main())
