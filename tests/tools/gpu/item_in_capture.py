# SPDX-License-Identifier: Apache-2.0
"""A capture of PyTorch's that reads a value on the host, which no capture can do: for `reprise explain`.

Prints what PyTorch says of it. The exit code is 0 if the capture failed, 1 if it did not, 77 without PyTorch on CUDA.
"""
import sys

try:
    import torch
except ImportError:
    sys.exit(77)
if not torch.cuda.is_available():
    sys.exit(77)


def training_step(x):
    loss = (x * 2).sum()
    if loss.item() > 0:  # the mistake
        x = x + 1
    return x


x = torch.ones(8, device="cuda")
training_step(x)
torch.cuda.synchronize()
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        training_step(x)
except RuntimeError as error:
    print("PyTorch:", str(error).splitlines()[0])
    sys.exit(0)
sys.exit(1)
