"""Boxes won and lost: counted against the matches that average precision is made of."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from metricopt.acceptance.box_changes import WIDEST, box_changes
from metricopt.metrics.boxes.given import detections, truths
from metricopt.metrics.boxes.matching import matched


def boxes(count, draw):
    corner = 60 * torch.rand(count, 2, generator=draw)
    return torch.cat([corner, corner + 8 + 20 * torch.rand(count, 2, generator=draw)], 1)


def scene(seed, images=12):
    draw = torch.Generator().manual_seed(seed)
    targets, found = [], []
    for number in range(images):
        count = 0 if number == 3 else 4
        true = {"boxes": boxes(count, draw), "labels": torch.randint(1, 4, (count,), generator=draw)}
        moved = true["boxes"] + 4 * torch.randn(count, 4, generator=draw)
        more = boxes(3, draw)
        labels = torch.cat([true["labels"], torch.randint(1, 4, (3,), generator=draw)])
        targets.append(true)
        scores = torch.rand(count + 3, generator=draw)
        found.append({"boxes": torch.cat([moved, more]), "labels": labels, "scores": scores})
    return targets, found


@pytest.mark.parametrize("seed", range(5))
def test_of_each_class_as_many_detections_as_true_boxes_are_matched_as_coco_does(seed):
    targets, found = scene(seed)
    matches = matched(truths(targets), detections(found), overlaps=[0.5], rule="coco")
    expected = []
    for place in range(len(matches.classes)):
        own = matches.hit[0, matches.label == place]  # by falling score
        expected.append(int(own[: int(matches.positives[:, place].sum())].sum()))
    changed = box_changes((found, found), targets, lambda _: torch.zeros(3, 90, 90))
    assert changed["right_before"] == expected and not any(changed["won"] + changed["lost"])
    assert changed["examples"] == matches.positives.sum(0).tolist() and changed["pictures"] == []


def test_won_and_lost_add_up_and_pictures_show_the_images_with_most_changes():
    targets, before = scene(7)
    after = [{**each, "scores": each["scores"].flip(0)} for each in before]
    changed = box_changes((before, after), targets, lambda number: torch.full((3, 60, 960), number / 12))
    back = box_changes((after, before), targets, lambda _: torch.zeros(3, 60, 960))
    assert changed["won"] == back["lost"] and changed["lost"] == back["won"] and any(changed["won"])
    gained = np.subtract(changed["won"], changed["lost"])
    assert (np.add(changed["right_before"], gained) == back["right_before"]).all()
    most = [sum(box[5] in ("won", "lost") for box in each["boxes"]) for each in changed["pictures"]]
    assert most == sorted(most, reverse=True) and min(most) > 0
    first = changed["pictures"][0]
    assert (first["width"], first["height"]) == (960, 60)  # boxes are in pixels of the image itself
    assert Image.open(io.BytesIO(base64.b64decode(first["jpeg"]))).size == (WIDEST, 30)
