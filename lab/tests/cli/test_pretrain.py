"""`metricopt pretrain` on a handful of made-up images."""

import json

import pytest
import torch

from metricopt.cli.app import main
from metricopt.data.dataset import Examples
from metricopt_lab import data
from metricopt_lab.data import Cifar10Split
from metricopt_lab.problems import load_network


def pictures(count, seed):
    draw = torch.Generator().manual_seed(seed)
    return Examples(torch.randn(count, 3, 32, 32, generator=draw), torch.arange(count) % 10)


@pytest.fixture(autouse=True)
def few_images(monkeypatch):
    monkeypatch.setattr(data, "cifar10_split", lambda: Cifar10Split(pictures(20, 0), pictures(10, 1), pictures(10, 2)))


def exit_code(*arguments):
    with pytest.raises(SystemExit) as left:
        main(["pretrain", *map(str, arguments)])
    return int(left.value.code or 0)


SMALL = ("small_convnet", "--epochs", 2, "--batch-size", 4, "--threads", 1)


def test_it_leaves_a_network_and_says_how_good_it_is(tmp_path, capsys):
    assert exit_code(*SMALL, "--out", tmp_path, "--json", tmp_path / "facts.json") == 0
    facts = json.loads((tmp_path / "facts.json").read_text())
    net = load_network(tmp_path)
    with torch.no_grad():
        right = (net(pictures(10, 2).inputs).argmax(1) == torch.arange(10)).double().mean()
    assert facts["test_accuracy"] == right and facts["epochs"] == len(facts["history"]) == 2
    said = capsys.readouterr()
    assert f"small_convnet: accuracy {facts['validation_accuracy']:.4f} on validation images" in said.out
    assert "after 2 epochs of 20 images" in said.out and "network.json" in said.out


def test_settings_given_replace_those_of_the_plan_and_others_stay(tmp_path, capsys):
    options = ("--lr", 0.01, "--seed", 5, "--subset", 12, "--augment", "--loss", "lovasz_softmax", "--json", "-")
    assert exit_code(*SMALL, *options, "--out", tmp_path) == 0
    facts = json.loads(capsys.readouterr().out)
    found = {name: facts[name] for name in ("lr", "seed", "images", "augment", "loss", "batch_size", "weight_decay")}
    assert found == {
        "lr": 0.01, "seed": 5, "images": 12, "augment": True, "loss": "lovasz_softmax", "batch_size": 4,
        "weight_decay": 5e-4,
    }  # fmt: skip


def test_a_second_run_in_the_folder_must_be_a_resumed_one_and_changes_nothing(tmp_path, capsys):
    assert exit_code(*SMALL, "--out", tmp_path) == 0
    before = load_network(tmp_path).state_dict()
    capsys.readouterr()
    assert exit_code(*SMALL, "--out", tmp_path) == 1
    assert "holds a training already" in capsys.readouterr().err
    assert exit_code(*SMALL, "--out", tmp_path, "--resume") == 0
    after = load_network(tmp_path).state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_threads_are_those_asked_for_during_the_training_only(tmp_path, capsys):
    before = torch.get_num_threads()
    assert exit_code(*SMALL[:-1], 2, "--out", tmp_path, "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["threads"] == 2
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["resnet23"],
            "model is 'resnet23'; expected 'small_convnet', 'resnet32', 'nasnet_a' or 'resnet18': did you mean "
            "'resnet32'?",
        ),
        (["nasnet_a", "--data", "imagenet"], "image data is 'imagenet'; expected 'cifar10' or 'tinyimagenet'"),
        (["resnet32", "--loss", "cross"], "there is no loss named 'cross'; did you mean 'cross_entropy'?"),
        (["resnet32", "--device", "tpu"], "device is 'tpu'; expected 'auto', 'cpu' or 'cuda'"),
        (["resnet32", "--lr", "-1"], "the learning rate is -1.0; expected a positive number"),
        (["resnet32", "--epochs", "0"], "'--epochs'"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(arguments, sentence, capsys, tmp_path):
    assert exit_code(*arguments, "--out", tmp_path / "new") == 2
    said = capsys.readouterr()
    assert sentence in " ".join(said.err.replace("│", " ").split()) and said.out == ""
    assert not (tmp_path / "new").exists()


def test_a_gpu_that_is_not_there_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert exit_code("resnet32", "--device", "cuda", "--out", tmp_path / "new") == 2
    assert "device is 'cuda' and torch sees no GPU" in capsys.readouterr().err
