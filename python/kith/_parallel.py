"""The wrapper around a module and its optimizer."""

from __future__ import annotations

import contextlib
import math
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from kith import _kith, _newcomer, _state
from kith._buffers import Buffers
from kith._device import gpu_of, stream_of
from kith._kith import Error, InputError, StepReport
from kith._membership import Membership, weakly
from kith._noise import Noise
from kith._reduction import Reduction
from kith._stepping import Fused, Wrapped
from kith._table import Table
from kith._world import World, current_world

_defaults = _kith.Options()


def _choice(name: str, value: str, values: Tuple[str, ...]) -> str:
    if value not in values:
        raise InputError(f"{name}: '{value}' (one of: {', '.join(values)})")
    return value


class DecentralizedDataParallel(Membership, Noise, torch.nn.Module):
    """Trains a module on many workers without a global barrier, or with all-reduce.

    ::

        world = kith.init()
        opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
        model = kith.DecentralizedDataParallel(net, opt, topology="aer", wire="bf16")
        for x, y in loader:
            opt.zero_grad(set_to_none=True)
            loss_fn(model(x), y).backward()
            opt.step()                           # steps, and averages with the neighbours
            report = model.report()

    From now on ``opt.step()`` also averages the model with those of a few neighbours, who change from step to step. Any
    optimizer that steps once from the gradients will do. The optimizers of ``kith.optim`` do both in one pass over memory.

    Every worker wraps a module of the same structure, in the same order where there are several; all begin with rank 0's
    parameters and buffers. A newcomer to a running job (``kith launch --elastic``) begins with a member's instead: see
    ``joined``. The parameters keep their addresses, so compiled modules and CUDA graphs stay valid. All
    parameters of floating-point type take part: one that is frozen, has no gradient, or is in no group of the optimizer is
    averaged but not moved.

    Args:
        module: the network, on the device where it stays.
        optimizer: a ``torch.optim.Optimizer`` over the module's parameters, or one of ``kith.optim``.
        topology: who averages with whom: "aer", "exp", "complete", "ring", ...; `kith topo NAME --workers N` shows each.
        wire: what travels: "fp32", "bf16", "fp16" or "int8" (models only); None: in full, the parameters' own type.
        algorithm: "awc" (the neighbours' models come in while this worker computes), "atc", "allreduce", "none"; with
            ``kith.optim`` also "dsgt" and "sgp".
        inside: "allreduce": the workers of a node average gradients and are one model, nodes average models; or "none".
        nodes: workers per node as the topology sees them, "2,2" or "2x2"; empty: one node per machine.
        world: by default the one of ``kith.init()``.
        buffers: under ``average()`` floating-point buffers are "averaged" or stay "local".
        non_finite: what a step does with gradients that hold inf or NaN: "skip" (the worker mixes but does not move) or
            "use". A ``GradScaler`` sees to it by itself.
        on_lost: a worker is gone: "reform" lets the others go on without it (``members`` are who is left) and newcomers
            come in, "fail" raises kith.Error after the step, "carry_on" names it in the report.
        name: tells several models of a process apart; by default they are numbered.
        mix_every: average in every such step only.
        stagger: parts of the model are at different rounds of the topology, so that iterations are even.
        patience: seconds that a step waits for a neighbour that is alive; None: ten times what steps take, 30 s at least.
        bucket_bytes: the model travels in parts of about this size.
        same_start: begin with rank 0's model.
        topology_seed, degree, edge_probability, centres, topology_file: for topologies that have them.

    Raises:
        InputError: a bad option, or a parameter that cannot be trained; the message names it.
        Error: a worker did not come.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        topology: str = _defaults.topology,
        wire: Optional[str] = _defaults.wire,
        algorithm: str = _defaults.algorithm,
        inside: str = _defaults.inside,
        nodes: str = _defaults.nodes,
        world: Optional[World] = None,
        buffers: str = "averaged" if _defaults.averages_buffers else "local",
        non_finite: str = "skip" if _defaults.skips_non_finite else "use",
        on_lost: str = _defaults.on_lost,
        name: Optional[str] = None,
        mix_every: int = _defaults.mix_every,
        stagger: bool = _defaults.stagger,
        patience: Optional[float] = None,
        bucket_bytes: int = _defaults.bucket_bytes,
        same_start: bool = _defaults.same_start,
        topology_seed: int = _defaults.topology_seed,
        degree: int = _defaults.degree,
        edge_probability: float = _defaults.edge_probability,
        centres: int = _defaults.centres,
        topology_file: str = _defaults.topology_file,
    ) -> None:
        super().__init__()
        if not isinstance(module, torch.nn.Module):
            raise InputError(f"module: a {type(module).__name__} (give a torch.nn.Module)")
        self._world = current_world(world)
        inner = self._world._open()
        self.module = module
        self._table = Table(module)
        self._skips = _choice("non_finite", non_finite, ("skip", "use")) == "skip"
        self._fails = _choice("on_lost", on_lost, ("fail", "carry_on", "reform")) == "fail"
        averages = _choice("buffers", buffers, ("averaged", "local")) == "averaged"

        options = _kith.Options()
        options.topology, options.wire, options.algorithm, options.nodes = topology, wire, algorithm, nodes
        options.inside, options.on_lost = inside, on_lost
        options.mix_every, options.stagger = mix_every, stagger
        options.patience_adapts = patience is None
        if patience is not None:
            options.patience = patience
        options.bucket_bytes, options.same_start = bucket_bytes, same_start
        options.topology_seed, options.degree, options.edge_probability = topology_seed, degree, edge_probability
        options.centres, options.topology_file = centres, topology_file
        options.name = name or self._world._next_name()
        self._options = options
        fused = getattr(optimizer, "_kith_options", None)
        self._stepping = (Wrapped if fused is None else Fused)(self, optimizer)
        options.optimizer = "external" if fused is None else fused["optimizer"]
        for key, value in (fused or {}).items():
            setattr(options, key, value)

        self._base_name = options.name
        self._prepare_membership()
        self._prepare_noise()
        self._builds = 0
        self._busy = ""  # the guard that is open
        self._report: Optional[StepReport] = None
        self._max_norm: Optional[float] = None
        self._float_buffers: Optional[Buffers] = None
        self._reduction: Optional[Reduction] = None
        if averages or (same_start and self._world.size > 1):
            self._float_buffers = Buffers(module)
        try:
            self._begin(same_start, averages)
        except BaseException:
            self._let_go()  # nobody else knows of the engine, and it may not outlive the world
            raise
        self._world._models.add(self)

    def _begin(self, same_start: bool, averages: bool) -> None:
        """From a table of parameters to a member of the job."""
        if self._world.newcomer:
            self._join()
        else:
            self._engine = self._build([])
            self._engine.start()
            if same_start and self._world.size > 1:
                self._float_buffers.share_start(self._engine)
        if not averages:
            self._float_buffers = None
        self._seen_members = list(self._engine.members)
        self._table.note_written()
        if "allreduce" in (self._options.algorithm, self._options.inside):
            self._reduction = Reduction(self._table, weakly(self, lambda model: model._only_mixes))
            self._reduction.engine = self._engine
        self._stepping.attach()

    # ---- the loop

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def report(self) -> Optional[StepReport]:
        """What the last step did: waits, bytes, late and lost workers, skipped or not. None before the first. Whether an optimizer that
        knows of scalers (torch's with fused=True) skipped is asked of its device: this waits for it."""
        if self._report is not None:
            self._stepping.complete(self._report)
        return self._report

    @property
    def steps(self) -> int:
        """Done so far."""
        return self._engine.steps

    @property
    def world(self) -> World:
        return self._world

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradient accumulation: backward passes in here only add up. The last one before the step runs outside."""
        outer, self._busy = self._busy, "no_sync()"
        if self._reduction is not None:
            self._reduction.paused += 1
        try:
            yield
        finally:
            self._busy = outer
            if self._reduction is not None:
                self._reduction.paused -= 1

    def clip_grad_norm(self, max_norm: float) -> None:
        """The next step scales the gradients so that their norm over the whole model is at most `max_norm`.

        ``torch.nn.utils.clip_grad_norm_`` before the step does the same; this one is part of the step.
        """
        if not max_norm > 0:
            raise InputError(f"clip_grad_norm: {max_norm} (give a norm above 0)")
        self._max_norm = float(max_norm)

    # ---- operations with everybody: all workers call them after the same step

    @contextlib.contextmanager
    def average(self) -> Iterator[None]:
        """The module holds the exact mean of all workers' models (and buffers) until the block ends. Collective."""
        self._require_free("average()")
        parameters = self._table.parameters
        with torch.no_grad():
            saved = [p.detach().clone() for p in parameters]
        self._busy = "average()"
        try:
            self._engine.average([p.data_ptr() for p in parameters], self._stream())
            if self._float_buffers is not None:
                self._float_buffers.average(self._engine)
            self._table.note_written()
            yield
        finally:
            with torch.no_grad():
                for parameter, own in zip(parameters, saved):
                    parameter.copy_(own)
            if self._float_buffers is not None:
                self._float_buffers.restore()
            self._busy = ""
            self._stepping.note_versions()

    @contextlib.contextmanager
    def edit(self) -> Iterator[None]:
        """In here the parameters may be written in place; afterwards all workers go on from what they wrote. Collective."""
        self._require_free("edit()")
        self._busy = "edit()"
        try:
            yield
        finally:
            self._busy = ""
        self._rebuild(self.steps, {}, masters=False)

    def consensus_distance(self) -> float:
        """How far apart the models are: root of the mean squared distance to the mean model. Collective."""
        self._require_free("consensus_distance()")
        return self._engine.consensus_distance(self._stream())

    def gather(self, value: float) -> List[float]:
        """Everybody's value, by rank; NaN for a worker that is missing. Collective."""
        return self._engine.gather(float(value))

    def barrier(self) -> None:
        """Waits for everybody. Collective."""
        for rank, value in enumerate(self.gather(0.0)):
            if math.isnan(value):
                raise Error(f"worker {self._world.rank}: worker {rank} did not come (look at that worker's log)")

    # ---- state

    def get_extra_state(self) -> Dict[str, Any]:
        """Part of ``state_dict()``: what a worker needs besides parameters, buffers and the optimizer's own state."""
        self._require_free("state_dict()")
        return _state.extra(self)

    def set_extra_state(self, state: Any) -> None:
        """load_state_dict() takes it up, once the parameters are there."""

    def load_state_dict(self, state_dict: Any, strict: bool = True, **kwargs: Any) -> Any:
        """Goes on from what ``state_dict()`` of the same worker gave. Collective: every worker loads its own.

        With ``strict=False`` the parameters alone will do; the count of steps then stays.
        """
        self._require_free("load_state_dict()")
        loaded = state_dict.get("_extra_state")
        if loaded is not None:
            _state.require_fits(self, loaded)
        result = super().load_state_dict(state_dict, strict=strict, **kwargs)
        if loaded is None:
            self._rebuild(self.steps, {}, masters=False)
        else:
            self._rebuild(loaded["steps"], loaded["state"], cut=loaded["cut"], masters=False)
            if self._noise is not None and loaded.get("noise") is not None:
                self._noise.restore(loaded["noise"])
        return result

    def close(self) -> None:
        """Ends it: the optimizer steps as before, the module stays as it is. Neighbours lose this worker."""
        self._stepping.detach()
        self._let_go()
        self._world._models.discard(self)

    @property
    def memory(self) -> Dict[str, int]:
        """Bytes that kith holds for this model: "windows", "state", "staging"."""
        return self._engine.memory

    # ---- inside

    def _let_go(self) -> None:
        if self._reduction is not None:
            self._reduction.unhook()
        engine = getattr(self, "_engine", None)
        if engine is not None:
            engine.close()

    def _stream(self) -> int:
        return stream_of(self._table.device) if self._table.on_gpu else 0

    def _build(self, cut: List[Any], members: Sequence[int] = ()) -> "_kith.Engine":
        self._options.name = self._base_name + (f"#{self._builds}" if self._builds else "")
        self._builds += 1
        device = self._table.device
        world, stream = self._world._open(), self._stream()
        engine = _kith.Engine(world, self._options, cut, self._table.describe(), gpu_of(device), stream, members)
        engine.give_along(weakly(self, _newcomer.given_along))
        return engine

    def _require_free(self, what: str) -> None:
        if self._busy:
            raise InputError(f"worker {self._world.rank}: {what} under {self._busy} (let that block end first)")

    def _rebuild(
        self, steps: int, state: Dict[str, torch.Tensor], *, cut: Optional[List[Any]] = None, masters: bool
    ) -> None:
        """A new engine around the parameters as they now are, with the old one's state where `state` has none."""
        self._table.require_in_place()
        self.barrier()  # from here on nobody reads what is published
        stream = self._stream()
        kept = _state.read(self._engine, stream, lambda name: not name.startswith("model."))
        if masters:
            kept.update(_state.read(self._engine, stream, lambda n: n.startswith("model.") and _state.is_own(self, n)))
        kept.update(state)
        cut = self._engine.cut if cut is None else cut
        members = self._engine.members
        self._world._open().tell(f"{self._base_name}/builds", str(self._builds))  # newcomers look for that one
        self._engine.close()
        self._engine = self._build(cut, members)
        if self._reduction is not None:
            self._reduction.engine = self._engine
            self._reduction.forget()
        self._engine.restore(steps)
        _state.write(self._engine, stream, kept)
        self._engine.resume()
        self._table.note_written()
        self._stepping.note_versions()

    def _finish(self, report: StepReport) -> None:
        if self._report is None or report.view != self._report.view:
            self._note_members()
        self._report = report
        self._table.note_written()
        self._stepping.note_versions()
        if self._reduction is not None:
            self._reduction.forget()
        self._news.exchange_if_due(self)
        if self._fails and report.lost:
            raise Error(
                f"worker {self._world.rank}, step {report.step}: worker {report.lost[0]} is gone "
                "(look at that worker's log; go on from the last checkpoint)"
            )
