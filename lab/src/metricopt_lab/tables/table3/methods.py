"""The rows of Table 3: losses on the whole network, rivals on phi, and MetricOpt, paper's recipe and ours."""

import copy
import dataclasses
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import final

import torch
from torch import Tensor, nn

from metricopt.acceptance.comparison import Comparison
from metricopt.acceptance.judge import Judge
from metricopt.adapters import AdaptedModel, DynamicBias, Parameters
from metricopt.api.propose import propose
from metricopt.core.registry import Registry
from metricopt.losses import cost_sensitive_f, lovasz_hinge
from metricopt.metrics import Metric
from metricopt.paper.preset import PaperPreset
from metricopt.task.base import Loss
from metricopt_lab.problems import Problem, pretrain
from metricopt_lab.rivals import BASELINES
from metricopt_lab.rivals.published import PUBLISHED, rival_of
from metricopt_lab.rivals.published.lesson import Pace
from metricopt_lab.rivals.published.paces import WHOLE

TARGETS = (0.2, 0.4, 0.6, 0.8, 1.0)
"""Values of F that the cost-sensitive loss is aimed at, one network each."""


@dataclasses.dataclass(frozen=True)
class Proposal:
    """What a method proposes, before anything decides whether to keep it.

    Attributes:
        outputs: Outputs for inputs, (n, features) -> (n, ...).
        queries: Metric queries it took.
        rank_correlation: Of a value function with observations it had not seen; None for a method without one.
        held: The original against it on the rows that accept, if these have chosen it.
    """

    outputs: Callable[[Tensor], Tensor]
    queries: int
    rank_correlation: float | None = None
    held: Comparison | None = None


@final
class Bench:
    """A pre-trained network with all that is derived from it once and used for several metrics.

    Attributes:
        problem: Data, network, and the paper's 16 dynamic biases with an output affine.
        queries: Metric queries a method may spend.
        paces: Of published rivals and of losses, by row, where it is not their own.
    """

    def __init__(self, problem: Problem, queries: int, paces: Mapping[str, Pace] | None = None) -> None:
        self.problem, self.queries, self.paces = problem, queries, paces or {}

    @cached_property
    def literal(self) -> Problem:
        """The same with the paper's own adapter: dynamic biases alone."""
        return dataclasses.replace(self.problem, adapter=DynamicBias(dim=16))

    @cached_property
    def weights(self) -> Problem:
        """The same with all weights in place of phi."""
        return dataclasses.replace(self.problem, adapter=Parameters("*", dim=None))

    @cached_property
    def lovasz(self) -> nn.Module:
        """The network trained on by the Lovász hinge, all weights of it."""
        return self._trained_on(lovasz_hinge, self.paces.get("lovasz", WHOLE))

    @cached_property
    def cost_sensitive(self) -> list[nn.Module]:
        """The network trained on by cost-sensitive cross-entropy, once for each target."""
        return [self._trained_on(cost_sensitive_f(t), self.paces.get("cost_sensitive", WHOLE)) for t in TARGETS]

    @cached_property
    def loss_only(self) -> Callable[[Tensor], Tensor]:
        """Outputs after finetuning phi on the loss alone, which no metric has a say in."""
        oracle = self.problem.oracle(queries=0)
        phi = BASELINES["loss_only"].run(oracle, queries=0, seed=self.problem.seed).phi
        return partial(_of_phi, self.problem.model, phi)

    def _trained_on(self, loss: Loss, pace: Pace) -> nn.Module:
        problem = self.problem
        return pretrain(
            copy.deepcopy(problem.net),
            problem.train,
            loss=loss,
            epochs=pace.steps,
            batch_size=problem.batch_size,
            lr=pace.lr,
            sampling=problem.sampling,
            seed=problem.seed,
        )


Method = Callable[[Bench, Metric], Proposal]

METHODS: Registry[Method] = Registry("method")
"""The rows of the table, in its order."""


@METHODS.add("ce")
def ce(bench: Bench, metric: Metric) -> Proposal:  # noqa: ARG001
    """Cross-entropy: the pre-trained network as it is."""
    return Proposal(partial(_of_network, bench.problem.net), 0)


@METHODS.add("lovasz")
def lovasz(bench: Bench, metric: Metric) -> Proposal:  # noqa: ARG001
    """LO: the whole network trained on by the Lovász hinge."""
    return Proposal(partial(_of_network, bench.lovasz), 0)


@METHODS.add("cost_sensitive")
def cost_sensitive(bench: Bench, metric: Metric) -> Proposal:
    """CS: the whole network trained on by cost-sensitive cross-entropy, the best of 5 targets."""
    search = bench.problem.search
    outputs = torch.stack([_of_network(net, search.inputs) for net in bench.cost_sensitive])
    best = int(metric.cost(metric.values(outputs, search.targets)).argmin())
    return Proposal(partial(_of_network, bench.cost_sensitive[best]), len(TARGETS))


@METHODS.add("loss_only")
def loss_only(bench: Bench, metric: Metric) -> Proposal:  # noqa: ARG001
    """Finetuning of phi on the training loss, without a query."""
    return Proposal(bench.loss_only, 0)


def _rival(bench: Bench, metric: Metric, *, name: str) -> Proposal:
    oracle = bench.problem.oracle(queries=bench.queries, metric=metric)
    outcome = BASELINES[name].run(oracle, queries=bench.queries, seed=bench.problem.seed)
    return Proposal(partial(_of_phi, bench.problem.model, outcome.phi), oracle.ledger.used)


for _name in ("loss_dense", "post_shift", "random_search", "cma_es"):
    METHODS.add(_name)(partial(_rival, name=_name))


def _published(bench: Bench, metric: Metric, *, name: str) -> Proposal:
    """A rival of the paper's own table on phi or, by its suffix, on all weights."""
    where = bench.weights if name.endswith("_weights") else bench.problem
    oracle = where.oracle(queries=bench.queries, metric=metric)
    rival = PUBLISHED[rival_of(name)].at(bench.paces.get(name))
    outcome = rival.run(oracle, queries=bench.queries, seed=where.seed)
    return Proposal(partial(_of_phi, where.model, outcome.phi), oracle.ledger.used)


for _name in ("sl", "sl_weights"):
    METHODS.add(_name)(partial(_published, name=_name))


def _paper(bench: Bench, metric: Metric, *, preset: PaperPreset) -> Proposal:
    """The paper's two stages: 16 dynamic biases, T = 50, K = 3, Reptile, guided ES."""
    oracle = bench.literal.oracle(queries=bench.queries, metric=metric)
    outcome, correlation = propose(oracle, queries=bench.queries, preset=preset, seed=bench.problem.seed)
    return Proposal(partial(_of_phi, bench.literal.model, outcome.phi), oracle.ledger.used, correlation)


METHODS.add("metricopt_paper")(partial(_paper, preset="paper"))
METHODS.add("metricopt_letter")(partial(_paper, preset="paper-letter"))


@METHODS.add("metricopt")
def metricopt(bench: Bench, metric: Metric) -> Proposal:
    """MetricOpt, default search: starts, output shifts and a local Gaussian process as the value function."""
    oracle = bench.problem.oracle(queries=bench.queries, metric=metric)
    outcome, correlation = propose(oracle, queries=bench.queries, seed=bench.problem.seed)
    judge = Judge(bench.problem.model, bench.problem.accept, seed=bench.problem.seed)
    phi, held = judge.keep_best(metric, outcome.rungs())
    return Proposal(partial(_of_phi, bench.problem.model, phi), oracle.ledger.used, correlation, held)


def _of_network(net: nn.Module, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        return net(inputs)


def _of_phi(model: AdaptedModel, phi: Tensor, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        return model.outputs(phi[None], inputs)[0]
