import errno
import json
import os
from pathlib import Path

import pytest
import torch
from tests.core.saved_folder import FINGERPRINT, fill, net
from torch import nn

import metricopt as mo
from metricopt.core.errors import FileFormatError
from metricopt.core.files import load, save


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with one of everything that can be loaded."""
    folder = tmp_path_factory.mktemp("saved")
    result = fill(folder)
    return folder, result


def test_a_loaded_result_says_and_computes_the_same(saved):
    folder, result = saved
    again = mo.load_result(folder, net(), "f1")
    assert again.to_dict() == result.to_dict() and str(again) == str(result)
    assert again.ledger.queries == result.ledger.queries and again.kept == result.kept
    x = torch.ones(2, 3)
    assert torch.equal(again.model(x), result.model(x)) and torch.equal(again.outcome.at(3), result.outcome.at(3))


def test_a_loaded_result_knows_its_plain_steps_and_all_constraint_checks(saved):
    folder, result = saved
    again = mo.load_result(folder, net(), "f1")
    assert result.outcome.plain and result.ledger.checks >= len(result.ledger.queries)
    assert again.ledger.checks == result.ledger.checks
    assert [used for used, _ in again.outcome.plain] == [used for used, _ in result.outcome.plain]
    assert torch.equal(again.outcome.rungs(), result.outcome.rungs())


def test_nothing_loads_for_another_network_metric_or_model(saved):
    saved, _ = saved
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
