"""Average precision of boxes equals pycocotools' and plain loops, on all images and on resamples of them."""

import itertools

import numpy as np
import pytest
import torch

from metricopt.core.errors import MetricError
from metricopt.metrics import ap50, box_precision
from metricopt.metrics.detection import COCO_OVERLAPS, BoxPrecision


def drawn(seed, *, images=6, coarse=True):
    """Images with up to six true boxes and ten detections near them or anywhere, of three classes, often tied."""
    draw = np.random.default_rng(seed)

    def boxes(count):
        corner = draw.integers(0, 12, (count, 2)).astype(float)
        return np.concatenate([corner, corner + draw.integers(3, 12, (count, 2))], 1)

    truth, found = [], []
    for _ in range(images):
        true, said = boxes(draw.integers(0, 7)), boxes(draw.integers(0, 5))
        near = true[draw.random(len(true)) < 0.8] + draw.integers(-1, 2, 4)
        near = near[(near[:, 2:] - near[:, :2] > 0).all(1)]
        said = np.concatenate([said, near, near[: draw.integers(0, 3)]])
        scores = draw.integers(1, 6, len(said)) / 5 if coarse else draw.random(len(said))
        truth.append(
            {
                "boxes": torch.tensor(true),
                "labels": torch.tensor(draw.integers(1, 4, len(true))),
                "iscrowd": torch.tensor(draw.random(len(true)) < 0.2),
                "difficult": torch.tensor(draw.random(len(true)) < 0.2),
            }
        )
        found.append(
            {
                "boxes": torch.tensor(said),
                "labels": torch.tensor(draw.integers(1, 4, len(said))),
                "scores": torch.tensor(scores),
            }
        )
    return truth, found


def by_pycocotools(truth, found, overlaps):
    """COCO's own evaluator: mean over overlaps and classes with something to find."""
    import contextlib
    import io

    coco = pytest.importorskip("pycocotools.coco")
    from pycocotools.cocoeval import COCOeval

    notes, said = [], []
    for image, (true, mine) in enumerate(zip(truth, found, strict=True)):
        for (x0, y0, x1, y1), label, crowd in zip(
            true["boxes"].tolist(), true["labels"].tolist(), true["iscrowd"].tolist(), strict=True
        ):
            box = [x0, y0, x1 - x0, y1 - y0]
            area = box[2] * box[3]
            notes.append(
                {"id": len(notes) + 1, "image_id": image, "category_id": label, "bbox": box, "area": area}
                | {"iscrowd": int(crowd)}
            )
        for (x0, y0, x1, y1), label, score in zip(
            mine["boxes"].tolist(), mine["labels"].tolist(), mine["scores"].tolist(), strict=True
        ):
            box = [x0, y0, x1 - x0, y1 - y0]
            said.append({"image_id": image, "category_id": label, "bbox": box, "score": score})
    with contextlib.redirect_stdout(io.StringIO()):
        base = coco.COCO()
        base.dataset = {
            "images": [{"id": image} for image in range(len(truth))],
            "annotations": notes,
            "categories": [{"id": label} for label in (1, 2, 3)],
        }
        base.createIndex()
        judge = COCOeval(base, base.loadRes(said), "bbox")
        judge.params.iouThrs = np.array(overlaps)
        judge.params.areaRng, judge.params.areaRngLbl, judge.params.maxDets = [[0, 1e10]], ["all"], [100]
        judge.evaluate()
        judge.accumulate()
    precision = judge.eval["precision"][:, :, :, 0, 0]  # overlaps, recalls, classes
    return float(precision[precision > -1].mean())


@pytest.mark.parametrize("seed", range(200))
def test_it_is_pycocotools_to_the_sixth_place_with_ties_crowds_and_empty_images(seed):
    truth, found = drawn(seed, coarse=seed % 2 == 0)
    overlaps = COCO_OVERLAPS if seed % 4 == 0 else (0.5,)
    assert BoxPrecision(overlaps)(truth, found) == pytest.approx(by_pycocotools(truth, found, overlaps), abs=1e-6)


def by_loops_as_voc(truth, found, *, eleven):
    """VOC's rule as its devkit tells it: each detection to the box it overlaps most, once."""
    values = []
    for label in (1, 2, 3):
        boxes = [t["boxes"][t["labels"] == label].numpy() for t in truth]
        hard = [(t["difficult"] | t["iscrowd"])[t["labels"] == label].numpy() for t in truth]
        wanted = sum(int((~each).sum()) for each in hard)
        if not wanted:
            continue
        said = [
            (float(score), image, box.numpy())
            for image, f in enumerate(found)
            for box, one, score in zip(f["boxes"], f["labels"], f["scores"], strict=True)
            if one == label
        ]
        taken, hits, count, curve = set(), 0, 0, []
        for _, image, box in sorted(said, key=lambda each: -each[0]):
            overlaps = [_overlap(box, other) for other in boxes[image]]
            best = int(np.argmax(overlaps)) if overlaps else -1
            if best >= 0 and overlaps[best] >= 0.5:
                if hard[image][best]:
                    continue
                if (image, best) not in taken:
                    taken.add((image, best))
                    hits += 1
            count += 1
            curve.append((hits / wanted, hits / count))
        at = lambda level, curve=curve: max([p for r, p in curve if r >= level], default=0.0)  # noqa: E731
        if eleven:
            values.append(np.mean([at(level) for level in np.linspace(0, 1, 11)]))
        else:
            levels = [0.0, *(r for r, _ in curve)]
            values.append(sum((b - a) * at(b) for a, b in itertools.pairwise(levels)))
    return float(np.mean(values))


def _overlap(a, b):
    sides = [max(0.0, min(a[2 + k], b[2 + k]) - max(a[k], b[k])) for k in (0, 1)]
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return sides[0] * sides[1] / (sum(areas) - sides[0] * sides[1])


@pytest.mark.parametrize("rule", ["voc07", "area"])
@pytest.mark.parametrize("seed", range(20))
def test_vocs_rules_are_those_of_plain_loops_with_difficult_boxes(seed, rule):
    truth, found = drawn(seed, coarse=False)
    expected = by_loops_as_voc(truth, found, eleven=rule == "voc07")
    assert BoxPrecision((0.5,), rule)(truth, found) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("rule", ["coco", "voc07", "area"])
def test_resamples_are_what_the_metric_says_of_the_same_images_again(rule):
    # Without ties: among equal scores all copies of one detection stand before those of the next.
    truth, found = drawn(3, images=12, coarse=False)
    metric, index = box_precision(0.5, rule=rule), torch.randint(12, (30, 12), generator=torch.Generator())
    expected = [metric.value([found[i] for i in rows], [truth[i] for i in rows]) for rows in index.tolist()]
    assert metric.by_rows(found, truth)(index).tolist() == pytest.approx(expected, abs=1e-12)


def test_one_class_alone_and_the_mean_of_all():
    truth, found = drawn(5)
    each = BoxPrecision((0.5,)).by_class(truth, found)
    assert ap50(label=2).value(found, truth) == pytest.approx(each[2])
    assert ap50().value(found, truth) == pytest.approx(np.nanmean(list(each.values())))


def test_no_detection_at_all_is_worth_nothing():
    truth, _ = drawn(5)
    nothing = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0).long(), "scores": torch.zeros(0)}
    assert ap50().value([nothing] * len(truth), truth) == 0.0


def test_the_hundred_best_detections_of_a_class_an_image_count():
    box = torch.tensor([[0.0, 0, 9, 9]])
    wrong = torch.tensor([[50.0, 50, 59, 59]]).repeat(100, 1)
    truth = [{"boxes": box, "labels": torch.tensor([1])}]
    found = [
        {"boxes": torch.cat([wrong, box]), "labels": torch.ones(101).long(), "scores": torch.linspace(1, 0.1, 101)}
    ]
    assert ap50().value(found, truth) == 0.0
    assert ap50(rule="area").value(found, truth) == pytest.approx(1 / 101)


def test_bad_boxes_are_told_in_one_sentence():
    truth, found = drawn(5)
    flat = [{"boxes": torch.tensor([[1.0, 1, 1, 5]]), "labels": torch.tensor([1])}]
    with pytest.raises(MetricError, match="of image 0 has no area"):
        ap50().value(found[:1], flat)
    with pytest.raises(MetricError, match="image 0 has \\['boxes', 'labels'\\]; expected one dict an image"):
        ap50().value([{"boxes": torch.zeros(0, 4), "labels": torch.zeros(0)}], truth[:1])
    with pytest.raises(MetricError, match="none of the 1 images has a true box"):
        ap50().value(found[:1], [{"boxes": torch.zeros(0, 4), "labels": torch.zeros(0).long()}])
    with pytest.raises(MetricError, match="overlaps are"):
        box_precision(1.5)
