"""The engine's state as tensors of host memory, by name: "exp_avg.layers.0.weight"."""

from __future__ import annotations

from typing import Callable, Dict, Mapping

import torch

from kith import _kith
from kith._kith import InputError

State = Dict[str, torch.Tensor]

_TYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64}


def read(engine: "_kith.Engine", stream: int, wanted: Callable[[str], bool]) -> State:
    """Copies of the blocks whose names are wanted."""
    state = {}
    for name, kind, size in engine.state(stream):
        if wanted(name):
            dtype = _TYPES[kind]
            state[name] = torch.empty(size // torch.empty((), dtype=dtype).element_size(), dtype=dtype)
    engine.copy_state_to([(name, tensor.data_ptr()) for name, tensor in state.items()], stream)
    return state


def write(engine: "_kith.Engine", stream: int, state: Mapping[str, torch.Tensor]) -> None:
    """REQUIRES: between restore() and resume(). InputError when a block does not fit."""
    known = {name: (kind, size) for name, kind, size in engine.state(stream)}
    blocks = {}
    for name, tensor in state.items():
        if name not in known:
            raise InputError(f"state '{name}': has no place in this model (load it with the options that saved it)")
        kind, size = known[name]
        block = tensor.detach().to(device="cpu", dtype=_TYPES[kind]).contiguous()
        if block.numel() * block.element_size() != size:
            raise InputError(
                f"state '{name}': has {block.numel() * block.element_size()} bytes, this model needs {size} "
                "(load it with the model that saved it)"
            )
        blocks[name] = block
    engine.copy_state_from([(name, block.data_ptr()) for name, block in blocks.items()], stream)
