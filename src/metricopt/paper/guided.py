"""The value function inside any torch optimizer: the direction it proposes is added to, or replaces, the gradient."""

import warnings
from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.optim import Optimizer

from metricopt.core.errors import MetricOptWarning
from metricopt.core.registry import one_of
from metricopt.core.seeding import stream
from metricopt.paper._single_phi import SinglePhi
from metricopt.paper.checks import check_numbers, check_saved, only_parameter
from metricopt.paper.equation_4_direction import exact_direction, guided_direction, unit_step
from metricopt.paper.past_gradients import no_gradients, remember
from metricopt.paper.value_function import EvaluatedValue, ValueFunction

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
        value: ValueFunction,
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
        one_of(combine, get_args(Combine), what="combine")
        one_of(estimator, get_args(Estimator), what="estimator")
        check_numbers(pairs=pairs, memory=memory, sigma=sigma, weight=weight)
        phi = only_parameter(base)
        self.base = base
        self.combine = combine
        self.estimator = estimator
        self.weight = weight
        self.pairs = pairs
        self.sigma = sigma
        self.normalise = normalise
        self.generator = stream(seed, "metric_guided")
        self._phi = phi
        self._value = EvaluatedValue(value, phi)
        self._warned = False
        self._flat = phi.dim() == 1
        self._alone = phi.numel() == phi.shape[-1] and phi.dtype in (torch.float32, torch.float64)
        self._single: SinglePhi | None = None
        super().__init__(base.param_groups, base.defaults)
        population, dim = (1, *phi.shape)[-2:]
        self.state[phi] = no_gradients(population, memory, dim)

    @property
    def value(self) -> ValueFunction:
        """The value function."""
        return self._value.value

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
        own = phi.grad
        gradient = torch.zeros_like(phi) if own is None else own
        if gradient.requires_grad:
            gradient = gradient.detach()
        # One phi is one member of a population, but that is the usual case and has a faster way of its own.
        alone = self._alone and self.estimator == "es" and phi.is_cpu
        phi.grad = self._guided_single(phi, gradient) if alone else self._guided_population(phi, gradient)
        try:
            self.base.step()
        finally:
            phi.grad = own
        return loss

    @torch.no_grad()
    def _guided_population(self, phi: Tensor, gradient: Tensor) -> Tensor:
        self._single = None  # it keeps a number of its own
        rows = phi.detach().cpu().reshape(-1, phi.shape[-1])  # (population, dim)
        gradients = gradient.cpu().reshape(rows.shape)
        remember(self.state[phi], gradients)
        direction = self._direction(rows)
        usable = torch.isfinite(direction).all(-1, keepdim=True)  # (population, 1)
        if not usable.all():
            self._warn(int((~usable).sum()), len(usable))
        guided = torch.where(usable, self._combined(gradients, direction), gradients)
        return guided.view_as(phi).to(phi.device)

    def _direction(self, phi: Tensor) -> Tensor:
        """u_t of each member, (population, dim)."""
        past_gradients = self.state[self._phi]["past_gradients"]
        if self.estimator == "exact":
            return exact_direction(self._value, phi, past_gradients)
        return guided_direction(
            self._value, phi, past_gradients, pairs=self.pairs, sigma=self.sigma, generator=self.generator
        )

    def _combined(self, gradients: Tensor, direction: Tensor) -> Tensor:
        step = unit_step(direction) if self.normalise else direction
        if self.combine == "replace":
            return step
        if self.normalise:
            step = step * self.state[self._phi]["mean_square"].sqrt()
        return (gradients + self.weight * step).to(gradients)

    def _guided_single(self, phi: Tensor, gradient: Tensor) -> Tensor:
        """The same for one member, see `_single_phi`."""
        single = self._single
        if single is None or single.settings != (self.pairs, self.sigma, phi.dtype):
            state = self.state[phi]
            single = self._single = SinglePhi(state, pairs=self.pairs, sigma=self.sigma, dtype=phi.dtype)
        guided = single.guided_gradient(
            self._value.of_array,
            phi,
            gradient if self._flat else gradient.reshape(-1),
            self.generator,
            weight=self.weight if self.combine == "add" else None,
            normalise=self.normalise,
        )
        if guided is None:
            self._warn(1, 1)
            return gradient
        return guided if self._flat else guided.view_as(phi)

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

    def state_dict(self) -> dict[str, Any]:
        """The base's state, with past gradients and the generator under `guided`."""
        own = {**self.state[self._phi], "generator": self.generator.get_state()}
        return {**self.base.state_dict(), "guided": own}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken."""
        state = self.state[self._phi]
        check_saved(state_dict, expected=tuple(state["past_gradients"].shape))
        self.base.load_state_dict({key: state_dict[key] for key in ("state", "param_groups")})
        saved = state_dict["guided"]
        self.generator.set_state(saved["generator"].cpu())
        for name in ("past_gradients", "mean_square"):
            state[name] = saved[name].to(state[name], copy=True).nan_to_num_(0.0, 0.0, 0.0)
        state["steps"] = saved["steps"]
        self._single = None

    def __getstate__(self) -> dict[str, Any]:
        # torch's own keeps groups and state only, so a copy would have no base; a scheduler's wrapper stays behind.
        # What works in the memory of the state is made anew.
        return {name: item for name, item in self.__dict__.items() if name != "step"} | {"_single": None}
