"""torchvision's detectors with one stage, and those with more heads: `optimize` takes them as it takes Faster R-CNN."""

import copy
import warnings

import pytest
import torch
from tests.detection.one_stage import KINDS, mask_rcnn, untrained
from tests.detection.tiny import squares, torchvision

import metricopt as mo
from metricopt.adapters import adapt
from metricopt.adapters.detector import behind_body, detect, family_of, labels_of, own_losses, toward_boxes
from metricopt.adapters.graph.cache import PrefixCache
from metricopt.api.detectors import adapter_for
from metricopt.core.errors import DataError
from metricopt.crossfit import CrossFit, Kind
from metricopt.data.dataset import Examples

torchvision()


@pytest.fixture(params=KINDS, scope="module")
def net(request):
    return untrained(request.param)


@pytest.fixture(scope="module")
def model(net):
    return adapt(copy.deepcopy(net), adapter_for(net), example=squares(1, 5)[0], call=detect)


def somewhere(model):
    return 0.3 * torch.randn(model.dim, generator=torch.Generator().manual_seed(3))


def same(one, other):
    return all(
        torch.equal(a[name], b[name]) for a, b in zip(one, other, strict=True) for name in ("boxes", "scores", "labels")
    )


def test_at_zero_detections_are_those_of_the_frozen_detector_bit_for_bit(model, net):
    images, _ = squares(3, 6)
    with torch.no_grad():
        found, expected = model.output(torch.zeros(model.dim), images), net(images)
        moved = model.output(somewhere(model), images)
    assert same(found, expected) and sum(len(each["boxes"]) for each in expected) > 0
    assert not same(moved, expected)


def test_recalled_detections_are_those_of_the_model_bit_for_bit_and_the_body_is_not_run_again(model):
    images, targets = squares(3, 6)
    data, cache = Examples(images, targets), PrefixCache(model, probe=images)
    for phi in (torch.zeros(model.dim), somewhere(model)):
        expected = [model.output(phi, [image])[0] for image in images]
        assert same(cache.whole_outputs(phi[None], data)[0], expected)
    assert cache.holds(data)
    assert any(name.startswith("backbone") for name in cache.recall.names)


def test_a_merged_detector_is_of_its_class_and_gives_the_same_scores(model):
    images, _ = squares(3, 7)
    model.phi.data.copy_(somewhere(model))
    merged, why = model.merged(images)
    assert type(merged) is type(model.net) and why == ""
    for one, other in zip(merged(images), model(images), strict=True):
        if one["scores"].shape == other["scores"].shape:  # at the edge of a threshold a box may come or go
            assert torch.allclose(one["scores"], other["scores"], atol=1e-3)


def test_its_own_losses_are_torchvisions_and_leave_its_modes_alone(net):
    images, targets = squares(4, 9)
    twin = copy.deepcopy(net).train()
    for module in twin.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eval()  # as in the network whose losses are asked for
    twin.transform.eval()
    expected = torch.stack(list(twin(images, targets).values())).sum()
    torch.testing.assert_close(own_losses(net, (images, targets)), expected)
    assert not any(module.training for module in net.modules())


def test_a_shift_toward_boxes_lets_more_of_them_through(net):
    images, _ = squares(2, 5)
    family = family_of(net)
    if family.kind == "SSD":
        assert toward_boxes(net, 3).tolist() == [-1, 0, 0]
        return
    head = net.get_submodule(family.scores[0])
    twin = copy.deepcopy(net)
    twin.get_submodule(family.scores[0]).bias.data += 1.5 * toward_boxes(net, head.out_channels)
    few, many = (sum(len(each["boxes"]) for each in found(images)) for found in (net, twin))
    assert many > few


def test_weights_behind_the_body_are_finetuned_fold_by_fold(net):
    effort = CrossFit(folds=2, epochs=1, batch=8, rates=(3e-3,), kinds=(Kind(balanced=False, mix=0.0),))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = mo.optimize(
            net, metric="ap50", train=squares(4, 20), val=squares(20, 21), queries=6, batch_size=8, effort=effort
        )
    assert result.comparison.rows == "out-of-fold" and result.comparison.examples == 20
    proposed = result.proposed.state_dict()
    changed = {name for name, tensor in net.state_dict().items() if not torch.equal(tensor, proposed[name])}
    learnt = {name.rpartition(".")[0] for name in behind_body(net)}
    assert changed and {name.rpartition(".")[0] for name in changed} <= learnt
    stages = {query.stage for query in result.ledger.queries}
    assert ("less background" in stages) == (family_of(net).kind != "SSD")


@pytest.mark.parametrize(("kind", "labels"), [("RetinaNet", range(3)), ("FCOS", range(3)), ("SSD", range(1, 3))])
def test_where_the_background_has_no_score_class_0_is_a_class(kind, labels):
    net = untrained(kind)
    assert labels_of(net) == labels
    images, targets = squares(30, 20)
    targets[-1]["labels"][:] = 7
    with pytest.raises(DataError, match=rf"labels from 7 to 7; the detector knows {labels.start} to 2"):
        mo.optimize(net, metric="ap50", train=squares(4, 1), val=(images, targets), queries=5)


def test_without_masks_to_learn_from_mask_rcnn_learns_boxes_and_keeps_its_masks():
    net, (images, targets) = mask_rcnn(), squares(3, 9)
    loss = own_losses(net, (images, targets))
    loss.backward()
    heads = net.roi_heads
    assert heads.has_mask() and all(parameter.grad is None for parameter in heads.mask_predictor.parameters())
    assert heads.box_predictor.cls_score.weight.grad is not None
    masked = [{**each, "masks": torch.ones(len(each["boxes"]), 64, 64, dtype=torch.uint8)} for each in targets]
    assert own_losses(net, (images, masked)).item() > loss.item()
    assert "masks" in net(images)[0]
