"""What an optimisation found, in memory and on disk."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from metricopt.acceptance.comparison import Comparison, Kept
from metricopt.acceptance.judge import Judge
from metricopt.adapters import AdaptedModel
from metricopt.adapters.saved import adapter_facts, restored
from metricopt.core.checked import count, number, pair, record, whole
from metricopt.core.errors import FileFormatError, MetricOptError
from metricopt.core.files import Saved, load, save
from metricopt.core.reading import Read
from metricopt.core.records import Outcome
from metricopt.core.tree import Call, Tree, call
from metricopt.data.dataset import Examples
from metricopt.data.given import as_data
from metricopt.metrics import Metric, as_metric
from metricopt.run.events import Event
from metricopt.run.ledger import Query, QueryLedger
from metricopt.search.transfer import CarriedValue, save_carried

if TYPE_CHECKING:
    from metricopt.report.history import History

_VERSION = 2  # 1 lacked plain steps and constraint checks
_LIKELY = 0.6  # confidence from which a proposal is worth a second look
Verdict = Literal["better", "likely better, not sure", "not better"]
_OWN = "result."  # before the names of tensors that are not the adapter's


@dataclass(frozen=True, repr=False)
class Result:
    """What `optimize` found.

    Attributes:
        model: The adapted model at the accepted phi; at phi = 0, the original, when nothing was accepted.
        metric: The metric that was optimised.
        comparison: Original against proposal on the rows that judge, in the metric's natural units.
        proposal: The phi that was judged, accepted or not, (dim,): the search's best, or a plainer one (`plainer`).
        outcome: The search's best, with what fewer queries would have given.
        ledger: Every metric query.
        seconds: Wall time.
        rank_correlation: Of the value function with observations held out from it.
        kept: The constraints on the rows that judge.
        stopped: Why the search ended before its queries were spent; empty if it did not.
        plan: What was stated before the first call: the most calls of each phase, what the metric is given, the loss.
        events: What happened (metricopt.run.events), for the report; empty in a result that was loaded.
        carried: What the search of an adapter has learnt, for `optimize(..., value=...)` elsewhere; None where weights
            were finetuned, and in a result that was loaded.

    Example:
        >>> from metricopt.api.optimize import optimize
        >>> from metricopt.losses import cross_entropy
        >>> x = torch.randn(900, 2, generator=torch.Generator().manual_seed(0))
        >>> y, net = (x[:, 0] > 0.5).long(), nn.Linear(2, 1)
        >>> _ = nn.init.eye_(net.weight), nn.init.zeros_(net.bias)  # its threshold is at 0
        >>> result = optimize(net, loss=cross_entropy, metric="f1", train=(x[:300], y[:300]), val=(x[300:], y[300:]),
        ...                   queries=20)
        >>> result.accepted, type(result.merge()).__name__, result.to_dict()["queries"] <= 20
        (True, 'Linear', True)
    """

    model: AdaptedModel
    metric: Metric
    comparison: Comparison
    proposal: Tensor
    outcome: Outcome
    ledger: QueryLedger
    seconds: float
    rank_correlation: float
    kept: tuple[Kept, ...] = ()
    stopped: str = ""
    plan: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    events: tuple[Event, ...] = field(default=(), repr=False, compare=False)
    carried: CarriedValue | None = field(default=None, repr=False, compare=False)

    @property
    def accepted(self) -> bool:
        """Whether the proposal is surely better on the rows that judge it, and keeps every constraint there.

        `comparison.rows` says which these are: "held-out", "out-of-fold" or "searched".
        """
        return self.comparison.accepted and all(kept.holds for kept in self.kept)

    @property
    def verdict(self) -> Verdict:
        """Whether the proposal is "better", "likely better, not sure", or "not better"; only the first is accepted."""
        if self.accepted:
            return "better"
        likely = self.comparison.confidence >= _LIKELY and all(kept.holds for kept in self.kept)
        return "likely better, not sure" if likely else "not better"

    @property
    def proposed(self) -> nn.Module:
        """The proposal as a plain module, whatever the verdict."""
        model = self.model.twin()
        model.phi.data.copy_(self.proposal)
        return model.merge()

    @property
    def plainer(self) -> bool:
        """Whether a start, a shift of outputs or an earlier point is kept: the search's best was not surely better."""
        return self.accepted and not torch.equal(self.proposal, self.outcome.phi)

    def merge(self) -> nn.Module:
        """A plain module of the original architecture with the adapter folded in, in eval mode: ready to predict."""
        return self.model.merge()

    def evaluate(self, data: Any, *, resamples: int | None = None, seed: int = 0) -> Comparison:
        """Original against result on test data, once, to report."""
        given = as_data(data, name="test data", dtype=self.model.like.dtype)
        given = given.with_truth_on_host() if isinstance(given, Examples) else given
        phi = self.model.phi.detach().cpu()
        pair = torch.stack([torch.zeros_like(phi), phi])
        return Judge(self.model, given, seed=seed).compare(self.metric, pair, resamples=resamples)

    @property
    def history(self) -> "History":
        """Every query in order: stage, value, the best so far, and which was kept."""
        from metricopt.report import run_of
        from metricopt.report.history import history

        return history(run_of(self.events or _events(self)))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from metricopt.report import run_of
        from metricopt.report.notebook import html_of

        return html_of(run_of(self.events or _events(self)))

    def report(self, path: Path | str) -> Path:
        """Write one self-contained HTML page about the run; a result that was loaded has no phi of its queries."""
        # Imported here: most results are never drawn.
        from metricopt.report import run_of, write_report

        return write_report(run_of(self.events or _events(self)), path)

    def save(self, folder: Path | str) -> None:
        """Write everything but network and metric into a folder; `load_result` reads it back."""
        tensors = {
            **self.model.tensors(),
            f"{_OWN}proposal": self.proposal,
            f"{_OWN}incumbents": _stacked(self.outcome.incumbents, self.proposal),
            f"{_OWN}plain": _stacked(self.outcome.plain, self.proposal),
        }
        save(folder, "result", _facts(self), tensors, version=_VERSION)

    def save_value(self, path: Path | str, **about: Any) -> Path:
        """Write what the search has learnt into one `.safetensors` file, for `optimize(..., value=Path(...))`.

        Whatever is to be known of it later may be said: `save_value("mine", data="areas 0 and 2", network="an MLP")`.
        """
        if self.carried is None:
            raise FileFormatError(
                "this result has no value function to save; expected that of an adapter's search that was not loaded "
                "from a file: call optimize with tune='adapter'"
            )
        return save_carried(replace(self.carried, about={**self.carried.about, **about}), path)

    def save_pretrained(self, folder: Path | str) -> None:
        """Write the improved network of transformers, or the adapter of a PEFT model, as its own library does."""
        # Imported here: most networks are of neither.
        from metricopt.integrations.weights import save_pretrained

        save_pretrained(self, folder)

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain data for JSON; `before` and `after` are on the rows that judge."""
        held = self.comparison
        return {
            "metric": self.metric.name,
            "goal": self.metric.goal,
            "before": held.before,
            "after": held.after if self.accepted else held.before,
            "proposed": held.after,
            "interval": list(held.interval),
            "level": held.level,
            "accepted": self.accepted,
            "verdict": self.verdict,
            "plainer": self.plainer,
            "confidence": held.confidence,
            "constraints": [asdict(kept) for kept in self.kept],
            "queries": self.ledger.used,
            "failed_queries": self.ledger.failures,
            "resamples": self.ledger.resamples,
            "constraint_checks": self.ledger.checks,
            "decision_calls": self.ledger.decisions,
            "calls": self.ledger.calls,
            "planned_calls": self.plan.get("calls"),
            "rank_correlation": self.rank_correlation,
            "stopped": self.stopped,
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        held = self.comparison
        broken = [kept for kept in self.kept if not kept.holds]
        why = f" ({broken[0].text} is not sure: {broken[0].bound:.4f})" if broken and held.accepted else ""
        step = (
            " (a start, a shift or an earlier point: the search's best was not surely better)" if self.plainer else ""
        )
        verdict = f"accepted{step}" if self.accepted else f"not accepted{why}: the original model is returned"
        if self.verdict == "likely better, not sure":
            verdict = f"likely better ({held.confidence:.0%}), not sure: the original model is returned, see .proposed"
        planned = f" of at most {self.plan['calls']}" if "calls" in self.plan else ""
        early = f"; stopped early: {self.stopped}" if self.stopped else ""
        return (
            f"{self.metric.name} ({self.metric.goal}): {held}, {verdict}; {self.ledger.used} metric queries, "
            f"{self.ledger.calls} calls in all{planned}, {self.seconds:.1f} s{early}"
        )

    def __repr__(self) -> str:
        held = self.comparison
        return f"<Result {self.metric.name}: {held.before:.4f} -> {held.after:.4f}, {self.verdict}>"


def load_result(
    folder: Path | str, net: nn.Module, metric: Any, *, example: Tree = None, call: Call = call, read: Read = None
) -> Result:
    """The result that `Result.save` saved, for the network and the metric it was found with.

    Args:
        folder: Where it was saved.
        net: The pre-trained network; another one is refused.
        metric: The metric; one of another name or goal is refused.
        example: The first two rows of the training inputs, as `optimize` takes them, for networks whose order of
            layers shows only when they run.
        call: How the network is called, if it was said.
        read: Which tensor of its output is meant, if it was said.

    Example:
        >>> import tempfile
        >>> from metricopt.api.optimize import optimize
        >>> from metricopt.losses import cross_entropy
        >>> x = torch.randn(900, 2, generator=torch.Generator().manual_seed(0))
        >>> y, net = (x[:, 0] > 0.5).long(), nn.Linear(2, 1)
        >>> _ = nn.init.eye_(net.weight), nn.init.zeros_(net.bias)  # its threshold is at 0
        >>> result = optimize(net, loss=cross_entropy, metric="f1", train=(x[:300], y[:300]), val=(x[300:], y[300:]),
        ...                   queries=20)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result.save(folder)
        ...     again = load_result(folder, net, "f1")
        >>> torch.equal(again.model(x), result.model(x)), again.to_dict() == result.to_dict()
        (True, True)
    """
    saved, metric = load(folder, "result", version=_VERSION), as_metric(metric)
    _check_metric(saved, metric)
    own = {name: tensor for name, tensor in saved.tensors.items() if name.startswith(_OWN)}
    rest = {name: tensor for name, tensor in saved.tensors.items() if name not in own}
    try:
        model = restored(net, saved, rest, example=example, call=call, read=read)
        incumbents, plain = (_history(saved, own, name, model) for name in ("incumbents", "plain"))
        facts, proposal = saved.facts, own[f"{_OWN}proposal"]
        if proposal.shape != model.phi.shape or not incumbents:
            raise ValueError(f"a proposal of shape {tuple(proposal.shape)} and {len(incumbents)} incumbents")
        return Result(
            model=model,
            metric=metric,
            comparison=record(Comparison, {**facts["comparison"], "interval": pair(facts["comparison"]["interval"])}),
            proposal=proposal,
            outcome=Outcome(incumbents[-1][1], incumbents, plain),
            ledger=_ledger(facts["ledger"]),
            seconds=number(facts["seconds"]),
            rank_correlation=number(facts["rank_correlation"]),
            kept=tuple(record(Kept, kept) for kept in facts["kept"]),
            stopped=str(facts["stopped"]),
            plan=_plan(facts.get("plan", {})),
        )
    except FileFormatError:
        raise
    except (MetricOptError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(f"the result in {folder} is damaged ({error!r:.200}); expected a whole one") from error


def _events(result: Result) -> tuple[Event, ...]:
    """The events that a result remembers by itself."""
    metric, held = result.metric, asdict(result.comparison)
    about = {"name": metric.name, "goal": metric.goal, "on": metric.on, "bounds": list(metric.bounds)}
    start = {"event": "start", "metric": about, "settings": {"queries": result.ledger.budget}}
    queries = [{"event": "query", **asdict(query)} for query in result.ledger.queries]
    constraints = [asdict(kept) for kept in result.kept]
    accepted = {"event": "accepted", **held, "accepted": result.accepted, "constraints": constraints}
    return (start, *queries, accepted, {"event": "result", **result.to_dict(), "proposal": result.proposal})


def _facts(result: Result) -> dict[str, Any]:
    ledger = result.ledger
    return {
        **adapter_facts(result.model),
        "metric": {"name": result.metric.name, "goal": result.metric.goal, "on": result.metric.on},
        "comparison": asdict(result.comparison),
        "kept": [asdict(kept) for kept in result.kept],
        "incumbents": [at for at, _ in result.outcome.incumbents],
        "plain": [at for at, _ in result.outcome.plain],
        "ledger": {
            "budget": ledger.budget,
            "used": ledger.used,
            "resamples": ledger.resamples,
            "checks": ledger.checks,
            "decisions": ledger.decisions,
            "extra": ledger.extra,
            "queries": [asdict(query) for query in ledger.queries],
        },
        "seconds": result.seconds,
        "rank_correlation": result.rank_correlation,
        "stopped": result.stopped,
        "plan": result.plan,
    }


def _check_metric(saved: Saved, metric: Metric) -> None:
    found = saved.fact("metric", dict)
    for key, now in (("name", metric.name), ("goal", metric.goal), ("on", metric.on)):
        if found.get(key) != now:
            raise FileFormatError(
                f"the result was found with a metric whose {key} is {str(found.get(key))[:60]!r}, but this one has "
                f"{now!r}; pass the same metric"
            )


def _ledger(facts: dict[str, Any]) -> QueryLedger:
    budget = None if facts["budget"] is None else count(facts["budget"])
    ledger = QueryLedger(budget=budget, resamples=count(facts["resamples"]))
    ledger.charge(count(facts["used"]), stage="loaded")
    ledger.restore([_query(each) for each in facts["queries"]])
    ledger.checks = count(facts["checks"])  # those of the acceptance besides those of the queries
    ledger.decisions = count(facts["decisions"])
    ledger.extra = whole(facts.get("extra", 0))
    return ledger


def _query(facts: dict[str, Any]) -> Query:
    extra = whole(facts.get("extra", 0))
    return replace(record(Query, {**facts, "kept": tuple(map(number, facts["kept"])), "extra": 0}), extra=extra)


def _stacked(history: Sequence[tuple[int, Tensor]], like: Tensor) -> Tensor:
    return torch.stack([phi for _, phi in history]) if history else torch.zeros(0, len(like))


def _history(saved: Saved, own: dict[str, Tensor], name: str, model: AdaptedModel) -> tuple[tuple[int, Tensor], ...]:
    """Pairs of queries used and phi, as a search left them."""
    counts, phis = saved.fact(name, list), own[f"{_OWN}{name}"]
    if phis.shape != (len(counts), model.dim):
        raise ValueError(f"{name} of shape {tuple(phis.shape)} for {len(counts)} counts and dim {model.dim}")
    return tuple(zip(map(count, counts), phis, strict=True))


def _plan(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{str(value)[:40]!r} where a plan is expected")
    if value:
        count(value["calls"])
    return value
