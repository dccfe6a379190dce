"""The world: who the workers are and where this one computes."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from typing import Any, Dict, List, Mapping, Optional, Union

import torch

from kith import _kith
from kith._kith import InputError

_current: Optional["World"] = None


class World:
    """One worker's world. ``kith.init()`` makes it.

    It ends with the process, with ``close()``, or at the end of a ``with`` block; models end with it.

    Attributes:
        rank: this worker's number, from 0; it stays what it is. A newcomer's is one that nobody had.
        size: how many workers the job began with.
        newcomer: whether this worker joins a job that runs already.
        local_rank: its number among the workers of this machine.
        device: the ``torch.device`` that it computes on.
        machines: the machine of every rank, numbered from 0; of a newcomer, its own alone.
        launcher: who started it: "torchrun", "Open MPI", "Slurm", "kith" or "none".
        backend: how the workers reach each other: "shm", "routed", "cuda_ipc" or "inproc".
    """

    rank: int
    size: int
    newcomer: bool
    local_rank: int
    device: torch.device
    machines: List[int]
    launcher: str
    backend: str

    def __init__(self, inner: "_kith.World", device: torch.device, found: Mapping[str, Any]) -> None:
        self._inner: Optional[_kith.World] = inner
        self._models: "weakref.WeakSet[Any]" = weakref.WeakSet()
        self._names = 0
        self._owner = os.getpid()
        self.rank = inner.worker
        self.newcomer = inner.newcomer
        self.size = max(1, found["workers"]) if self.newcomer else inner.size
        self.local_rank = inner.local_rank
        self.machines = inner.machines
        self.backend = inner.backend
        self.device = device
        self.launcher = found["launcher"]

    def close(self) -> None:
        """Leaves: ends the models of this world, then the world. Worker 0 waits a moment for the others.

        A job is over when a worker has left so: newcomers are told. A worker that ends by an exception leaves the job open.
        """
        self._end(failed=False)

    def _end(self, failed: bool) -> None:
        global _current
        if self._inner is None or os.getpid() != self._owner:  # a forked child has no part in it
            return
        if failed:
            self._inner.fail()
        for model in list(self._models):
            model.close()
        self._inner.close()
        self._inner = None
        if _current is self:
            _current = None

    def __enter__(self) -> "World":
        return self

    def __exit__(self, kind: Optional[type], value: Optional[BaseException], _: object) -> None:
        self._end(failed=kind is not None and not (isinstance(value, SystemExit) and not value.code))

    def _at_exit(self) -> None:
        self._end(failed=getattr(sys, "last_type", None) is not None)  # of the traceback that the program ended with

    def __repr__(self) -> str:
        return f"kith.World(rank={self.rank}, size={self.size}, device={str(self.device)!r}, launcher={self.launcher!r})"

    def _open(self) -> "_kith.World":
        if self._inner is None:
            raise InputError("world: it was closed (call kith.init() anew)")
        return self._inner

    def _next_name(self) -> str:
        """The same on workers that wrap their models in the same order."""
        self._names += 1
        return "model" if self._names == 1 else f"model{self._names}"


def _device_for(asked: Union[str, torch.device, None], found: Mapping[str, Any]) -> torch.device:
    if asked is None:
        asked = "cuda" if _kith.cuda and torch.cuda.is_available() else "cpu"
    device = torch.device(asked)
    if device.type == "cpu":
        return device
    if device.type != "cuda":
        raise InputError(f"device: '{device}' (kith trains on the CPU and on CUDA devices)")
    if not _kith.cuda:
        raise InputError(f"device: '{device}' (this kith was built without CUDA: configure with -DKITH_CUDA=ON)")
    gpus = torch.cuda.device_count()
    if gpus == 0:
        raise InputError(f"device: '{device}' (torch finds no GPU on this machine)")
    if device.index is None:
        rank = found["local_rank"] if found["local_rank"] is not None else found["worker"]
        device = torch.device("cuda", rank % gpus)
    return device


def init(
    *,
    device: Union[str, torch.device, None] = None,
    facts: Optional[Dict[str, object]] = None,
    backend: str = "",
    patience: float = 300.0,
) -> World:
    """Enters the world in which whoever started this process has put it.

    torchrun, mpirun, srun and ``kith launch`` are recognised by their environment variables; a process that nobody
    started as a worker is a world of one. Waits until all workers have come. A newcomer of ``kith launch --elastic`` finds
    the running job here, and joins it when it wraps its model. Called again without arguments, it returns the same world.

    Args:
        device: where this worker computes; by default its GPU where torch and this kith have CUDA (the workers of a
            machine take the GPUs in turn), else the CPU. A GPU becomes torch's current one.
        facts: what must be the same on all workers, such as ``{"batch": 64}``; a difference is an error everywhere.
        backend: how workers reach each other; by default it is chosen.
        patience: seconds for all workers to come.

    Raises:
        InputError: the environment contradicts itself, or the workers differ.
        Error: a worker did not come, or ended meanwhile.
    """
    global _current
    if _current is not None and _current._inner is not None:
        if device is not None or facts or backend:
            raise InputError("kith.init(): there is a world already (call it once, or close() the first)")
        return _current
    environment = dict(os.environ)
    found = _kith.discover(environment)
    where = _device_for(device, found)
    gpu = where.index if where.type == "cuda" else None
    if gpu is not None:
        torch.cuda.set_device(where)
    told = {name: str(value) for name, value in (facts or {}).items()}
    world = World(_kith.join(environment, told, backend, gpu, patience), where, found)
    _current = world
    atexit.register(world._at_exit)
    return world


def current_world(given: Optional[World]) -> World:
    world = given or _current
    if world is None:
        raise InputError("world: there is none yet (call kith.init() first)")
    return world
