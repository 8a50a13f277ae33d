"""The value function inside any torch optimizer: the direction it proposes is added to, or replaces, the gradient."""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from metricopt.core.errors import FileFormatError, MetricOptWarning
from metricopt.core.seeding import stream
from metricopt.paper.checks import check_choice, check_numbers, only_parameter
from metricopt.paper.guided_es import Value, exact_direction, guided_direction, host, like, unit_step
from metricopt.paper.guided_single import OnHost, SinglePhi
from metricopt.paper.orthonormal import TINY

Combine = Literal["add", "replace"]
Estimator = Literal["es", "exact"]


class MetricGuided(Optimizer):
    """A torch optimizer whose gradient is led by a value function; the metric itself is never queried.

    How u_t is found (`estimator`) and what is done with it (`combine`) are independent choices, so they are two
    arguments. The paper writes down u_t but not the update that uses it: `combine="replace"` is its text (u_t is the
    descent direction, the loss acts through the subspace only), `combine="add"` is its objective, Eq. 1.

    Schedulers, hooks and `zero_grad` work as on the base: both share their `param_groups`. The history of gradients
    and the state of the generator are kept apart from the base's state and saved with it.

    Args:
        base: Optimizer of the one parameter phi, (dim,) or (population, dim).
        value: Predicted cost of points (n, dim), (n,); lower is better. A module is evaluated in eval mode and on its
            own device, whatever that of phi; any other function on the device of phi. For a single phi one that is
            `OnHost` is asked in this way.
        combine: `add` u_t to the loss gradient or `replace` it.
        estimator: `es`, Eq. 4 from `pairs` perturbations, or `exact`, its mean 2 Sigma grad f.
        weight: lambda of Eq. 1, used by `add` only.
        pairs: P, antithetic pairs a step.
        memory: k, recent loss gradients that span the search.
        sigma: s, size of the perturbations.
        normalise: Make steps independent of `dim` and of the value function's scale. With `replace` the direction
            has length 1; with `add` its length is `weight` times the root mean square length of the loss gradients so
            far. (The present gradient's length would silence the metric where the loss has converged; this way its
            push falls no faster than one over the square root of the number of steps.) False is the paper's formula.
        seed: Of the perturbations.

    Without any loss (no gradient at all) use `replace`: the search then goes in all directions alike.

    Example:
        >>> phi = torch.nn.Parameter(torch.tensor([1.0, 1.0]))
        >>> base = torch.optim.SGD([phi], lr=0.1)
        >>> optimizer = MetricGuided(base, lambda points: points.square().sum(1), combine="replace")
        >>> for _ in range(50):
        ...     optimizer.zero_grad()
        ...     phi[0].backward()  # the loss knows about one coordinate only
        ...     optimizer.step()
        >>> bool(phi.norm() < 0.2)
        True
    """

    def __init__(
        self,
        base: Optimizer,
        value: Value,
        *,
        combine: Combine = "add",
        estimator: Estimator = "es",
        weight: float = 1.0,
        pairs: int = 3,
        memory: int = 3,
        sigma: float = 0.1,
        normalise: bool = True,
        seed: int = 0,
    ) -> None:
        check_choice("combine", combine, get_args(Combine))
        check_choice("estimator", estimator, get_args(Estimator))
        check_numbers(pairs=pairs, memory=memory, sigma=sigma, weight=weight)
        phi = only_parameter(base)
        self.base = base
        self._phi = phi
        self.value = value
        self.combine, self.estimator, self.normalise = combine, estimator, normalise
        self.weight, self.pairs, self.sigma = weight, pairs, sigma
        self.generator = stream(seed, "metric_guided")
        self._warned = False
        self._on_host = value.on_host if isinstance(value, OnHost) else None
        self._flat = phi.dim() == 1
        self._alone = phi.numel() == phi.shape[-1] and phi.dtype in (torch.float32, torch.float64)
        self._single: SinglePhi | None = None
        self._parts = tuple(value.modules()) if isinstance(value, torch.nn.Module) else ()
        super().__init__(base.param_groups, base.defaults)
        population, dim = (1, *phi.shape)[-2:]
        self.state[phi] = {
            # In the processor's memory wherever phi is: the guidance is computed there. In double precision: whether
            # a gradient depends on the others is seen in digits that single precision does not have.
            "past_gradients": torch.zeros(population, memory, dim, dtype=torch.float64),
            "mean_square": torch.zeros(population, 1, dtype=torch.float64),  # of the loss gradients' lengths
            "steps": 0,
        }

    # The base replaces its list when a state is loaded; a copy of the reference would go stale and schedulers with it.
    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The base optimizer's own groups."""
        return self.base.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.base.param_groups = groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused once there is a group: the value function knows one phi."""
        if self.param_groups:
            raise ValueError("MetricGuided has its one parameter phi; use another optimizer for other parameters")
        super().add_param_group(param_group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step of the base optimizer along the guided gradient; `phi.grad` is left as the loss made it.

        Args:
            closure: Computes the loss and its gradient; called once.

        Returns:
            What `closure` returned.
        """
        if self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks:
            return Optimizer.profile_hook_step(MetricGuided._step)(self, closure)
        return self._step(closure)

    # Keeps torch from putting its hooks and its profiler around this step too: around the base's own they are anyway,
    # and a second time they cost a tenth of what the guidance does.
    step.hooked = True  # pyright: ignore[reportFunctionMemberAccess]

    def _step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        phi = self._phi
        own_gradient = phi.grad
        gradient = torch.zeros_like(phi) if own_gradient is None else own_gradient
        alone = self._alone and self.estimator == "es" and phi.is_cpu
        phi.grad = (self._guided_single if alone else self._guided_gradient)(phi, gradient)
        try:
            self.base.step()
        finally:
            phi.grad = own_gradient
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The base's state, with past gradients and the generator under `guided`."""
        own = {**self.state[self._phi], "generator": self.generator.get_state()}
        return {**self.base.state_dict(), "guided": own}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken."""
        if "guided" not in state_dict:
            raise FileFormatError(
                f"the optimizer state has {sorted(state_dict)} but no 'guided', so it is not from MetricGuided; "
                f"load it into the base optimizer"
            )
        saved, state = dict(state_dict["guided"]), self.state[self._phi]
        found, expected = tuple(saved["past_gradients"].shape), tuple(state["past_gradients"].shape)
        if found != expected:
            raise FileFormatError(
                f"the optimizer state holds past gradients of shape {found}, expected {expected}; "
                f"use the phi and the memory it was saved with"
            )
        self.base.load_state_dict({key: state_dict[key] for key in ("state", "param_groups")})
        self.generator.set_state(saved.pop("generator").cpu())
        for name in ("past_gradients", "mean_square"):
            state[name] = saved[name].to(state[name], copy=True).nan_to_num_(0.0, 0.0, 0.0)
        state["steps"] = saved["steps"]
        self._single = None

    def __getstate__(self) -> dict[str, Any]:
        # torch's own keeps groups and state only, so a copy would have no base; a scheduler's wrapper stays behind.
        # What works in the memory of the state is made anew.
        return {name: item for name, item in self.__dict__.items() if name != "step"} | {"_single": None}

    def _guided_single(self, phi: Tensor, gradient: Tensor) -> Tensor:
        """The same as `_guided_gradient` gives for one member, in fewer calls, see `single`."""
        single = self._single
        if single is None or single.settings != (self.pairs, self.sigma, phi.dtype):
            state = self.state[phi]
            single = self._single = SinglePhi(state, pairs=self.pairs, sigma=self.sigma, dtype=phi.dtype)
        flat = gradient.detach() if gradient.requires_grad else gradient
        flat = flat if self._flat else flat.reshape(-1)
        guided = single.direction(self._values, single.point(phi), flat, self.generator)
        square = float(guided.dot(guided))
        # Within these bounds no digit is lost to numbers that are too small or too large for the type.
        if not 1e-20 < square < 1e20:
            guided = guided.astype(np.float64)
            square = float(guided.dot(guided))
            if not math.isfinite(square) and not np.isfinite(guided).all():
                self._warn(1, 1)
                return gradient.detach()
        size = 1 / (math.sqrt(max(square, TINY)) if self.normalise else self.sigma**2 * self.pairs)
        if self.combine == "add":
            size *= self.weight * (math.sqrt(single.mean_square) if self.normalise else 1.0)
        guided *= size
        found = single.added(flat, guided) if self.combine == "add" else torch.from_numpy(guided).to(phi.dtype)
        return found if self._flat else found.view_as(phi)

    def _values(self, points: np.ndarray) -> np.ndarray:
        """The value of points (n, dim) in the processor's memory."""
        values = None if self._on_host is None else self._on_host(points)
        if values is not None:
            return values
        with torch.no_grad(), _evaluating(self._parts):
            return host(self._value_at(torch.from_numpy(points))).reshape(-1)

    @torch.no_grad()
    def _guided_gradient(self, phi: Tensor, gradient: Tensor) -> Tensor:
        self._single = None  # it keeps a number of its own
        rows, gradients = phi.reshape(-1, phi.shape[-1]), gradient.reshape(-1, phi.shape[-1])  # (population, dim)
        self._remember(gradients)
        direction = self._direction(rows.detach())
        guided = self._combined(gradients, direction)
        # The sum is not finite where any entry is not; only then it is worth finding out which.
        if not math.isfinite(float(direction.sum())):
            usable = torch.isfinite(direction).all(-1, keepdim=True)
            if not usable.all():
                self._warn(int((~usable).sum()), len(usable))
            guided = torch.where(usable, guided, gradients)
        return guided.view_as(phi)

    def _remember(self, gradients: Tensor) -> None:
        state, rows = self.state[self._phi], host(gradients).astype(np.float64)
        square = np.einsum("pd,pd->p", rows, rows)[:, None]
        if not np.isfinite(square).all():
            rows = np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
            square = np.einsum("pd,pd->p", rows, rows)[:, None]
        past, mean_square = host(state["past_gradients"]), host(state["mean_square"])  # of the same memory
        past[:, state["steps"] % past.shape[1]] = rows  # the oldest one's place: their order does not matter
        state["steps"] += 1
        mean_square += (square - mean_square) / state["steps"]

    def _direction(self, phi: Tensor) -> Tensor:
        past_gradients = self.state[self._phi]["past_gradients"]
        with _evaluating(self._parts):
            if self.estimator == "exact":
                return exact_direction(self._value_at, phi, past_gradients)
            return guided_direction(
                self._value_at, phi, past_gradients, pairs=self.pairs, sigma=self.sigma, generator=self.generator
            )

    def _value_at(self, points: Tensor) -> Tensor:
        """The value of points (n, dim), which may be on another device than a module that computes it."""
        if not isinstance(self.value, torch.nn.Module):
            return self.value(points)
        own = next(chain(self.value.parameters(), self.value.buffers()), points)
        return self.value(points if own.device == points.device else points.to(own.device)).to(points.device)

    def _combined(self, gradients: Tensor, direction: Tensor) -> Tensor:
        step = unit_step(host(direction)) if self.normalise else host(direction)
        if self.combine == "add":
            scale = np.sqrt(host(self.state[self._phi]["mean_square"])) if self.normalise else 1.0
            step = host(gradients) + (self.weight * scale) * step
        return like(gradients, step)

    def _warn(self, failed: int, population: int) -> None:
        if self._warned:
            return
        self._warned = True
        warnings.warn(
            f"the value function gave no finite direction for {failed} of {population} members; they follow the plain "
            f"loss gradient: check the value function near the present phi (said once)",
            MetricOptWarning,
            stacklevel=2,
        )


@contextmanager
def _evaluating(parts: tuple[torch.nn.Module, ...]) -> Iterator[None]:
    # BatchNorm in train mode would mix the perturbed copies: f(phi + delta) would depend on the other rows,
    # and the antithetic difference would no longer be about delta.
    training = [module for module in parts if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
