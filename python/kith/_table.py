"""A module's parameters as the engine knows them: addresses, counts, types and layouts."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

import torch

from kith._kith import InputError

TYPES: Dict[torch.dtype, str] = {
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
}


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
        self._layouts = [(p, p.dtype, p.stride()) for p in self.parameters]
        self.index = {id(p): i for i, p in enumerate(self.parameters)}

    @property
    def device(self) -> torch.device:
        return self.parameters[0].device

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
        if self.parameters and parameter.device != self.device:
            raise InputError(
                f"{place}: is on {parameter.device}, parameter {self.names[0]} on {self.device} "
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
        for name, parameter, address in zip(self.names, self.parameters, self.addresses):
            if parameter.data_ptr() != address:
                raise InputError(
                    f"parameter {name}: was moved to other memory since it was wrapped "
                    "(move the module to its device before wrapping it, and write in place)"
                )

    def versions(self) -> List[int]:
        return [p._version for p in self.parameters]

    @torch.no_grad()
    def note_written(self) -> None:
        """A graph that was built before the engine wrote the parameters must not be used after."""
        for nothing in self._nothings:
            nothing.zero_()  # counts as a write to its parameter

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

    def gradients(self) -> List[Optional[torch.Tensor]]:
        strided = torch.strided
        gradients = []
        for i, (parameter, dtype, stride) in enumerate(self._layouts):
            gradient = parameter.grad
            # Almost always; asking in this order is what a step of many small parameters takes longest for.
            if (
                gradient is None
                or not parameter.requires_grad
                or gradient.layout is not strided
                or gradient.dtype is not dtype
                or gradient.stride() != stride
            ):
                gradient = self.gradient(i)
            gradients.append(gradient)
        return gradients


def addresses_of(tensors: Sequence[Optional[torch.Tensor]]) -> List[int]:
    return [0 if t is None else t.data_ptr() for t in tensors]
