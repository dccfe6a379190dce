"""Floating-point buffers, such as BatchNorm's running statistics: shared at the start, averaged under average()."""

from __future__ import annotations

from typing import List

import torch

from kith import _kith


class Buffers:
    """They are never mixed in training. Integer buffers stay each worker's own."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._buffers = [b for b in module.buffers() if b.is_floating_point() and b.numel() > 0]
        self._saved: List[torch.Tensor] = []
        self._flat = torch.zeros(sum(b.numel() for b in self._buffers), dtype=torch.float64)

    def share_start(self, engine: "_kith.Engine") -> None:
        """Collective: everybody's become rank 0's."""
        if self._buffers:
            self._gather_own()
            engine.share(self._flat.data_ptr(), self._flat.numel())
            self._scatter(self._flat)

    def average(self, engine: "_kith.Engine") -> None:
        """Collective: they become the workers' mean, until restore()."""
        if not self._buffers:
            return
        self._gather_own()
        engine.mean(self._flat.data_ptr(), self._flat.numel())
        self._saved = [b.clone() for b in self._buffers]
        self._scatter(self._flat)

    def restore(self) -> None:
        with torch.no_grad():
            for buffer, saved in zip(self._buffers, self._saved):
                buffer.copy_(saved)
        self._saved = []

    @torch.no_grad()
    def _gather_own(self) -> None:
        for part, buffer in zip(self._flat.split([b.numel() for b in self._buffers]), self._buffers):
            part.copy_(buffer.reshape(-1))

    @torch.no_grad()
    def _scatter(self, flat: torch.Tensor) -> None:
        for part, buffer in zip(flat.split([b.numel() for b in self._buffers]), self._buffers):
            buffer.copy_(part.reshape(buffer.size()))
