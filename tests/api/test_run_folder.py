import pytest
import torch
from torch import nn

import metricopt as mo
from metricopt.core.errors import FileFormatError, MetricOptError
from metricopt.core.plain import unpacked
from metricopt.losses import cross_entropy
from metricopt.run.events import NAME, read_events

# Twenty trajectories teach the paper's value network nothing, which is beside the point here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::metricopt.core.errors.FlatValueWarning"),
    pytest.mark.usefixtures("quick_paper"),
]

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(700, 3, generator=DRAW)
Y = (X[:, 0] + 0.5 * torch.randn(700, generator=DRAW) > 0.8).long()


def optimised(*, net_seed=0, data=X, queries=90, preset="default", **settings):
    torch.manual_seed(net_seed)
    net = nn.Sequential(nn.Linear(3, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 1))
    return mo.optimize(
        net,
        loss=cross_entropy,
        metric="f1",
        train=(data[:300], Y[:300]),
        val=(data[300:], Y[300:]),
        queries=queries,
        preset=preset,
        recipe=mo.Recipe(start_steps=20, candidates=40) if preset == "default" else None,
        **settings,
    )


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_a_folder_changes_nothing_and_its_log_tells_every_query(tmp_path, preset):
    plain, logged = optimised(preset=preset), optimised(preset=preset, run_dir=tmp_path)
    assert torch.equal(plain.proposal, logged.proposal) and plain.ledger.queries == logged.ledger.queries
    events = read_events(tmp_path / NAME)
    queries = [event for event in events if event["event"] == "query"]
    assert [event["cost"] for event in queries] == [query.cost for query in logged.ledger.queries]
    assert [event["index"] for event in queries] == list(range(logged.ledger.used))
    assert all(unpacked(event["phi"]).shape == logged.proposal.shape for event in queries)
    assert events[0]["event"] == "start" and events[0]["data"]["val"]["rows"] == 240
    result = next(event for event in events if event["event"] == "result")
    assert torch.equal(unpacked(result["proposal"]), logged.proposal) and result["before"] == logged.comparison.before


@pytest.mark.parametrize(
    ("preset", "lines"), [*(("default", lines) for lines in (0, 1, 2, 30, 80)), ("paper", 30), ("paper", 91)]
)
def test_a_log_cut_anywhere_is_resumed_to_the_same_bits(tmp_path, preset, lines):
    whole = optimised(preset=preset, run_dir=tmp_path)
    log = tmp_path / NAME
    before = [{k: v for k, v in e.items() if k not in ("time", "seconds")} for e in read_events(log)]
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:lines]) + b'{"event": "torn')
    again = optimised(preset=preset, run_dir=tmp_path, resume=True)
    assert torch.equal(whole.proposal, again.proposal) and whole.comparison == again.comparison
    assert whole.ledger.queries == again.ledger.queries and whole.ledger.resamples == again.ledger.resamples
    after = [{k: v for k, v in e.items() if k not in ("time", "seconds")} for e in read_events(log)]
    assert [event for event in after if event["event"] != "resume"] == before


def test_a_finished_run_is_resumed_without_asking_anything(tmp_path):
    first = optimised(run_dir=tmp_path)
    size = (tmp_path / NAME).stat().st_size
    again = optimised(run_dir=tmp_path, resume=True)
    assert again.to_dict() | {"seconds": 0} == first.to_dict() | {"seconds": 0}
    assert (tmp_path / NAME).stat().st_size < size + 200, "one line says that it was resumed"


def test_watchers_hear_every_event_with_or_without_a_folder(tmp_path):
    heard, logged = [], []
    optimised(watch=[heard.append])
    optimised(watch=[logged.append], run_dir=tmp_path)
    lasting = [[event["event"] for event in events if event["event"] != "phase"] for events in (heard, logged)]
    assert lasting[0] == lasting[1]  # of phases the clock tells
    assert {"start", "query", "forecast", "incumbent", "accepted", "result"} <= {event["event"] for event in heard}


def test_a_folder_with_a_run_is_refused_without_resume(tmp_path):
    optimised(run_dir=tmp_path)
    with pytest.raises(FileFormatError, match="holds a run already"):
        optimised(run_dir=tmp_path)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"seed": 1}, r"settings.seed was 0 and is 1"),
        ({"queries": 95}, "settings.queries was 90 and is 95"),
        ({"net_seed": 1}, "model.fingerprint was"),
        ({"data": X + 0.1}, r"data\..*fingerprint was"),
        ({"learn_from_val": False}, "settings.learn_from_val was true and is false"),
    ],
)
def test_a_run_with_anything_else_is_not_resumed_and_the_difference_is_named(tmp_path, changed, named):
    optimised(run_dir=tmp_path)
    with pytest.raises(FileFormatError, match=named):
        optimised(run_dir=tmp_path, resume=True, **changed)


def test_a_folder_that_cannot_be_written_is_one_sentence_before_any_query(tmp_path):
    (tmp_path / "file").write_text("")
    ledger = mo.QueryLedger()
    with pytest.raises(MetricOptError, match="cannot be written"):
        optimised(run_dir=tmp_path / "file" / "run", ledger=ledger)
    assert ledger.used == 0


def shares(y_true, labels):
    return float((y_true == labels).mean())


def test_another_function_of_the_same_name_is_not_resumed(tmp_path):
    def optimised_by(function, **settings):
        metric = mo.Metric(function, on="labels", goal="max", name="mine")
        torch.manual_seed(0)
        return mo.optimize(
            nn.Linear(3, 1),
            loss=cross_entropy,
            metric=metric,
            train=(X[:300], Y[:300]),
            val=(X[300:], Y[300:]),
            queries=12,
            recipe=mo.Recipe(start_steps=5, candidates=20),
            run_dir=tmp_path,
            **settings,
        )

    optimised_by(shares)
    optimised_by(shares, resume=True)
    with pytest.raises(FileFormatError, match=r'metric.function was "shares \w{16}" and is "<lambda> \w{16}"'):
        optimised_by(lambda y, p: float((y == p).mean()) * 0.9, resume=True)
