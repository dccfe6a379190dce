"""A module's parameters as the engine knows them: addresses, counts, types and layouts."""

from __future__ import annotations

from collections import deque
from operator import attrgetter
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import torch

from kith._kith import InputError

TYPES: Dict[torch.dtype, str] = {
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
}


# A step asks every parameter; without a loop of Python's that takes half as long.
_address, _stride = torch.Tensor.data_ptr, torch.Tensor.stride
_dtype, _grad, _requires_grad, _version = attrgetter("dtype"), attrgetter("grad"), attrgetter("requires_grad"), attrgetter("_version")


def _counts_as_write(function: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    probe = torch.zeros(1)
    function(probe.detach())
    return bool(probe._version == 1)


# Does nothing to real numbers, on any device, and is cheaper than a write of no elements. That it counts as one is asked of this torch.
_touch = torch.Tensor.conj_physical_ if _counts_as_write(torch.Tensor.conj_physical_) else torch.Tensor.zero_


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements lie in one block, each once."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.size())):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def _same_layout(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.stride() == b.stride():
        return True
    return all(s == 1 or x == y for x, y, s in zip(a.stride(), b.stride(), b.size()))


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in the order in which they lie. REQUIRES: dense."""
    return tensor.detach().as_strided((tensor.numel(),), (1,))


class Table:
    """Every parameter of floating-point type, tied ones once, frozen ones too."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.names: List[str] = []
        self.parameters: List[torch.nn.Parameter] = []
        for name, parameter in module.named_parameters():
            if parameter.numel() == 0 or not (parameter.is_floating_point() or parameter.requires_grad):
                continue
            self._require_trainable(name, parameter)
            self.names.append(name)
            self.parameters.append(parameter)
        if not self.parameters:
            raise InputError(f"module: {type(module).__name__} has no parameters of floating-point type")
        self._require_apart()
        self.addresses = [p.data_ptr() for p in self.parameters]
        self._nothings = [p.detach().as_strided((0,), (1,)) for p in self.parameters]
        self._dtypes, self._strides = list(map(_dtype, self.parameters)), list(map(_stride, self.parameters))
        self.device = self.parameters[0].device
        self.on_gpu = self.device.type == "cuda"
        self.index = {id(p): i for i, p in enumerate(self.parameters)}

    def _require_trainable(self, name: str, parameter: torch.Tensor) -> None:
        place = f"parameter {name}"
        if parameter.layout != torch.strided:
            raise InputError(f"{place}: is sparse (make it dense)")
        if parameter.dtype not in TYPES:
            raise InputError(f"{place}: has type {parameter.dtype} (kith trains float, double, bfloat16 and half)")
        if not _is_dense(parameter):
            raise InputError(
                f"{place}: has sizes {tuple(parameter.size())} and strides {parameter.stride()}, which leave holes or "
                "overlap (give it memory of its own, for example by clone())"
            )
        if self.parameters and parameter.device != self.parameters[0].device:
            raise InputError(
                f"{place}: is on {parameter.device}, parameter {self.names[0]} on {self.parameters[0].device} "
                "(move the whole module to one device)"
            )

    def _require_apart(self) -> None:
        order = sorted(range(len(self.parameters)), key=lambda i: self.parameters[i].data_ptr())
        for a, b in zip(order, order[1:]):
            first, second = self.parameters[a], self.parameters[b]
            if first.data_ptr() + first.numel() * first.element_size() > second.data_ptr():
                raise InputError(
                    f"parameter {self.names[b]}: shares memory with parameter {self.names[a]} "
                    "(tie parameters by using one Parameter in both places)"
                )

    def describe(self) -> List[Tuple[str, int, int, str, List[int], List[int]]]:
        return [
            (name, p.data_ptr(), p.numel(), TYPES[p.dtype], list(p.size()), list(p.stride()))
            for name, p in zip(self.names, self.parameters)
        ]

    def require_in_place(self) -> None:
        if list(map(_address, self.parameters)) == self.addresses:
            return
        for name, parameter, address in zip(self.names, self.parameters, self.addresses):
            if parameter.data_ptr() != address:
                raise InputError(
                    f"parameter {name}: was moved to other memory since it was wrapped "
                    "(move the module to its device before wrapping it, and write in place)"
                )

    def versions(self) -> List[int]:
        return list(map(_version, self.parameters))

    @torch.no_grad()
    def note_written(self) -> None:
        """A graph that was built before the engine wrote the parameters must not be used after."""
        deque(map(_touch, self._nothings), maxlen=0)  # a write to each one's parameter

    def gradient(self, i: int) -> Optional[torch.Tensor]:
        """Parameter i's gradient in the parameter's own type and layout; None where it is frozen or has none."""
        parameter = self.parameters[i]
        gradient = parameter.grad
        if gradient is None or not parameter.requires_grad:
            return None
        plain = gradient.layout == torch.strided and gradient.dtype == parameter.dtype
        if plain and _same_layout(gradient, parameter):
            return gradient
        laid = torch.empty_strided(parameter.size(), parameter.stride(), dtype=parameter.dtype, device=parameter.device)
        return laid.copy_(gradient.detach().to_dense() if gradient.layout != torch.strided else gradient.detach())

    def gradients(self) -> Tuple[List[int], List[Optional[torch.Tensor]]]:
        """Where the parameters' gradients lie, each in its parameter's own type and layout (0: frozen, or has none), and what keeps them
        there."""
        gradients = list(map(_grad, self.parameters))
        try:  # as it almost always is; what is missing or sparse has no stride or no address
            if (
                all(map(_requires_grad, self.parameters))
                and list(map(_dtype, gradients)) == self._dtypes
                and list(map(_stride, gradients)) == self._strides
            ):
                return list(map(_address, gradients)), gradients
        except (AttributeError, TypeError, RuntimeError):
            pass
        for i, gradient in enumerate(gradients):
            if (
                gradient is None
                or not self.parameters[i].requires_grad
                or gradient.layout is not torch.strided
                or gradient.dtype is not self._dtypes[i]
                or gradient.stride() != self._strides[i]
            ):
                gradients[i] = self.gradient(i)
        return addresses_of(gradients), gradients


def addresses_of(tensors: Sequence[Optional[torch.Tensor]]) -> List[int]:
    return [0 if t is None else t.data_ptr() for t in tensors]
