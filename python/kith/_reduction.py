"""All-reduce: gradients are averaged in the background while backward runs, and hold the means when it returns."""

from __future__ import annotations

from typing import Any, Callable, List, Optional

import torch

from kith import _kith
from kith._device import stream_of
from kith._kith import InputError
from kith._table import Table, addresses_of


def _after_accumulation(parameter: torch.nn.Parameter, call: Any) -> List[Any]:
    """Calls `call()` whenever the parameter's gradient of a backward pass is complete; what is returned keeps it so."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return [parameter.register_post_accumulate_grad_hook(lambda _: call())]
    accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    return [accumulator, accumulator.register_hook(lambda *_: call())]


class Reduction:
    """The gradients of one step, on their way to becoming the mean over all workers."""

    def __init__(self, table: Table, brings_nothing: Callable[[], bool]) -> None:
        self.engine: Optional[_kith.Engine] = None
        self.paused = 0  # depth of no_sync()
        self.done = False  # the gradients are the means
        self._table = table
        self._brings_nothing = brings_nothing  # this worker's gradients count as zeros
        self._kept: List[Optional[torch.Tensor]] = [None] * len(table.parameters)
        self._arrived = [False] * len(table.parameters)
        self._queued = False
        self._hooks: List[Optional[List[Any]]] = [None] * len(table.parameters)
        self.hook()

    def hook(self) -> None:
        """Parameters that were frozen until now are hooked as well."""
        for i, parameter in enumerate(self._table.parameters):
            if self._hooks[i] is None and parameter.requires_grad:
                self._hooks[i] = _after_accumulation(parameter, lambda i=i: self._gradient_arrived(i))

    def unhook(self) -> None:
        for hook in self._hooks:
            if hook is not None:
                hook[-1].remove()
        self._hooks = [None] * len(self._table.parameters)

    def forget(self) -> None:
        """The step is done."""
        self._kept = [None] * len(self._table.parameters)
        self._arrived = [False] * len(self._table.parameters)
        self._queued = False
        self.done = False
        self.hook()

    def _gradient_arrived(self, i: int) -> None:
        if self.paused:
            return
        if self._arrived[i] or self.done:
            raise InputError(
                f"parameter {self._table.names[i]}: has a second gradient in one step "
                "(step() follows every backward(); put all but the last backward of a step under no_sync())"
            )
        assert self.engine is not None
        if not self._queued:
            torch.autograd.Variable._execution_engine.queue_callback(self.finish)
            self._queued = True
        self._kept[i] = self._own(i)
        self._arrived[i] = True
        self.engine.gradient_ready(i, addresses_of([self._kept[i]])[0], stream_of(self._table.device))

    def _own(self, i: int) -> Optional[torch.Tensor]:
        gradient = self._table.gradient(i)
        if gradient is not None and self._brings_nothing():
            with torch.no_grad():
                gradient.zero_()
        return gradient

    def finish(self) -> None:
        """Waits until the gradients are averaged; they then hold the means. Collective.

        Where the others had made this step already when the members changed, the parameters are what it made of them.
        """
        if self.done:
            return
        assert self.engine is not None
        parameters = self._table.parameters
        for i in range(len(parameters)):
            if not self._arrived[i]:
                self._kept[i] = self._own(i)
        own = addresses_of(self._kept)
        means = [
            torch.empty_strided(p.size(), p.stride(), dtype=p.dtype, device=p.device) if kept is None else kept
            for p, kept in zip(parameters, self._kept)
        ]
        there = self.engine.mean_gradients(own, addresses_of(means), stream_of(self._table.device))
        for parameter, mean, is_there in zip(parameters, means, there):
            if is_there and parameter.requires_grad and parameter.grad is not mean:
                parameter.grad = mean
        self.done = True
