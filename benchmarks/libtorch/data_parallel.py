#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data parallel training steps in graphs, beside Python's DistributedDataParallel captured the same way: runs
reprise_data_parallel_steps (its path is the argument), and measures both in turns, round by round, with the same step
without reductions, which none can be faster than. Prints medians and the limit that the project sets itself; --json
writes the figures to a file. Exits with 1 if the limit is missed. Started on a machine with two GPUs or more, a process
for each:

    torchrun --nproc-per-node=2 benchmarks/libtorch/data_parallel.py build/gpu/bin/reprise_data_parallel_steps"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist

from graphed_callables import perceptron

# {name: (layers, width, rows of each rank)}
NETWORKS = {"12 x 1024, batch 512": (12, 1024, 512), "4 x 4096, batch 256": (4, 4096, 256)}
WARM_UPS = 11  # what PyTorch's notes on CUDA graphs require
FLOOR, DDP, DDP_VIEWS, OURS = "without reductions", "DDP", "DDP, gradient_as_bucket_view", "reprise"


class PythonStep:
    """The whole step as one graph, as in PyTorch's notes on CUDA graphs."""

    def __init__(self, layers, width, rows, device, **options):
        x, target = (torch.randn(rows, width, device=device) for _ in range(2))
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            network = perceptron(layers - 1, width).to(device)
            self.network = torch.nn.parallel.DistributedDataParallel(network, device_ids=[device.index], **options)
            rate = torch.tensor(1e-4, device=device)
            self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=rate, fused=True, capturable=True)
            for _ in range(WARM_UPS):
                self.optimizer.zero_grad()
                self.train(x, target)
        torch.cuda.current_stream().wait_stream(stream)
        self.optimizer.zero_grad()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):  # that of the nodes which accumulate gradients
            self.train(x, target)

    def train(self, x, target):
        torch.nn.functional.mse_loss(self.network(x), target).backward()
        self.optimizer.step()

    def measure(self, steps):
        def run(times):
            for _ in range(times):
                self.graph.replay()
            torch.cuda.synchronize()

        run(3)
        begin = time.perf_counter()
        run(steps)
        return 1e6 * (time.perf_counter() - begin) / steps


class Program:
    """The same step of reprise, in a process beside this one, with a store of its own."""

    def __init__(self, path):
        environment = dict(os.environ, MASTER_PORT=str(int(os.environ["MASTER_PORT"]) + 1))
        environment.pop("TORCHELASTIC_USE_AGENT_STORE", None)
        self.process = subprocess.Popen([path], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)

    def request(self, line):
        self.process.stdin.write(line + "\n")
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"data_parallel.py: error: the program ended at \"{line}\", with {self.process.wait()}")
        return answer.strip()

    def make(self, layers, width, rows, bucket_bytes):
        number = self.request(f"make {layers} {width} {rows} {bucket_bytes}").split()[1]
        return lambda steps: float(self.request(f"measure {number} {steps}"))

    def end(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            sys.exit(f"data_parallel.py: error: the program ended with {self.process.returncode}")


def of_slowest(us, device):
    found = torch.tensor(us, device=device)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return found.item()


def medians(sides, arguments, device):
    """{side: us}. The order changes from round to round."""
    names, found = list(sides), {name: [] for name in sides}
    for i in range(arguments.rounds + 1):
        for name in names[i % len(names):] + names[:i % len(names)]:
            dist.barrier()
            us = of_slowest(sides[name](arguments.steps), device)
            if i > 0:  # the first one warms up
                found[name].append(us)
    return {name: statistics.median(each) for name, each in found.items()}


def sides_of(program, network, arguments, device):
    sides = {FLOOR: program.make(*network, 0),
             DDP: PythonStep(*network, device).measure,
             DDP_VIEWS: PythonStep(*network, device, gradient_as_bucket_view=True).measure,
             OURS: program.make(*network, "default")}
    for size in arguments.buckets:
        sides[f"{OURS}, {size:g} MiB"] = program.make(*network, int(size * 2**20))
    return sides


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="reprise_data_parallel_steps")
    parser.add_argument("--rounds", type=int, default=5, help="each figure is the median of so many")
    parser.add_argument("--steps", type=int, default=50, help="in a row, of a round")
    parser.add_argument("--buckets", type=float, nargs="*", default=[], metavar="MIB",
                        help="further sizes of the buckets of reprise")
    parser.add_argument("--json", help="a file for all figures")
    arguments = parser.parse_args()
    if "RANK" not in os.environ or torch.cuda.device_count() < 2:
        sys.exit("data_parallel.py: error: expected two GPUs, and to be started by torchrun (see --help)")
    os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"  # as PyTorch's notes require
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    first = dist.get_rank() == 0
    program, rows, missed = Program(arguments.program), [], 0
    for name, network in NETWORKS.items():
        found = medians(sides_of(program, network, arguments, device), arguments, device)
        program.request("drop")
        beside = min(found[DDP], found[DDP_VIEWS])
        missed += found[OURS] > beside
        for kind, us in found.items():
            rows.append([name, kind, us, us / beside])
            if first:
                limit = ("" if us <= beside else " MISSED (at most 1.000)") if kind == OURS else ""
                print(f"{name:<24} {kind:<30} {us:>9.1f} us {us / beside:>7.3f} of the faster DDP{limit}", flush=True)
    if first and arguments.json:
        table = {"name": "data_parallel", "title": f"Training steps on {dist.get_world_size()} GPUs, each one graph",
                 "columns": [{"name": "network", "unit": "", "digits": 0}, {"name": "", "unit": "", "digits": 0},
                             {"name": "step", "unit": "us", "digits": 1}, {"name": "of DDP", "unit": "", "digits": 3}],
                 "rows": rows}
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"torch": torch.__version__, "gpus": dist.get_world_size(),
                       "device": torch.cuda.get_device_name(device), "tables": [table]}, file, indent=1)
    program.end()
    dist.barrier()
    # Graphs keep their communicators, and destroy_process_group() would wait for them.
    sys.stdout.flush()
    os._exit(1 if missed else 0)


if __name__ == "__main__":
    main()
