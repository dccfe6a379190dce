"""Workers that come: what they get of the members besides the engine's state, and when."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional

import torch

from kith._kith import InputError

if TYPE_CHECKING:
    from kith._parallel import DecentralizedDataParallel


class Joined(NamedTuple):
    """What a newcomer came into.

    Attributes:
        step: how many steps its donor had done when its state was copied; ``model.steps`` is where the others are.
        view: the number of the view that took it in.
        position: what the donor's ``give_position()`` said; None where nobody called that.
    """

    step: int
    view: int
    position: Any


def given_along(model: "DecentralizedDataParallel") -> bytes:
    """For a newcomer, by a donor between two steps."""
    given = {
        "buffers": {name: b.detach().cpu() for name, b in model.module.named_buffers()},
        "optimizer": type(model._stepping.optimizer).__name__,
        "optimizer_state": model._stepping.given_along(),
        "noise": None if model._noise is None else model._noise.state(),
        "position": None if model._position is None else model._position(),
    }
    file = io.BytesIO()
    torch.save(given, file)
    return file.getvalue()


def take_along(model: "DecentralizedDataParallel", given: bytes) -> Any:
    """Takes up what a donor gave, and returns the position. It comes from a worker of the same run."""
    along = torch.load(io.BytesIO(given), map_location="cpu", weights_only=False)
    _take_buffers(model, along["buffers"])
    own = type(model._stepping.optimizer).__name__
    if along["optimizer"] != own:
        raise InputError(
            f"optimizer: {own}, the job trains with {along['optimizer']} (start it with the optimizer of the job that it joins)"
        )
    model._stepping.take_along(along["optimizer_state"])
    if model._noise is not None and along["noise"] is not None:
        model._noise.restore(along["noise"])
    return along["position"]


@torch.no_grad()
def _take_buffers(model: "DecentralizedDataParallel", given: Dict[str, torch.Tensor]) -> None:
    for name, buffer in model.module.named_buffers():
        if name not in given or given[name].shape != buffer.shape:
            there = "none" if name not in given else f"one of shape {tuple(given[name].shape)}"
            raise InputError(
                f"buffer {name}: has shape {tuple(buffer.shape)}, the job that it joins has {there} "
                "(start it with the model of that job)"
            )
        buffer.copy_(given[name])


class News:
    """What a newcomer hears of the members' samplers, right after the first step that it makes with them.

    All members tell the same, since they run the same loop, so it does not matter if one of them dies meanwhile.
    """

    def __init__(self, joins: bool) -> None:
        self.awaited = joins  # this worker has not heard them yet
        self.heard_after = -1  # steps
        self._due: Optional[int] = None  # once more steps than these are done
        self._tellers: List[Callable[[], Optional[List[int]]]] = []
        self._told: List[List[int]] = []

    def add(self, tell: Callable[[], Optional[List[int]]]) -> int:
        """A sampler's state as numbers, or None where it is gone. Its place in the order of samplers."""
        self._tellers.append(tell)
        return len(self._tellers) - 1

    def of(self, place: int) -> Optional[List[int]]:
        """What was told of the sampler with that place; None: nothing."""
        return self._told[place] if place < len(self._told) and self._told[place] else None

    def somebody_came(self, began: int) -> None:
        """With the view that began then."""
        self._due = began

    def exchange_if_due(self, model: "DecentralizedDataParallel") -> None:
        """Collective where a newcomer has made its first step. After a step."""
        if self._due is None or model.steps <= self._due:
            return
        self._due = None
        own: List[int] = []
        for tell in self._tellers if not self.awaited else []:
            state = tell() or []
            own += [len(state), *state]
        length = max(int(n) for n in model.gather(len(own)) if not math.isnan(n))
        if length:
            numbers = torch.zeros(1 + length, dtype=torch.float64)
            if len(own) == length:
                numbers[0] = 1
                numbers[1:] = torch.tensor(own, dtype=torch.float64)
            model._engine.mean(numbers.data_ptr(), numbers.numel())
            if self.awaited and numbers[0] > 0:
                self._take((numbers[1:] / numbers[0]).round().long().tolist())
        if self.awaited:
            self.awaited = False
            self.heard_after = model.steps

    def _take(self, numbers: List[int]) -> None:
        first = 0
        while first < len(numbers):
            end = first + 1 + numbers[first]
            self._told.append(numbers[first + 1 : end])
            first = end
