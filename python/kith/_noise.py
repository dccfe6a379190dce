"""Rates for noisy gradients: Note [Rates for noisy gradients] in kith/train/noise_meter.h, whose measurements and formula these are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

import torch

from kith._kith import InputError

if TYPE_CHECKING:
    from kith import _kith
    from kith._table import Table
    from kith._world import World

_KEEP = 0.8  # of the running means at a measurement

Gradients = Sequence[Optional[torch.Tensor]]


def _wide(values: torch.Tensor) -> torch.Tensor:
    return values if values.dtype == torch.float64 else values.float()


def _squares(values: torch.Tensor) -> torch.Tensor:
    return values.square().sum(dtype=torch.float64)


class NoiseMeter:
    """The share of noise in the gradients of each parameter, from the gradients of a part of a batch and of all of it."""

    def __init__(self, parameters: int) -> None:
        self._part: List[Optional[torch.Tensor]] = []  # empty: this step is not measured
        self._part_share = 0.0
        self._measured: Optional[Tuple[torch.Tensor, Any]] = None  # of the last measured step, with the event that says when it is there
        self._noise, self._square = [0.0] * parameters, [0.0] * parameters
        self._factors: Optional[Tuple[int, List[float]]] = None  # the last ones, with the workers that they are for

    @torch.no_grad()
    def take_part(self, gradients: Gradients, share: float) -> None:
        """These are the gradients of `share` of this step's samples, before the others are added to them. Copies them."""
        self._part = [None if g is None else g.detach().clone() for g in gradients]
        self._part_share = share

    @torch.no_grad()
    def take_whole(self, gradients: Gradients) -> None:
        """These are the gradients of the whole batch; none: it is not used. Without take_part() before it nothing happens. Does not wait for
        the device."""
        part, share = self._part, self._part_share
        self._part = []
        if not part or not gradients:
            return
        self.collect()
        zero = torch.zeros((), dtype=torch.float64, device=next((g.device for g in gradients if g is not None), None))
        numbers = []
        for own, gradient in zip(part, gradients):
            if gradient is None:
                numbers += [zero, zero]
                continue
            # A part has A = share * (its mean gradient), the whole T: the two parts' means differ by A/share - (T - A)/(1 - share),
            # whose variance is s^2 / (share (1 - share)).
            whole = _wide(gradient.detach())
            rest = share * whole if own is None else _wide(own) - share * whole
            numbers += [_squares(rest) / (share * (1 - share)), _squares(whole)]
        found = torch.stack(numbers)
        if found.device.type != "cuda":
            self._measured = (found, None)
            return
        host = torch.empty(found.shape, dtype=found.dtype, pin_memory=True)
        host.copy_(found, non_blocking=True)
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(found.device))
        self._measured = (host, event)

    def collect(self) -> None:
        """Takes up what was measured last."""
        if self._measured is None:
            return
        (numbers, event), self._measured = self._measured, None
        if event is not None:
            event.synchronize()
        self._factors = None
        found = numbers.tolist()
        for i, (noise, square) in enumerate(zip(found[::2], found[1::2])):
            if not (math.isfinite(noise) and math.isfinite(square)) or square == 0:
                continue
            self._noise[i] = _KEEP * self._noise[i] + (1 - _KEEP) * noise
            self._square[i] = _KEEP * self._square[i] + (1 - _KEEP) * square

    @property
    def measured(self) -> bool:
        """Whether there is anything to tell yet. Takes up what was measured last."""
        self.collect()
        return any(self._square)

    def factors(self, workers: int) -> List[float]:
        """What each parameter's rate is multiplied by; 1 before the first measurement."""
        self.collect()
        if self._factors is None or self._factors[0] != workers:
            shares = [min(1.0, noise / square) if square > 0 else 0.0 for noise, square in zip(self._noise, self._square)]
            self._factors = (workers, [1.0 / math.sqrt(1.0 - share + share / workers) for share in shares])
        return self._factors[1]

    def whole_share(self) -> float:
        """Of all parameters together, by squares, from 0 to 1; 0 before the first measurement."""
        self.collect()
        square = sum(self._square)
        return min(1.0, sum(self._noise) / square) if square > 0 else 0.0

    def state(self) -> torch.Tensor:
        """A row per parameter: the running means of noise and of the squared gradient."""
        self.collect()
        return torch.tensor([self._noise, self._square], dtype=torch.float64).t().contiguous()

    def restore(self, state: torch.Tensor) -> None:
        self._part, self._measured, self._factors = [], None, None
        self._noise, self._square = state[:, 0].tolist(), state[:, 1].tolist()


class Noise:
    """The wrapper's part in it."""

    size: int
    _world: "World"
    _options: "_kith.Options"
    _table: "Table"
    _noise: Optional[NoiseMeter]
    _averages_inside: bool  # the workers of a node would have to agree

    def _prepare_noise(self) -> None:
        adam = self._options.optimizer not in ("external", "sgd")
        mixes = self._options.algorithm in ("awc", "atc", "sgp")
        several = self._world.size > 1 or self._world.newcomer
        self._averages_inside = adam and self._options.inside == "allreduce"
        mends = adam and mixes and several and not self._averages_inside
        self._noise = NoiseMeter(len(self._table.parameters)) if mends else None

    @property
    def corrects_noise(self) -> bool:
        """Whether ``measure_noise()`` changes anything here: Adam, AdamW or AccumAdamW of ``kith.optim``, "awc", "atc" or "sgp", more
        than one worker."""
        return self._noise is not None

    def measure_noise(self, share: float = 0.5) -> None:
        """Lets the Adam family step as far as all-reduce's would, at all-reduce's rate.

        Called between two backward passes of a step, when the gradients are those of `share` of the step's samples (the loss of both
        passes divided as for accumulation). It measures how much of each parameter's gradient is noise of the batch; from the next step
        on that parameter's rate is multiplied by ``rate_factor()``. Every eighth step or so is enough::

            opt.zero_grad()
            with model.no_sync():
                (0.5 * loss_fn(model(first_half))).backward()
            model.measure_noise()
            (0.5 * loss_fn(model(second_half))).backward()
            opt.step()

        What was measured is part of ``state_dict()``. Where there is nothing to mend (see ``corrects_noise``) nothing happens.

        Raises:
            InputError: a share that is not between 0 and 1, or ``inside="allreduce"``.
        """
        if not 0 < share < 1:
            raise InputError(f"measure_noise: a share of {share} (more than 0 and less than 1 of the batch)")
        if self._averages_inside:
            raise InputError('measure_noise: with inside="allreduce" (only kith train and C++ measure it there)')
        if self._noise is not None:
            self._noise.take_part(self._table.gradients()[1], share)

    def noise_share(self) -> float:
        """The share of noise in the gradients of the whole model, from 0 to 1, by squares; 0 before the first measurement."""
        return 0.0 if self._noise is None else self._noise.whole_share()

    def rate_factor(self, parameter: str) -> float:
        """What the group's rate is multiplied by for this parameter of the module; 1 before anything was measured."""
        if parameter not in self._table.names:
            raise InputError(f"rate_factor: the module has no parameter '{parameter}' (a name of named_parameters())")
        return 1.0 if self._noise is None else self._noise.factors(self.size)[self._table.names.index(parameter)]
