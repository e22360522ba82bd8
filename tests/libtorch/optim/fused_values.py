#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what 50 steps of Python's fused Adam and AdamW come to, for the test
CapturedOptimizers.AdamIsThatOfPythonToTheLastBit: a line each, a name and the bits of all parameters.

    python3 tests/libtorch/optim/fused_values.py FILE         on a CUDA device, capturable; scripts/gpu-test runs this
    python3 tests/libtorch/optim/fused_values.py FILE cpu     for the host device, which has the kernels of the CPU

    REPRISE_FUSED_VALUES=FILE build/debug/tests/reprise_graphed_tests --gtest_filter='*OfPythonToTheLastBit'

Parameters and gradients are those of optim_fixture.h.
"""

import math
import sys

import torch

DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cuda"
STEPS = 50
SIZES = [(133,), (7, 5), ()]


def numbers(sizes, factor, modulus, divisor):
    counted = torch.arange(math.prod(sizes), dtype=torch.int64)
    values = ((counted * factor + factor) % modulus) - modulus // 2
    return values.to(torch.float64).div(divisor).view(sizes).to(torch.float32)


def bits_after_steps(optimizer_type, amsgrad):
    parameters = [numbers(sizes, 37, 101, 64).to(DEVICE) for sizes in SIZES]
    parameters[1] = parameters[1].t().contiguous().t()
    for each in parameters:
        each.requires_grad_()
    rate = torch.tensor(0.02, device=DEVICE)
    optimizer = optimizer_type(
        parameters, lr=rate, weight_decay=0.1, amsgrad=amsgrad, fused=True, capturable=DEVICE != "cpu")
    for step in range(STEPS):
        for each in parameters:
            each.grad = torch.empty_like(each).copy_(numbers(tuple(each.shape), 2 * step + 29, 97, 128))
        optimizer.step()
    values = torch.cat([each.detach().cpu().contiguous().flatten() for each in parameters])
    return [bits & 0xFFFFFFFF for bits in values.view(torch.int32).tolist()]


with open(sys.argv[1], "w", encoding="ascii") as file:
    for name, optimizer_type in (("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)):
        for amsgrad in (False, True):
            bits = " ".join(f"{each:x}" for each in bits_after_steps(optimizer_type, amsgrad))
            file.write(f"{name}{'_amsgrad' if amsgrad else ''} {bits}\n")
