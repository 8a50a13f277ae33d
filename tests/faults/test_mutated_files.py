"""However a saved file is damaged, it loads or is refused in one sentence; nothing else comes out, and nothing runs."""

import pickle
import random
import shutil

import pytest
import torch
from tests.core.saved_folder import FINGERPRINT, fill, net
from tests.faults.mutations import ROUNDS, mutate

import metricopt as mo
from metricopt.core.errors import FileFormatError, MetricOptError
from metricopt.core.plain import unpacked
from metricopt.metrics.external.cache import AnswerCache
from metricopt.report import page, read_run
from metricopt.run.events import NAME, read_events
from metricopt.run.journal import open_journal
from metricopt.run.ledger import QueryLedger


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with one of everything that can be loaded, and the log as it was for comparison."""
    folder = tmp_path_factory.mktemp("saved")
    fill(folder)
    mo.save_optimizer(mo.load_optimizer("cifar10_loss"), folder)
    for n in range(5):
        AnswerCache(folder / "cache").keep(f"{n}", n / 8)
    return folder, read_events(folder / NAME)


def resumed(folder, events):
    """What resuming does with a log: all that was answered is asked for again."""
    start = {key: value for key, value in events[0].items() if key not in ("event", "time")}
    phi = torch.stack([unpacked(event["phi"]) for event in events if event["event"] == "query"])
    with open_journal(folder, start, resume=True) as journal:
        ledger = QueryLedger(journal=journal)
        ledger.sheet(phi, stage="start")
        for event in events:
            if event["event"] == "asked":
                ledger.once(event["key"], lambda: None)


LOADERS = {
    "result": lambda folder, _: str(mo.load_result(folder, net(), "f1")),
    "adapter": lambda folder, _: mo.load_adapter(folder, net()),
    "value": lambda folder, _: mo.load_value(folder, fingerprint=FINGERPRINT),
    "learned-optimizer": lambda folder, _: mo.load_optimizer(folder),
    "events": lambda folder, _: read_events(folder / NAME),
    "resume": resumed,
    "report": lambda folder, _: page(read_run(folder)),
    "cache": lambda folder, _: AnswerCache(folder / "cache").find("0"),
}
FILES = {"events": NAME, "resume": NAME, "report": NAME, "cache": "cache"}


def targets(folder, kind):
    return [folder / FILES[kind]] if kind in FILES else sorted(folder.glob(f"{kind}*"))


def copied(source, folder, kind):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for path in targets(source, kind):
        shutil.copyfile(path, folder / path.name)
    return folder


@pytest.mark.parametrize("kind", LOADERS)
def test_what_was_saved_is_loaded(saved, tmp_path, kind):
    LOADERS[kind](copied(saved[0], tmp_path / "copy", kind), saved[1])


@pytest.mark.parametrize("kind", LOADERS)
def test_a_mutated_file_is_loaded_or_refused_in_one_sentence(saved, tmp_path, kind):
    refused = 0
    for turn in range(ROUNDS):
        draw = random.Random(f"{kind} {turn}")
        folder = copied(saved[0], tmp_path / "copy", kind)
        mutate(folder, draw.choice(targets(folder, kind)), draw)
        try:
            LOADERS[kind](folder, saved[1])
        except MetricOptError as error:
            refused += 1
            assert isinstance(error, FileFormatError), f"mutation {turn}: {error!r}"
            assert "\n" not in str(error) and 20 < len(str(error)) < 2000, f"mutation {turn}"
        except Exception as error:
            raise AssertionError(f"mutation {turn} of {kind} brought out {error!r}") from error
    assert refused > ROUNDS / 20 or kind in ("report", "cache")  # which leave out what they cannot read


class Bomb:
    """Would make a folder if it were unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        import os

        return (os.mkdir, (self.mark,))


@pytest.mark.parametrize("kind", LOADERS)
def test_nothing_in_a_file_is_ever_executed(saved, tmp_path, kind):
    for path in targets(copied(saved[0], tmp_path / "copy", kind), kind):
        path.write_bytes(pickle.dumps(Bomb(str(tmp_path / "executed"))))
        with pytest.raises(FileFormatError):
            LOADERS[kind](tmp_path / "copy", saved[1])
    assert not (tmp_path / "executed").exists()
