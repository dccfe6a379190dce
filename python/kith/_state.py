"""The engine's state as tensors of host memory, by name: "exp_avg.layers.0.weight"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping

import torch

from kith import _kith
from kith._kith import InputError

if TYPE_CHECKING:
    from kith._parallel import DecentralizedDataParallel

State = Dict[str, torch.Tensor]

_FORMAT = 1

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


def is_own(model: "DecentralizedDataParallel", name: str) -> bool:
    """Whether a block of the engine's state is neither a parameter nor the optimizer's."""
    kind, _, parameter = name.partition(".")
    if kind == "model":
        dtype = model._table.parameters[model._table.names.index(parameter)].dtype
        return dtype in (torch.bfloat16, torch.float16)  # the float master
    if kind == "push_weight":
        return model._options.algorithm == "sgp"
    return kind not in model._stepping.moments


def extra(model: "DecentralizedDataParallel") -> Dict[str, Any]:
    """What a worker needs besides parameters, buffers and the optimizer's own state."""
    return {
        "format": _FORMAT,
        "steps": model.steps,
        "workers": model.size,
        "algorithm": model._options.algorithm,
        "cut": model._engine.cut,
        "state": read(model._engine, model._stream(), lambda name: is_own(model, name)),
        "noise": None if model._noise is None else model._noise.state(),
    }


def require_fits(model: "DecentralizedDataParallel", loaded: Dict[str, Any]) -> None:
    """InputError unless the model can go on from what extra() gave."""
    if loaded.get("format") != _FORMAT:
        raise InputError(f"state_dict: format {loaded.get('format')} (this kith reads format {_FORMAT})")
    for key, own in (("workers", model.size), ("algorithm", model._options.algorithm)):
        if loaded[key] != own:
            raise InputError(
                f"state_dict: was saved with {key} {loaded[key]}, this run has {own} "
                "(load the module's part alone: module.load_state_dict() before wrapping it)"
            )
