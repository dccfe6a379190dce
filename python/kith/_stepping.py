"""How the optimizer of a wrapped module steps: one of torch's, wrapped, or one of kith's, inside the engine's pass."""

from __future__ import annotations

import contextlib
import functools
import types
from typing import TYPE_CHECKING, Any, Callable, FrozenSet, Iterator, List, Optional, Tuple

import torch

from kith import _state
from kith._kith import Error, InputError
from kith._noise import NoiseMeter

if TYPE_CHECKING:
    from kith._parallel import DecentralizedDataParallel

Closure = Optional[Callable[[], Any]]


def _require_known(model: "DecentralizedDataParallel", optimizer: torch.optim.Optimizer) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InputError(f"optimizer: a {type(optimizer).__name__} (give a torch.optim.Optimizer)")
    if getattr(optimizer, "_kith_model", None) is not None:
        raise InputError("optimizer: it steps another model already (one optimizer for each model)")
    for g, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            if id(parameter) not in model._table.index:
                raise InputError(
                    f"optimizer: group {g} has a parameter of shape {tuple(parameter.shape)} that is not the module's "
                    "(make the optimizer from the module's parameters, after moving the module to its device)"
                )


class _Stepping:
    moments: FrozenSet[str] = frozenset({"steps"})

    def __init__(self, model: "DecentralizedDataParallel", optimizer: Any) -> None:
        _require_known(model, optimizer)
        self.model = model
        self.optimizer = optimizer

    def attach(self) -> None:
        """From now on the optimizer's step() is this one's."""
        raise NotImplementedError

    def detach(self) -> None:
        """No longer. Without effect where it is not attached."""
        raise NotImplementedError

    def evaluate(self, closure: Closure) -> Any:
        """All that must be right before a step, and the closure's loss."""
        model = self.model
        model._require_free("step()")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        model._table.require_in_place()
        if model._reduction is not None:
            model._reduction.finish()
        return loss

    def note_versions(self) -> None:
        """The parameters were written by the engine, or by somebody who may."""

    def complete(self, report: Any) -> None:
        """What the last step's report does not have yet, because the device knows it first."""

    def given_along(self) -> Any:
        """For a newcomer: what of the optimizer the engine does not have. Calls no function of the engine."""
        raise NotImplementedError

    def take_along(self, given: Any) -> None:
        """In a newcomer, before attach()."""
        raise NotImplementedError

    def scaler(self) -> Tuple[bool, Optional[torch.Tensor]]:
        """Whether a GradScaler steps this optimizer, and the scale that the gradients still have."""
        return hasattr(self.optimizer, "found_inf"), getattr(self.optimizer, "grad_scale", None)


class Wrapped(_Stepping):
    """y_i = what the optimizer makes of x_i in place; then the neighbours' part comes in."""

    _unused: Optional[torch.Tensor] = None  # of the last step: 1 where the optimizer did not use the gradients

    def attach(self) -> None:
        optimizer = self.optimizer
        if isinstance(optimizer, torch.optim.LBFGS):
            raise InputError(
                "optimizer: LBFGS evaluates the loss again and again within a step, at models that no neighbour has "
                "(take one that steps once from the gradients)"
            )
        inner = optimizer.step
        self._inner = inner
        self._had_own_step = "step" in vars(optimizer)
        self._scales = bool(getattr(optimizer, "_step_supports_amp_scaling", False))

        @functools.wraps(getattr(inner, "__func__", inner))
        def step(_: Any, closure: Closure = None, *args: Any, **kwargs: Any) -> Any:
            return self.step(closure, *args, **kwargs)

        optimizer.step = types.MethodType(step, optimizer)
        # A GradScaler calls step() even when the gradients overflowed: this worker must not keep its neighbours waiting.
        optimizer._step_supports_amp_scaling = True
        optimizer._kith_model = self.model

    def detach(self) -> None:
        if getattr(self.optimizer, "_kith_model", None) is not self.model:
            return
        if self._had_own_step:
            self.optimizer.step = self._inner
        else:
            del self.optimizer.step
        self.optimizer._step_supports_amp_scaling = self._scales
        self.optimizer._kith_model = None

    def step(self, closure: Closure = None, *args: Any, **kwargs: Any) -> Any:
        model = self.model
        loss = self.evaluate(closure)
        self._unused = None
        skip = self._prepare() or model._only_mixes
        if not skip:
            with self._scaling_done():
                self._inner(*args, **kwargs)
            model._table.require_in_place()
        report = model._engine.step([], 1.0, None, False, model._stream())
        report.skipped = skip
        model._finish(report)
        return loss

    def complete(self, report: Any) -> None:
        if self._unused is not None:
            report.skipped = report.skipped or bool(self._unused.item())

    def given_along(self) -> Any:
        return self.optimizer.state_dict()

    def take_along(self, given: Any) -> None:
        try:
            self.optimizer.load_state_dict(given)
        except ValueError as error:
            raise InputError(f"optimizer: does not fit the job that it joins ({error})") from error

    @contextlib.contextmanager
    def _scaling_done(self) -> Iterator[None]:
        """In here an optimizer that knows nothing of scalers finds no trace of one: torch's own refuse to step else. One that does finds
        what _prepare() saw."""
        words = vars(self.optimizer)
        kept = {} if self._scales else {name: words.pop(name) for name in ("grad_scale", "found_inf") if name in words}
        checked = self._unused is not None and "found_inf" not in words
        if checked:
            words["found_inf"] = self._unused
        try:
            yield
        finally:
            if checked:
                del words["found_inf"]
            words.update(kept)

    def _prepare(self) -> bool:
        """Scales and clips the gradients that the optimizer will read. True where they must not be used."""
        model = self.model
        max_norm, model._max_norm = model._max_norm, None
        scaled, scale = self.scaler()
        if scaled and not self._scales:
            if bool(self.optimizer.found_inf.item()):
                return True
            if scale is not None:
                self._multiply(1.0 / float(scale))
        elif scaled:
            self._unused = self.optimizer.found_inf
        elif model._skips and self._scales:
            # The optimizer leaves everything as it is where this says so, on its device: the host need not wait to know.
            self._unused = self._non_finite()
        elif model._skips and bool(self._non_finite().item()):
            return True
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(model._table.parameters, max_norm)
        return False

    def _non_finite(self) -> torch.Tensor:
        """1 where a gradient holds inf or NaN, else 0; on their device, which may still be looking."""
        model = self.model
        found = torch.empty((), dtype=torch.float32, device=model._table.device)
        addresses, _kept = model._table.gradients()
        model._engine.find_non_finite(addresses, found.data_ptr(), model._stream())
        return found

    def _multiply(self, factor: float) -> None:
        gradients: List[torch.Tensor] = [p.grad for p in self.model._table.parameters if p.grad is not None]
        with torch.no_grad():
            for gradient in gradients:
                gradient.mul_(factor)


class Fused(_Stepping):
    """One of kith.optim: mix, moments and update are one pass of the engine."""

    def __init__(self, model: "DecentralizedDataParallel", optimizer: Any) -> None:
        super().__init__(model, optimizer)
        self.moments = frozenset({"steps", *optimizer._kith_moments})
        self._versions: List[int] = []

    def attach(self) -> None:
        self.optimizer._kith_model = self.model
        self.note_versions()
        if self.optimizer.state:
            self.take_moments()

    def detach(self) -> None:
        if self.optimizer._kith_model is not self.model:
            return
        with contextlib.suppress(Error):  # after a failed step there is no whole state
            self.optimizer._pull()
        self.optimizer._kith_model = None

    def note_versions(self) -> None:
        self._versions = self.model._table.versions()

    def step(self, closure: Closure = None) -> Any:
        model = self.model
        loss = self.evaluate(closure)
        self._require_untouched()
        scaled, scale = self.scaler()
        max_norm, model._max_norm = model._max_norm, None
        addresses, gradients = model._table.gradients()
        inputs = [(0, 0.0, 0.0)] * len(addresses)
        # With all-reduce the gradients are everybody's by now, and all move alike.
        only_mixes = model._only_mixes and model._reduction is None
        for group in self.optimizer.param_groups if not only_mixes else ():
            lr, decay = float(group["lr"]), float(group["weight_decay"])
            for i in map(model._table.index.__getitem__, map(id, group["params"])):
                inputs[i] = (addresses[i], lr, decay)
        if model._noise is not None:
            self._mend_rates(model._noise, inputs)
            model._noise.take_whole([] if only_mixes else gradients)
        factor = 1.0 if scale is None else 1.0 / float(scale)
        report = model._engine.step(inputs, factor, max_norm, model._skips or scaled, model._stream())
        if only_mixes:
            report.skipped = True
        model._finish(report)
        return loss

    def _mend_rates(self, noise: NoiseMeter, inputs: List[Tuple[int, float, float]]) -> None:
        if not noise.measured:
            return
        decoupled = self.optimizer._kith_rule.endswith("adamw")  # that decay is no matter of noise: lr * decay stays what it was
        for i, factor in enumerate(noise.factors(self.model.size)):
            address, lr, decay = inputs[i]
            inputs[i] = (address, factor * lr, decay / factor if decoupled else decay)

    def _require_untouched(self) -> None:
        found = self.model._table.versions()
        if found == self._versions:
            return
        for name, version, now in zip(self.model._table.names, self._versions, found):
            if version != now:
                raise InputError(
                    f"parameter {name}: was changed since the last step "
                    "(change parameters under the guard edit(), or load them with the model's load_state_dict())"
                )

    def given_along(self) -> Any:
        return [{k: v for k, v in group.items() if k != "params"} for group in self.optimizer.param_groups]

    def take_along(self, given: Any) -> None:
        groups = self.optimizer.param_groups
        if len(given) != len(groups):
            raise InputError(f"optimizer: has {len(groups)} groups, that of the job that it joins {len(given)}")
        for group, theirs in zip(groups, given):
            group.update(theirs)
        self.optimizer._require_shared()
        self.optimizer.state.clear()  # the engine has the donor's

    def read_moments(self) -> "_state.State":
        return _state.read(self.model._engine, self.model._stream(), lambda n: n.partition(".")[0] in self.moments)

    def take_moments(self) -> None:
        """Collective: the engine goes on with the optimizer's state."""
        self.model._rebuild(self.model.steps, self.optimizer._blocks(self.model._table), masters=True)
