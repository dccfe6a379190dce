"""Optimizers that step inside the engine: averaging, moments and update are one pass over memory.

They are ``torch.optim.Optimizer``s: ``param_groups`` are live (lr and weight_decay are read at every step, so schedulers
work), ``state_dict()`` and ``load_state_dict()`` are torch's. They step once their model is wrapped::

    opt = kith.optim.AdamW(net.parameters(), lr=1e-3)
    model = kith.DecentralizedDataParallel(net, opt)

With "awc" the update applies to the neighbours' average, and so does weight decay. Betas, eps and momentum are the same for all
groups and do not change. Defaults are those of kith's C++ and of ``kith train``.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Tuple, Union

import torch

from kith import _kith
from kith._kith import InputError
from kith._table import Table, flat

__all__ = ["SGD", "Adam", "AdamW", "AccumAdamW"]

_defaults = _kith.Options()

Parameters = Union[Iterable[torch.Tensor], Iterable[Dict[str, Any]]]


# Torch names every step for profilers and calls hooks around it, at a cost of 0.1 ms and more whether or not there are any. An optimizer
# of kith's does so where somebody listens.
_profiled: Callable[[], bool] = getattr(torch.autograd, "_profiler_enabled", lambda: True)
_hooks_of_all = [
    getattr(sys.modules[torch.optim.Optimizer.__module__], f"_global_optimizer_{when}_hooks", {}) for when in ("pre", "post")
]


def _somebody_listens(optimizer: torch.optim.Optimizer) -> bool:
    if _profiled() or any(_hooks_of_all):
        return True
    return bool(getattr(optimizer, "_optimizer_step_pre_hooks", None) or getattr(optimizer, "_optimizer_step_post_hooks", None))


def _told(step: Callable[..., Any]) -> Callable[..., Any]:
    """The step as torch's own optimizers have it."""
    if hasattr(torch.optim.Optimizer, "profile_hook_step"):
        return torch.optim.Optimizer.profile_hook_step(step)

    def told(self: Any, closure: Any = None) -> Any:  # as torch 1.13 does, which has no hooks
        with torch.autograd.profiler.record_function(f"Optimizer.step#{type(self).__name__}.step"):
            loss = step(self, closure)
            self._optimizer_step_code()
            return loss

    return told


class _Fused(torch.optim.Optimizer):
    _step_supports_amp_scaling = True  # an overflow skips the move, not the mix

    _kith_rule = ""
    _kith_fixed: Tuple[str, ...] = ()  # keys that all groups share
    _kith_names: Mapping[str, str] = {}  # the engine's name of a moment -> torch's

    def __init__(self, params: Parameters, defaults: Dict[str, Any]) -> None:
        self._kith_model: Any = None
        super().__init__(params, defaults)
        self._kith_shared = {key: self.param_groups[0][key] for key in self._kith_fixed}
        self._require_shared()

    @property
    def _kith_options(self) -> Dict[str, Any]:
        """Options of the engine."""
        raise NotImplementedError

    @property
    def _kith_moments(self) -> Tuple[str, ...]:
        return tuple(self._kith_names)

    def _require_shared(self) -> None:
        for g, group in enumerate(self.param_groups):
            for key, shared in self._kith_shared.items():
                if group[key] != shared:
                    raise InputError(
                        f"optimizer: group {g} has {key} {group[key]}, the optimizer began with {shared} (one for all groups "
                        "and steps; schedulers that cycle it have a switch, such as cycle_momentum=False)"
                    )

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:  # type: ignore[override]
        """Steps, and averages with the neighbours."""
        step = self._told_step if _somebody_listens(self) else self._step
        return step() if closure is None else step(closure)  # hooks see the arguments as they were given

    step.hooked = True  # type: ignore[attr-defined]  # torch need not wrap it

    def _step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        if self._kith_model is None:
            raise InputError("optimizer: its model is not wrapped (kith.DecentralizedDataParallel(module, optimizer) first)")
        self._require_shared()
        return self._kith_model._stepping.step(closure)

    _told_step = _told(_step)

    def state_dict(self) -> Dict[str, Any]:
        """As torch's, with this worker's moments as they now are."""
        self._pull()
        return super().state_dict()

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """As torch's. Collective once the model is wrapped: every worker loads its own."""
        super().load_state_dict(state_dict)
        # Moments keep their own precision, also those of 16-bit parameters.
        own = [p for group in self.param_groups for p in group["params"]]
        saved = [i for group in state_dict["param_groups"] for i in group["params"]]
        for parameter, i in zip(own, saved):
            if i in state_dict["state"]:
                self.state[parameter] = {
                    key: value.detach().clone() if torch.is_tensor(value) else value
                    for key, value in state_dict["state"][i].items()
                }
        self._require_shared()
        if self._kith_model is not None:
            self._kith_model._stepping.take_moments()

    def _pull(self) -> None:
        """Makes `state` what the engine holds."""
        if self._kith_model is None:
            return
        table = self._kith_model._table
        blocks = self._kith_model._stepping.read_moments()
        self.state.clear()
        for name, parameter in zip(table.names, table.parameters):
            steps = int(blocks[f"steps.{name}"])
            if steps == 0:
                continue
            entry = {"step": torch.tensor(float(steps))}
            for moment, key in self._kith_names.items():
                block = blocks[f"{moment}.{name}"]
                laid = torch.empty_strided(parameter.size(), parameter.stride(), dtype=block.dtype)
                flat(laid).copy_(block)
                entry[key] = laid.to(parameter.device)
            self.state[parameter] = entry

    def _blocks(self, table: Table) -> Dict[str, torch.Tensor]:
        """`state` as the engine names it; zeros where there is none."""
        blocks = {}
        for name, parameter in zip(table.names, table.parameters):
            entry = self.state.get(parameter, {})
            steps = int(entry.get("step", 1 if entry else 0))
            precise = torch.float64 if parameter.dtype == torch.float64 else torch.float32
            blocks[f"steps.{name}"] = torch.tensor([steps], dtype=torch.int64)
            for moment, key in self._kith_names.items():
                laid = torch.zeros_like(parameter, dtype=precise, device="cpu")
                if entry.get(key) is not None:
                    if entry[key].shape != parameter.shape:
                        raise InputError(
                            f"optimizer: {key} of parameter {name} has shape {tuple(entry[key].shape)}, the parameter "
                            f"{tuple(parameter.shape)} (load the state of this model's optimizer)"
                        )
                    laid.copy_(entry[key])
                blocks[f"{moment}.{name}"] = flat(laid)
        return blocks


class SGD(_Fused):
    """Stochastic gradient descent with optional momentum, as ``torch.optim.SGD``.

    Args:
        params: parameters or groups; a group may have its own lr and weight_decay.
        lr: the rate.
        momentum, dampening, nesterov: as in torch, the same for all groups.
        weight_decay: added to the gradient, times the parameter.
    """

    _kith_rule = "sgd"
    _kith_fixed = ("momentum", "dampening", "nesterov")

    def __init__(
        self,
        params: Parameters,
        lr: float = _defaults.lr,
        momentum: float = _defaults.momentum,
        dampening: float = _defaults.dampening,
        weight_decay: float = 0.0,
        nesterov: bool = _defaults.nesterov,
    ) -> None:
        self._kith_names = {"momentum": "momentum_buffer"} if momentum else {}
        defaults = dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov)
        super().__init__(params, defaults)

    @property
    def _kith_options(self) -> Dict[str, Any]:
        return {"optimizer": self._kith_rule, **self._kith_shared}


class Adam(_Fused):
    """Adam, as ``torch.optim.Adam``.

    Args:
        params: parameters or groups; a group may have its own lr and weight_decay.
        lr: the rate.
        betas, eps: as in torch, the same for all groups.
        weight_decay: added to the gradient, times the parameter.
    """

    _kith_rule = "adam"
    _kith_fixed: Tuple[str, ...] = ("betas", "eps")
    _kith_names = {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}

    def __init__(
        self,
        params: Parameters,
        lr: float = _defaults.lr,
        betas: Tuple[float, float] = (_defaults.beta1, _defaults.beta2),
        eps: float = _defaults.eps,
        weight_decay: float = 0.0,
        **more: Any,
    ) -> None:
        super().__init__(params, dict(lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay, **more))

    @property
    def _kith_options(self) -> Dict[str, Any]:
        shared = dict(self._kith_shared)
        beta1, beta2 = shared.pop("betas")
        return {"optimizer": self._kith_rule, "beta1": beta1, "beta2": beta2, **shared}

    def _require_shared(self) -> None:
        for group in self.param_groups:
            group["betas"] = tuple(group["betas"])
        super()._require_shared()


class AdamW(Adam):
    """Adam with decoupled weight decay, as ``torch.optim.AdamW``.

    Args:
        params: parameters or groups; a group may have its own lr and weight_decay.
        lr: the rate.
        betas, eps: as in torch, the same for all groups.
        weight_decay: shrinks the parameters by lr times this at every step.
    """

    _kith_rule = "adamw"

    def __init__(
        self,
        params: Parameters,
        lr: float = _defaults.lr,
        betas: Tuple[float, float] = (_defaults.beta1, _defaults.beta2),
        eps: float = _defaults.eps,
        weight_decay: float = _defaults.weight_decay,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)


class AccumAdamW(Adam):
    """AdamW whose moments take up the mean gradient of every `commit_every` steps (arXiv 2410.11998).

    Args:
        params: parameters or groups; a group may have its own lr and weight_decay.
        lr: the rate.
        betas, eps: as in torch, the same for all groups.
        weight_decay: shrinks the parameters by lr times this at every step.
        commit_every: steps between two commits of the moments.
    """

    _kith_rule = "accum-adamw"
    _kith_fixed = ("betas", "eps", "commit_every")
    _kith_names = {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq", "accumulated": "accumulated"}

    def __init__(
        self,
        params: Parameters,
        lr: float = _defaults.lr,
        betas: Tuple[float, float] = (_defaults.beta1, _defaults.beta2),
        eps: float = _defaults.eps,
        weight_decay: float = _defaults.weight_decay,
        commit_every: int = _defaults.commit_every,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, commit_every=commit_every)
