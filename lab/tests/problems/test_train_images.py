import json
import math

import pytest
import torch
from torch import nn

from metricopt.core.errors import DataError, FileFormatError, MetricOptError
from metricopt.core.seeding import stream
from metricopt.data.dataset import Examples
from metricopt.losses import LOSSES, cross_entropy
from metricopt_lab.problems.train_images import Epoch, Plan, accuracy, train_images

PLAN = Plan(epochs=3, batch_size=8, lr=0.05, augment=True, seed=3)
STEPS, TOTAL = 4, 12  # 37 images, 8 a step


def pictures(count, seed):
    draw = torch.Generator().manual_seed(seed)
    targets = torch.arange(count) % 3
    return Examples(torch.randn(count, 3, 8, 8, generator=draw) + targets.view(-1, 1, 1, 1), targets)


TRAIN, VALIDATION = pictures(37, 0), pictures(20, 1)


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(), nn.Linear(144, 3)
    )


def train(folder, *, plan=PLAN, stop=None, loss=cross_entropy, data=TRAIN, **options):
    """Weights and history; `stop` raises after that many steps, as if the process had been killed there."""

    def watch(step, total, text):
        assert total == TOTAL
        if step == stop:
            raise KeyboardInterrupt

    net = network()
    history = train_images(net, data, VALIDATION, plan, loss=loss, folder=folder, watch=watch, **options)
    return {name: tensor.clone() for name, tensor in net.state_dict().items()}, history


def same(a, b):
    return a[1] == b[1] and a[0].keys() == b[0].keys() and all(torch.equal(a[0][name], b[0][name]) for name in a[0])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("save_every", [0.0, math.inf], ids=["saved each step", "saved each epoch"])
@pytest.mark.parametrize("stop", [1, STEPS, STEPS + 2, TOTAL], ids=["at once", "epoch 1", "epoch 2, half", "the end"])
def test_a_training_stopped_within_or_after_an_epoch_ends_with_the_bits_of_an_uninterrupted_one(
    tmp_path, whole, stop, save_every
):
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, stop=stop, save_every=save_every)
    assert same(train(tmp_path, resume=True), whole)


def test_a_training_may_be_stopped_after_every_single_step(tmp_path, whole):
    for stop in range(1, TOTAL + 1):
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, stop=stop, save_every=0.0, resume=True)
    assert same(train(tmp_path, resume=True), whole)


def test_a_resumed_training_does_only_what_is_left(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, stop=7, save_every=math.inf)
    seen = []
    net = network()
    train_images(
        net, TRAIN, VALIDATION, PLAN, loss=cross_entropy, folder=tmp_path, resume=True,
        watch=lambda step, *_: seen.append(step),
    )  # fmt: skip
    assert seen == list(range(STEPS + 1, TOTAL + 1))


def by_hand(plan):
    """The same training written out: SGD with Nesterov momentum on the images in random order."""
    net, momenta, step = network().eval(), None, 0
    net[3] = nn.Dropout(0.0)
    for epoch in range(plan.epochs):
        order = torch.randperm(37, generator=stream(plan.seed, "train images", "order", epoch))
        for rows in order.split(8)[:STEPS]:
            net.train()
            gradient = torch.autograd.grad(
                cross_entropy(net(TRAIN.inputs[rows]), TRAIN.targets[rows]), [*net.parameters()]
            )
            rising = 0.15 * TOTAL
            lr = plan.lr * min(
                (step + 1) / rising, 0.5 + 0.5 * math.cos(math.pi * max(0, step - rising) / (TOTAL - rising))
            )
            with torch.no_grad():
                pull = [g + 5e-4 * p for g, p in zip(gradient, net.parameters(), strict=True)]
                momenta = pull if momenta is None else [0.9 * m + g for m, g in zip(momenta, pull, strict=True)]
                for p, g, m in zip(net.parameters(), pull, momenta, strict=True):
                    p -= lr * (g + 0.9 * m)
            step += 1
    return net


def test_it_is_sgd_with_nesterov_momentum_a_warm_up_and_a_cosine(tmp_path):
    plan = Plan(epochs=3, batch_size=8, lr=0.05, augment=False)
    net = network()
    net[3] = nn.Dropout(0.0)
    train_images(net, TRAIN, VALIDATION, plan, loss=cross_entropy, folder=tmp_path)
    for found, expected in zip(net.parameters(), by_hand(plan).parameters(), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_seed_and_augmentation_matter_and_the_global_random_state_does_not(tmp_path, whole):
    torch.manual_seed(77)
    expected = torch.rand(1)
    torch.manual_seed(77)
    net = network()
    torch.manual_seed(77)
    train_images(net, TRAIN, VALIDATION, PLAN, loss=cross_entropy, folder=tmp_path / "b")
    assert torch.equal(torch.rand(1), expected), "the state is as it was before"
    assert torch.equal(net[5].weight, whole[0]["5.weight"])
    for other in (Plan(3, 8, 0.05, True, seed=4), Plan(3, 8, 0.05, False, seed=3)):
        assert not same(train(tmp_path / repr(other), plan=other), whole)


def test_the_history_has_the_accuracy_of_each_epoch_and_the_net_learns(tmp_path):
    net = network()
    history = train_images(
        net, TRAIN, VALIDATION, Plan(epochs=12, batch_size=8, lr=0.05, augment=False), loss=cross_entropy,
        folder=tmp_path,
    )  # fmt: skip
    with torch.no_grad():
        right = net(VALIDATION.inputs).argmax(1) == VALIDATION.targets
    assert len(history) == 12 and history[-1].accuracy == right.double().mean() > 0.8
    assert history[-1].loss < history[0].loss and not net.training


@pytest.mark.parametrize("name", list(LOSSES))
def test_every_registered_loss_trains_or_says_that_it_is_about_two_classes(tmp_path, name):
    try:
        _, history = train(tmp_path, loss=LOSSES[name])
    except DataError as error:
        assert "two" in str(error)
    else:
        assert all(math.isfinite(epoch.loss) for epoch in history)


def test_a_folder_with_a_training_is_not_overwritten(tmp_path):
    train(tmp_path)
    with pytest.raises(FileFormatError, match="holds a training already; expected a new folder: resume it"):
        train(tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"plan": Plan(3, 8, 0.06, True, seed=3)}, "lr was 0.05 and is 0.06"),
        ({"data": pictures(38, 0)}, "train was '[0-9a-f]{16}' and is"),
        ({"about": {"loss": "lovasz_softmax"}}, "loss was None and is 'lovasz_softmax'"),
    ],
)
def test_another_training_is_not_resumed(tmp_path, change, sentence):
    train(tmp_path)
    with pytest.raises(FileFormatError, match=f"cannot be resumed: {sentence}"):
        train(tmp_path, resume=True, **change)


def test_a_damaged_state_is_named(tmp_path):
    train(tmp_path)
    manifest = json.loads((tmp_path / "training.json").read_text())
    manifest["facts"]["history"] = [{"loss": "low"}]
    (tmp_path / "training.json").write_text(json.dumps(manifest))
    with pytest.raises(FileFormatError, match=r"has the epoch .*low.*; the file is damaged"):
        train(tmp_path, resume=True)


def test_a_loss_that_is_no_number_ends_it_with_advice_and_is_not_kept(tmp_path):
    with pytest.raises(
        MetricOptError, match=r"the loss is nan at step 1 of 12; .* lower learning rate \(it is 0\.05\)"
    ):
        train(tmp_path, loss=lambda outputs, _: outputs.sum() * math.nan)
    assert not list(tmp_path.iterdir())


def test_plans_and_data_that_make_no_sense_are_refused(tmp_path):
    for wrong in ({"epochs": 0}, {"batch_size": 0}, {"lr": 0.0}, {"lr": math.nan}):
        with pytest.raises(DataError, match="expected at least 1 of each and a positive rate"):
            Plan(**{"epochs": 1, "batch_size": 1, "lr": 0.1, "augment": False, **wrong})
    with pytest.raises(DataError, match="37 images are fewer than the 64 of one step"):
        train(tmp_path, plan=Plan(1, 64, 0.1, False))


def test_accuracy_counts_every_image_once():
    data = Examples(torch.eye(3).repeat(401, 1).view(-1, 3, 1, 1), torch.arange(1203) % 3)
    data.targets[:3] = torch.tensor([1, 2, 0])
    assert accuracy(nn.Flatten(), data) == 1200 / 1203
    assert Epoch(0.5, 0.25) == Epoch(loss=0.5, accuracy=0.25)
