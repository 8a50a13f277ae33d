"""torchvision's detectors: phi acts where told, the rest is recalled, and `optimize` takes them as they are."""

import copy
import warnings

import pytest
import torch
from tests.detection.tiny import squares, tiny_detector, torchvision, trained

import metricopt as mo
from metricopt.adapters import FiLM, LayerAffine, WeightDirections, adapt
from metricopt.adapters.detector import PROPOSALS, behind_body, detect, own_losses
from metricopt.adapters.graph.cache import PrefixCache
from metricopt.api.detectors import detector_adapter
from metricopt.api.learner import learner_of
from metricopt.api.problem import Problem
from metricopt.core.errors import DataError
from metricopt.crossfit import CrossFit, Kind
from metricopt.data.dataset import Examples
from metricopt.losses.boxes import box_loss
from metricopt.metrics import ap50
from metricopt.task.loss_rule import loss_rule
from metricopt.task.out_of_fold import OutOfFoldTask
from metricopt.task.supervised import SupervisedTask

torchvision()

PLACES = {
    "pyramid": "backbone.fpn.layer_blocks.*",
    "rpn": "rpn.head.conv.*",
    "pooled": "roi_heads.box_roi_pool",
    "box head": "roi_heads.box_head.fc6",
    "scores": "roi_heads.box_predictor.cls_score",
}


@pytest.fixture(scope="module")
def net():
    return trained()


def somewhere(model, scale=0.5):
    return scale * torch.randn(model.dim, generator=torch.Generator().manual_seed(3))


def same(one, other):
    return all(
        torch.equal(a[name], b[name]) for a, b in zip(one, other, strict=True) for name in ("boxes", "scores", "labels")
    )


@pytest.fixture(params=PLACES, scope="module")
def model(request, net):
    images, _ = squares(2, 5)
    return adapt(copy.deepcopy(net), FiLM(dim=8, layers=PLACES[request.param]), example=images[:1], call=detect)


def test_at_zero_detections_are_those_of_the_frozen_detector_bit_for_bit(model, net):
    images, _ = squares(3, 6)
    with torch.no_grad():
        assert same(model.output(torch.zeros(model.dim), images), net(images))


def test_recalled_detections_are_those_of_the_model_bit_for_bit(model):
    images, targets = squares(4, 6, size=48)
    data, cache = Examples(images, targets), PrefixCache(model, probe=images)
    for phi in (torch.zeros(model.dim), somewhere(model)):
        expected = [model.output(phi, [image])[0] for image in images]
        assert same(cache.whole_outputs(phi[None], data)[0], expected)
    assert cache.holds(data) and cache.reason == ""


def test_what_comes_before_phi_is_never_run_again(model, monkeypatch):
    images, targets = squares(2, 6)
    data, cache = Examples(images, targets), PrefixCache(model, probe=images)
    cache.fill(data)
    calls, conv = [], torch.nn.Conv2d.forward
    monkeypatch.setattr(torch.nn.Conv2d, "forward", lambda layer, x: (calls.append(layer), conv(layer, x))[1])
    cache.whole_outputs(somewhere(model)[None], data)
    body = list(model.net.backbone.body.values())
    assert not [layer for layer in calls if any(layer is one for one in body)]


def test_beyond_the_limit_of_memory_examples_are_kept_in_files(net):
    images, targets = squares(6, 6)
    model = adapt(copy.deepcopy(net), FiLM(dim=8, layers=PLACES["pooled"]), example=images[:1], call=detect)
    data, cache = Examples(images, targets), PrefixCache(model, probe=images, memory=20_000)
    phi = somewhere(model)
    assert same(cache.whole_outputs(phi[None], data)[0], [model.output(phi, [image])[0] for image in images])
    assert cache.bytes_in_memory <= 20_000 < cache.bytes_on_disk


def test_examples_that_neither_memory_nor_half_of_the_disk_would_hold_are_computed_anew(net, monkeypatch):
    images, targets = squares(6, 6)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    model = adapt(copy.deepcopy(net), FiLM(dim=8, layers=PLACES["pooled"]), example=images[:1], call=detect)
    data, cache = Examples(images, targets), PrefixCache(model, probe=images, memory=20_000)
    phi = somewhere(model)
    assert same(cache.whole_outputs(phi[None], data)[0], model.output(phi, images))
    assert not cache.holds(data) and "over the limit" in cache.reason and cache.bytes_on_disk == 0


def test_a_merged_detector_is_of_its_class_and_finds_the_same(model):
    images, _ = squares(3, 7)
    model.phi.data.copy_(somewhere(model))
    merged, why = model.merged(images)
    assert type(merged) is type(model.net) and why == ""
    assert merged.state_dict().keys() == model.net.state_dict().keys()
    for one, other in zip(merged(images), model(images), strict=True):
        if one["scores"].shape == other["scores"].shape:  # at the edge of a threshold a box may come or go
            assert torch.allclose(one["scores"], other["scores"], atol=1e-3)


def test_a_box_head_that_does_not_begin_with_a_linear_layer_is_computed_not_folded():
    images, _ = squares(2, 7)
    net = tiny_detector()
    first = net.roi_heads.box_head

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.rest = torch.nn.BatchNorm2d(8).eval(), first

        def forward(self, x):
            return self.rest(self.norm(x))

    net.roi_heads.box_head = Scaled().eval()
    model = adapt(net, FiLM(dim=4, layers=PLACES["pooled"]), example=images[:1], call=detect)
    model.phi.data.copy_(somewhere(model))
    merged, why = model.merged(images)
    assert "cannot be folded" in why and same(merged(images), model(images))


def test_what_detect_adds_is_what_the_boxes_were_made_of(net):
    images, _ = squares(2, 8)
    with torch.no_grad():
        found = detect(net, images)
    assert same(found, net(images))
    for each in found:
        count = len(each["proposals"])
        assert each["class_logits"].shape == (count, 3) and each["box_deltas"].shape == (count, 12)


def test_the_second_stages_loss_falls_from_kept_examples_as_from_images(net):
    images, targets = squares(8, 9)
    data = Examples(torch.stack(images), targets)
    model = adapt(copy.deepcopy(net), detector_adapter(dim=8), example=images[:1], call=detect)
    task = SupervisedTask(model, metric=ap50(), train=data, search=data, loss=box_loss, batch_size=4)
    task.prepare()
    phi = torch.nn.Parameter(somewhere(model)[None].clone())
    index = torch.tensor([0, 3, 5, 6])
    kept = task.loss(phi, [task._batch(data, index, 0)])
    fresh = task.loss(phi, [data.batch(index)])
    torch.testing.assert_close(kept, fresh, rtol=1e-4, atol=1e-5)
    slopes = [torch.autograd.grad(loss.sum(), phi, retain_graph=True)[0] for loss in (kept, fresh)]
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-3, atol=1e-5)


def test_where_phi_reaches_the_first_stage_the_loss_is_all_that_the_detector_was_trained_with(net):
    images, targets = squares(4, 9)
    data = Examples(images, targets)
    for layers, name in ((PLACES["pooled"], "second stage"), (PLACES["pyramid"], "own losses")):
        model = adapt(copy.deepcopy(net), FiLM(dim=4, layers=layers), example=images[:1], call=detect)
        rule = loss_rule(None, model, data)
        assert name in rule.name
        phi = torch.zeros(4, requires_grad=True)
        rule(model, phi, data.batch(torch.arange(4))).backward()
        assert float(phi.grad.norm()) > 0


def test_a_detectors_own_losses_are_torchvisions_and_leave_its_modes_alone(net):
    images, targets = squares(4, 9)
    value = own_losses(net, (images, targets))
    twin = copy.deepcopy(net).train()
    twin.transform.eval()  # in train mode it draws a size, if only from one
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        expected = torch.stack(list(twin(images, targets).values())).sum()
    torch.testing.assert_close(value, expected)
    assert not any(module.training for module in net.modules())


def test_in_a_step_of_finetuning_the_second_stage_looks_at_few_proposals_and_afterwards_at_as_many_as_before(net):
    images, targets = squares(4, 9)
    twin, seen = copy.deepcopy(net).train(), []
    before = twin.roi_heads.fg_bg_sampler.batch_size_per_image
    twin.roi_heads.box_head.register_forward_hook(lambda _, given, __: seen.append(len(given[0])))
    own_losses(twin, (images, targets)).backward()
    assert seen[0] <= 4 * PROPOSALS < 4 * before
    assert twin.roi_heads.fg_bg_sampler.batch_size_per_image == before
    assert twin.training and twin.rpn.training


def dimmed(images):
    return [0.55 * image + 0.1 for image in images]


@pytest.fixture(scope="module")
def result(net, tmp_path_factory):
    (images, targets), (val, truth) = squares(16, 20), squares(60, 21)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mo.optimize(
            copy.deepcopy(net).train(),  # whatever mode it comes in
            metric="ap50",
            train=(images, targets),
            val=(dimmed(val), truth),
            queries=25,
            adapter=detector_adapter(dim=16),
            recipe=mo.Recipe(start_steps=10, candidates=40),
            batch_size=8,
            run_dir=tmp_path_factory.mktemp("run"),
        )


def test_optimize_takes_a_detector_as_it_is(result, net):
    assert result.ledger.used == 25
    assert result.metric.name == "AP50" and 0 <= result.comparison.before <= 1
    test = squares(20, 22)
    merged = result.merge()
    assert type(merged) is type(net)
    value = ap50().value(merged(dimmed(test[0])), test[1])
    assert value == pytest.approx(ap50().value(result.model(dimmed(test[0])), test[1]), abs=0.02)


def test_its_report_shows_pictures_with_boxes_won_and_lost(result, tmp_path):
    changes = next(event for event in result.events if event["event"] == "accepted")["changes"]
    assert changes["unit"] == "true box" and sum(changes["won"]) + sum(changes["lost"]) > 0
    page = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/jpeg;base64,") == 2 * len(changes["pictures"]) > 0  # wide and narrow
    assert 'class="box won"' in page and "true boxes of held-out images" in page


@pytest.fixture(scope="module")
def crossfitted(net):
    (images, targets), (val, truth) = squares(8, 20), squares(24, 21)
    effort = CrossFit(folds=2, epochs=2, batch=8, rates=(3e-3,), kinds=(Kind(balanced=False, mix=0.0),))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mo.optimize(
            net,
            metric="ap50",
            train=(images, targets),
            val=(dimmed(val), truth),
            queries=8,
            batch_size=8,
            effort=effort,
        )


def test_by_default_what_is_behind_the_body_is_finetuned_fold_by_fold(crossfitted, net):
    assert crossfitted.comparison.rows == "out-of-fold" and crossfitted.comparison.examples == 24
    merged, behind = crossfitted.merge().state_dict(), set(behind_body(net))
    changed = {name for name, tensor in net.state_dict().items() if not torch.equal(tensor, merged[name])}
    assert changed and changed <= behind
    assert {name.partition(".")[0] for name in changed} == {"backbone", "rpn", "roi_heads"}


def test_less_background_is_asked_about_once_the_weights_are_chosen(crossfitted):
    stages = [query.stage for query in crossfitted.ledger.queries]
    assert stages == ["original", *["finetuned weights"] * 3, *["less background"] * 4]
    proposed = crossfitted.proposal
    assert not proposed[1:4].any()  # scales of scores stay as they are
    assert proposed[4:].tolist() in ([0, 0, 0], [-1.5, 0, 0], [-3, 0, 0])
    assert float(proposed[0]) > 0  # the weights are better than less background alone


def test_its_out_of_fold_detections_are_those_of_the_finetuned_networks_themselves(net):
    images, targets = squares(6, 21)
    names = tuple(behind_body(net))
    model = adapt(copy.deepcopy(net), WeightDirections(1, names), example=images[:1], call=detect)
    data = Examples(images, targets)
    task = OutOfFoldTask(model, metric=ap50(), train=data, search=data)
    draw = torch.Generator().manual_seed(0)
    states = [
        {n: t + 0.01 * torch.randn(t.shape, generator=draw) for n, t in net.named_parameters() if n in names}
        for _ in range(2)
    ]
    task.take_folds(torch.arange(6) % 2, [[state] for state in states])
    (found,) = task.whole_outputs(torch.ones(1, 1))
    assert task.cache.recall is not None and task.cache.recall.names[-1] == "backbone.body.1"
    for row, image in enumerate(images):
        twin = copy.deepcopy(net)
        twin.load_state_dict(states[row % 2], strict=False)
        with torch.no_grad():
            (expected,) = twin([image])
        for name in ("boxes", "scores"):
            torch.testing.assert_close(found[row][name], expected[name], rtol=1e-4, atol=1e-3)


def test_a_copys_loss_of_kept_examples_is_that_of_the_images(net):
    images, targets = squares(6, 21)
    data = Examples(images, targets)
    problem = Problem(copy.deepcopy(net), ap50(), train=data, val=data, example=images[:1], call=detect)
    learner = learner_of(problem, "weights", CrossFit(folds=2), insist=True)
    twin = learner.copy().eval()
    (batch,) = learner.batches(torch.arange(3), torch.arange(0), seed=0)
    torch.testing.assert_close(learner.loss(twin, [batch]), own_losses(net, (images[:3], targets[:3])))
    assert {name for name, p in twin.named_parameters() if p.requires_grad} == set(behind_body(net))


def test_kept_examples_of_different_sizes_are_followed_one_by_one(net):
    (one, truth), (other, _) = squares(2, 21), squares(2, 22, size=80)
    net = copy.deepcopy(net)
    net.transform.max_size = 100
    net.transform.min_size = (48,)
    other = [image[:, :40] for image in other]
    wide = [{"boxes": torch.tensor([[1.0, 1, 9, 9]]), "labels": torch.tensor([1])}] * 2
    data = Examples([*one, *other], [*truth, *wide])
    problem = Problem(net, ap50(), train=data, val=data, example=one[:1], call=detect)
    learner = learner_of(problem, "weights", CrossFit(folds=2), insist=True)
    (batch,) = learner.batches(torch.arange(4), torch.arange(0), seed=0)
    each = [own_losses(net, ([image], [target])) for image, target in zip(data.inputs, data.targets, strict=True)]
    torch.testing.assert_close(learner.loss(learner.copy().eval(), [batch]), torch.stack(each).mean())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"boxes": torch.tensor([[1.0, 1, 1, 9]]), "labels": torch.tensor([1])}, "which has no area"),
        ({"boxes": torch.tensor([[1.0, 1, 5, 9]]), "labels": torch.tensor([7])}, "the detector knows 1 to 2"),
        ({"boxes": torch.tensor([[1.0, 1, 5, 9]]), "labels": torch.tensor([0])}, "0 is the background"),
        ({"boxes": torch.tensor([1.0, 1, 5, 9]), "labels": torch.tensor([1])}, "expected 'boxes' \\(n, 4\\)"),
    ],
)
def test_bad_boxes_are_refused_before_the_first_query(net, change, words):
    images, targets = squares(30, 20)
    asked = []
    metric = mo.Metric(lambda *_: asked.append(1) or 0.5, on="outputs", goal="max", name="counted")
    with pytest.raises(DataError, match=words):
        mo.optimize(
            net, metric=metric, train=squares(4, 1), val=(images, [*targets[:-1], change]), queries=5, tune="adapter"
        )
    assert not asked


def test_images_without_boxes_are_fine(net):
    images, targets = squares(6, 20)
    empty = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0).long()}
    model = adapt(copy.deepcopy(net), LayerAffine(layers=PLACES["scores"]), example=images[:1], call=detect)
    output = model.output(torch.zeros(model.dim), images)
    assert bool(box_loss(output, [*targets[:-1], empty]).isfinite())
    assert bool(box_loss(output, [empty] * 6).isfinite())
    assert ap50().value(output, [*targets[:-1], empty]) >= 0
