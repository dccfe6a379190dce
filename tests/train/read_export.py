"""Prints what Python's torch finds in an exported model, `STEM.pt` and `STEM-state.pt`: one line per tensor and route."""

import sys

import torch


def show(route, tensors):
    for name, tensor in sorted(tensors.items()):
        values = " ".join(float(v).hex() for v in tensor.detach().double().reshape(-1))
        print(route, name, tuple(tensor.shape), values)


stem = sys.argv[1]
show("jit", torch.jit.load(stem + ".pt").state_dict())
show("load", dict(torch.load(stem + "-state.pt")))
