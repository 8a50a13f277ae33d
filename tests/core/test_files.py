import errno
import hashlib
import json
import os
import pickle
import random
from pathlib import Path

import pytest
import torch
from torch import nn

import metricopt as mo
from metricopt.core.errors import FileFormatError
from metricopt.core.files import load, save
from metricopt.core.plain import unpacked
from metricopt.losses import cross_entropy
from metricopt.metrics.external.cache import AnswerCache
from metricopt.metrics.external.metrics import Outside
from metricopt.paper.network import ValueNetwork
from metricopt.run.events import NAME, read_events
from metricopt.run.journal import open_journal
from metricopt.run.ledger import QueryLedger

FINGERPRINT = "0123456789abcdef"
WHOLE = f"{NAME}.whole"


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 1))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with one of everything that can be loaded."""
    folder = tmp_path_factory.mktemp("saved")
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(300, 3, generator=draw)
    y = (x[:, 0] > 0.5).long()
    mo.optimize(
        net(),
        loss=cross_entropy,
        metric="f1",
        train=(x[:100], y[:100]),
        val=(x[100:], y[100:]),
        queries=12,
        recipe=mo.Recipe(start_steps=5, candidates=20),
        keep=[mo.Constraint("accuracy", at_least=0.1)],
        run_dir=folder,
    )
    mo.save_adapter(mo.adapt(net(), mo.DynamicBias(dim=4) + mo.OutputAffine()), folder)
    value = ValueNetwork(4, hidden=(5, 3), generator=draw)
    mo.save_value(value, folder, fingerprint=FINGERPRINT)
    AnswerCache(folder / "cache").keep("a", 0.5)
    (folder / WHOLE).write_bytes((folder / NAME).read_bytes())
    return folder


def resumed(folder):
    start, *queries = read_events(folder / WHOLE)
    phi = torch.stack([unpacked(event["phi"]) for event in queries if event["event"] == "query"])
    with open_journal(folder, {k: v for k, v in start.items() if k not in ("event", "time")}, resume=True) as journal:
        return QueryLedger(journal=journal).sheet(phi, stage="start")


LOADERS = {
    "result": lambda folder: mo.load_result(folder, net(), "f1"),
    "adapter": lambda folder: mo.load_adapter(folder, net()),
    "value": lambda folder: mo.load_value(folder, fingerprint=FINGERPRINT),
    "events": lambda folder: read_events(folder / NAME),
    "resume": resumed,
    "cache": lambda folder: Outside(lambda _: "0", retries=0, cache=folder / "cache"),
}
FILES = {"events": NAME, "resume": NAME, "cache": "cache"}


def copied(saved, folder, kind):
    folder.mkdir(parents=True, exist_ok=True)
    for path in saved.iterdir():
        if path.name.startswith((kind, FILES.get(kind, kind))):
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


def targets(folder, kind):
    return [folder / FILES[kind]] if kind in FILES else sorted(folder.glob(f"{kind}*"))


@pytest.mark.parametrize("kind", LOADERS)
def test_what_was_saved_is_loaded(saved, tmp_path, kind):
    assert LOADERS[kind](copied(saved, tmp_path, kind)) is not None


def test_a_loaded_result_says_and_computes_the_same(saved, tmp_path):
    result = mo.load_result(saved, net(), "f1")
    result.save(tmp_path)
    again = mo.load_result(tmp_path, net(), "f1")
    assert again.to_dict() == result.to_dict() and str(again) == str(result)
    assert again.ledger.queries == result.ledger.queries and again.kept == result.kept
    x = torch.ones(2, 3)
    assert torch.equal(again.model(x), result.model(x)) and torch.equal(again.outcome.at(3), result.outcome.at(3))


def test_nothing_loads_for_another_network_metric_or_model(saved):
    other = net()
    other[0].weight.data[0, 0] += 1
    with pytest.raises(FileFormatError, match=r"saved for a model with fingerprint \w{16}, this one has \w{16}"):
        mo.load_adapter(saved, other)
    with pytest.raises(FileFormatError, match="fingerprint"):
        mo.load_result(saved, other, "f1")
    with pytest.raises(FileFormatError, match="metric whose name is 'f1', but this one has 'mcr'"):
        mo.load_result(saved, net(), "mcr")
    with pytest.raises(
        FileFormatError, match=f"learnt for the model with fingerprint {FINGERPRINT}, this one has ffff"
    ):
        mo.load_value(saved, fingerprint="ffff")
    with pytest.raises(FileFormatError, match="does not fit this network"):
        mo.load_adapter(saved, nn.Linear(3, 2))


def test_another_version_or_kind_is_named(tmp_path):
    save(tmp_path, "thing", {}, {"a": torch.ones(1)}, version=2)
    with pytest.raises(FileFormatError, match="is of version 2; this metricopt reads version 1"):
        load(tmp_path, "thing", version=1)
    (tmp_path / "other.json").write_bytes((tmp_path / "thing.json").read_bytes())
    with pytest.raises(FileFormatError, match="holds a 'thing'; expected a 'other'"):
        load(tmp_path, "other", version=1)


def test_a_manifest_cannot_name_a_file_elsewhere(tmp_path):
    save(tmp_path / "here", "thing", {}, {"a": torch.ones(1)}, version=1)
    path = tmp_path / "here" / "thing.json"
    manifest = json.loads(path.read_text())
    (tmp_path / manifest["tensors"]).write_bytes((path.parent / manifest["tensors"]).read_bytes())
    path.write_text(json.dumps({**manifest, "tensors": f"../{manifest['tensors']}"}))
    with pytest.raises(FileFormatError, match=r"is damaged .tensors"):
        load(tmp_path / "here", "thing", version=1)


@pytest.mark.parametrize("call", ["os.fsync", "Path.replace"])
@pytest.mark.parametrize("after", [0, 1])
def test_a_full_disk_is_one_sentence_and_the_previous_state_survives_wherever_it_strikes(
    tmp_path, monkeypatch, call, after
):
    save(tmp_path, "thing", {"turn": 1}, {"a": torch.zeros(3)}, version=1)
    calls = iter(range(100))
    true = os.fsync if call == "os.fsync" else Path.replace

    def full(*arguments):
        if next(calls) >= after:
            raise OSError(errno.ENOSPC, "No space left on device")
        return true(*arguments)

    monkeypatch.setattr(f"metricopt.core.writing.{call}", full)
    with pytest.raises(FileFormatError, match=r"cannot be written .No space left on device.; what was saved before"):
        save(tmp_path, "thing", {"turn": 2}, {"a": torch.ones(3)}, version=1)
    monkeypatch.undo()
    again = load(tmp_path, "thing", version=1)
    assert again.facts == {"turn": 1} and again.tensors["a"].tolist() == [0.0] * 3
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")], "drafts are removed"


def test_saving_again_replaces_and_leaves_nothing_behind(tmp_path):
    for turn in range(3):
        save(tmp_path, "thing", {"turn": turn}, {"a": torch.full((2,), float(turn))}, version=1)
    assert load(tmp_path, "thing", version=1).facts == {"turn": 2}
    assert len(list(tmp_path.iterdir())) == 2


class Bomb:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (os.mkdir, (self.mark,))


def mutated(content, random_, bomb):
    """The content with a part changed, cut, doubled, or replaced by noise or by something that would run code."""
    where, size = random_.randrange(len(content) + 1), random_.randrange(1, 40)
    noise = random_.randbytes(size)
    ways = [
        lambda: content[:where],
        lambda: content[:where] + content[where + size :],
        lambda: content[:where] + noise + content[where + size :],
        lambda: content[:where] + content[max(0, where - size) :],
        lambda: (
            content[:where] + random_.choice([b"null", b"-1", b"1e999", b'"x"', b"[]", b"{}"]) + content[where + 3 :]
        ),
        lambda: bytes(_changed_number(content, random_)),
        lambda: noise,
        lambda: bomb,
        lambda: b"[" * 100_000,
        lambda: b"",
    ]
    return random_.choices(ways, weights=[4, 4, 4, 4, 6, 8, 1, 1, 1, 1])[0]()


def _changed_number(content, random_):
    digits = [i for i, byte in enumerate(content) if byte in b"0123456789"] or [0]
    changed = bytearray(content)
    for _ in range(random_.randrange(1, 4)):
        changed[random_.choice(digits)] = random_.choice(b"0123456789-.e")
    return changed


def _signed(folder, path, content):
    """Put tensors under the name that their hash demands, so that the reader gets to look at them."""
    name = f"{path.stem[:-17]}-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    manifest = folder / f"{path.stem[:-17]}.json"
    manifest.write_text(manifest.read_text().replace(path.name, name))
    (folder / name).write_bytes(content)


@pytest.mark.parametrize("kind", LOADERS)
def test_no_mutated_file_does_more_than_load_or_be_refused(saved, tmp_path, kind):
    mark, random_, refused = tmp_path / "executed", random.Random(kind), 0
    bomb = pickle.dumps(Bomb(str(mark)))
    rounds = 1000
    for turn in range(rounds):
        folder = copied(saved, tmp_path / str(turn), kind)
        path = random_.choice(targets(folder, kind))
        content = mutated(path.read_bytes(), random_, bomb)
        if path.suffix == ".safetensors" and random_.random() < 0.7:
            _signed(folder, path, content)
        else:
            path.write_bytes(content)
        try:
            LOADERS[kind](folder)
        except FileFormatError as error:
            refused += 1
            assert "\n" not in str(error)[:400] and len(str(error)) > 20
    assert not mark.exists()
    assert refused > rounds / 4
