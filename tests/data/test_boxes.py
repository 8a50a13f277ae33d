"""Images with boxes from VOC's folders and COCO's files; what is wrong with them is told in one sentence."""

import json

import pytest
import torch

from metricopt.core.errors import DataError
from metricopt.data.boxes import coco_json, voc_folder

pillow = pytest.importorskip("PIL.Image")


def annotation(*objects):
    parts = "".join(
        f"<object><name>{name}</name><difficult>{hard}</difficult><bndbox><xmin>{x0}</xmin><ymin>{y0}</ymin>"
        f"<xmax>{x1}</xmax><ymax>{y1}</ymax></bndbox></object>"
        for name, hard, (x0, y0, x1, y1) in objects
    )
    return f"<annotation>{parts}</annotation>"


@pytest.fixture
def folder(tmp_path):
    for name in ("Annotations", "JPEGImages", "ImageSets/Main"):
        (tmp_path / name).mkdir(parents=True)
    for number, name in enumerate("ab"):
        pillow.new("RGB", (40, 20), (10 * number, 0, 255)).save(tmp_path / "JPEGImages" / f"{name}.png")
    cells = annotation(("cell", 0, (4, 2, 20, 10)), ("dot", 1, (0, 0, 8, 8)), ("dot", 0, (5, 5, 5, 9)))
    (tmp_path / "Annotations" / "a.xml").write_text(cells)
    (tmp_path / "Annotations" / "b.xml").write_text(annotation())
    (tmp_path / "ImageSets" / "Main" / "one.txt").write_text("a\n")
    return tmp_path


def test_vocs_layout_is_read_and_boxes_are_resized_with_their_images(folder):
    found = voc_folder(folder, classes=("dot", "cell"), size=(10, 20))
    assert found.classes == ("background", "dot", "cell") and found.names == ("a", "b")
    assert found.targets[0]["boxes"].tolist() == [[2, 1, 10, 5], [0, 0, 4, 4]]
    assert found.targets[0]["labels"].tolist() == [2, 1] and found.targets[0]["difficult"].tolist() == [False, True]
    assert found.left_out == ("a",)  # a box without an area
    assert found.targets[1]["boxes"].shape == (0, 4)
    data = found.examples()
    assert data.inputs.shape == (2, 3, 10, 20) and float(data.inputs.max()) == 1.0
    assert voc_folder(folder, "one").names == ("a",)


def test_cocos_json_is_read_with_its_crowds(folder):
    content = {
        "images": [{"id": 7, "file_name": "a.png"}, {"id": 8, "file_name": "b.png"}],
        "categories": [{"id": 90, "name": "cell"}],
        "annotations": [{"image_id": 7, "category_id": 90, "bbox": [1, 2, 3, 4], "iscrowd": 1}],
    }
    (folder / "boxes.json").write_text(json.dumps(content))
    found = coco_json(folder / "boxes.json", folder / "JPEGImages")
    assert found.targets[0]["boxes"].tolist() == [[1, 2, 4, 6]] and found.targets[0]["iscrowd"].tolist() == [True]
    assert found.targets[0]["labels"].tolist() == [1] and len(found.targets[1]["labels"]) == 0


@pytest.mark.parametrize(("classes", "label"), [(None, 2), (("dot", "cell", "dust"), 1), ("by id", 4)])
def test_cocos_classes_are_numbered_by_the_file_by_the_detectors_order_or_by_their_ids(folder, classes, label):
    content = {
        "images": [{"id": 7, "file_name": "a.png"}],
        "categories": [{"id": 2, "name": "cell"}, {"id": 4, "name": "dot"}],
        "annotations": [{"image_id": 7, "category_id": 4, "bbox": [1, 2, 3, 4]}],
    }
    (folder / "boxes.json").write_text(json.dumps(content))
    found = coco_json(folder / "boxes.json", folder / "JPEGImages", classes=classes)
    assert found.targets[0]["labels"].tolist() == [label] and found.classes[label] == "dot"


def test_ids_that_are_no_numbers_of_classes_are_refused(folder):
    content = {"images": [{"id": 7, "file_name": "a.png"}], "categories": [{"id": "x", "name": "c"}], "annotations": []}
    (folder / "boxes.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"categories with ids \['x'\]; expected numbers from 1"):
        coco_json(folder / "boxes.json", folder / "JPEGImages", classes="by id")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda f: (f / "JPEGImages" / "a.png").write_bytes(b"no image"), "a.png cannot be read"),
        (lambda f: (f / "JPEGImages" / "a.png").unlink(), "no image called 'a'"),
        (lambda f: (f / "Annotations" / "a.xml").write_text("<annotation>"), "a.xml cannot be read"),
        (lambda f: (f / "Annotations" / "a.xml").write_text(annotation(("", 0, (1, 1, 2, 2)))), "without a name"),
        (lambda f: (f / "ImageSets/Main/one.txt").unlink(), "one.txt cannot be read"),
    ],
)
def test_files_that_cannot_be_read_are_named(folder, spoil, words):
    spoil(folder)
    with pytest.raises(DataError, match=words):
        voc_folder(folder, "one" if "one.txt" in words else None)


def test_a_class_that_is_not_expected_is_named(folder):
    with pytest.raises(DataError, match="has a box of 'dot'; expected one of cell"):
        voc_folder(folder, classes=("cell",))


def test_images_of_different_sizes_stay_a_list(folder):
    pillow.new("RGB", (30, 20)).save(folder / "JPEGImages" / "b.png")
    images = voc_folder(folder).examples().inputs
    assert [tuple(image.shape) for image in images] == [(3, 20, 40), (3, 20, 30)]
    assert images[0].dtype == torch.float32
