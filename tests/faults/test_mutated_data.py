"""However a user's files of images and boxes are damaged, they are read or refused in one sentence."""

import json
import random
import shutil

import pytest
from tests.faults.mutations import ROUNDS, mutate, mutated_bytes

from metricopt.core.errors import DataError
from metricopt.data.boxes import coco_json, voc_folder
from metricopt.data.images import image_folder

pillow = pytest.importorskip("PIL.Image")

BOX = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>9</xmax><ymax>8</ymax></bndbox>"
NOTES = f"<annotation><object><name>cell</name><difficult>0</difficult>{BOX}</object></annotation>"
COCO = {
    "images": [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "b.png"}],
    "categories": [{"id": 5, "name": "cell"}],
    "annotations": [{"image_id": 1, "category_id": 5, "bbox": [1, 2, 8, 6], "iscrowd": 0}],
}

LOADERS = {
    "voc notes": (lambda folder: voc_folder(folder).examples(), "Annotations/a.xml"),
    "voc image": (lambda folder: voc_folder(folder).examples(), "JPEGImages/a.png"),
    "coco": (lambda folder: coco_json(folder / "coco.json", folder / "JPEGImages").examples(), "coco.json"),
    "image folder": (lambda folder: image_folder(folder / "classes", size=8), "classes/one/a.png"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    for name in ("Annotations", "JPEGImages", "classes/one", "classes/two"):
        (folder / name).mkdir(parents=True)
    draw = random.Random(0)
    for name in "ab":
        noise = pillow.frombytes("RGB", (10, 12), draw.randbytes(360))
        for place in ("JPEGImages", "classes/one", "classes/two"):
            noise.save(folder / place / f"{name}.png")
        (folder / "Annotations" / f"{name}.xml").write_text(NOTES)
    (folder / "coco.json").write_text(json.dumps(COCO))
    return folder


@pytest.mark.filterwarnings("ignore:.*DecompressionBomb")
@pytest.mark.parametrize("kind", LOADERS)
def test_a_mutated_file_is_read_or_refused_in_one_sentence(whole, tmp_path, kind):
    load, damaged = LOADERS[kind]
    folder = tmp_path / "copy"
    shutil.copytree(whole, folder)
    load(folder)
    refused = 0
    for turn in range(ROUNDS):
        draw = random.Random(f"{kind} {turn}")
        shutil.copyfile(whole / damaged, folder / damaged)
        if kind == "coco":
            mutate(folder, folder / damaged, draw)
        else:
            (folder / damaged).write_bytes(mutated_bytes((folder / damaged).read_bytes(), draw))
        try:
            load(folder)
        except DataError as error:
            refused += 1
            assert "\n" not in str(error) and 20 < len(str(error)) < 2000, f"mutation {turn}"
        except Exception as error:
            raise AssertionError(f"mutation {turn} of {kind} brought out {error!r}") from error
    assert refused > ROUNDS / 20
