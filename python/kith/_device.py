"""Devices as the engine takes them: a GPU's number and the handle of a stream."""

from __future__ import annotations

from typing import Optional

import torch


def gpu_of(device: torch.device) -> Optional[int]:
    """None for the CPU."""
    if device.type != "cuda":
        return None
    return torch.cuda.current_device() if device.index is None else device.index


def stream_of(device: torch.device) -> int:
    """Torch's current stream there; 0 for the CPU."""
    return 0 if device.type != "cuda" else torch.cuda.current_stream(device).cuda_stream
