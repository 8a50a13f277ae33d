"""Table 6 at the paper's scale: VOC's folders are read, and what is missing is told in one sentence."""

import pytest
import torch
from PIL import Image

from metricopt.core.errors import DataError
from metricopt_lab.cells import Settings, experiments, run
from metricopt_lab.data.voc import CLASSES, joined, voc, voc_place
from metricopt_lab.problems.voc_detection import voc_detection, voc_settings

OBJECT = """<object><name>{name}</name><difficult>{hard}</difficult>
<bndbox><xmin>2</xmin><ymin>3</ymin><xmax>20</xmax><ymax>22</ymax></bndbox></object>"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """VOC 2007 and 2012 of two images a split, of different sizes."""
    for year, splits in ((2007, ("train", "val", "test")), (2012, ("train",))):
        top = tmp_path / "VOCdevkit" / f"VOC{year}"
        for name in ("Annotations", "JPEGImages", "ImageSets/Main"):
            (top / name).mkdir(parents=True)
        for split in splits:
            names = [f"{year}{split}{k}" for k in range(2)]
            (top / "ImageSets" / "Main" / f"{split}.txt").write_text("\n".join(names))
            for k, name in enumerate(names):
                Image.new("RGB", (40 + 8 * k, 30)).save(top / "JPEGImages" / f"{name}.jpg")
                note = OBJECT.format(name="dog" if k else "tvmonitor", hard=k)
                (top / "Annotations" / f"{name}.xml").write_text(f"<annotation>{note}</annotation>")
    monkeypatch.setenv("METRICOPT_DATA", str(tmp_path))
    voc.cache_clear()
    yield tmp_path
    voc.cache_clear()


def test_both_years_are_read_with_vocs_classes_and_difficult_boxes(folder):
    images = joined([voc(2007, "train"), voc(2012, "train")])
    assert len(images) == 4 and images.classes[1:] == CLASSES and len(CLASSES) == 20
    assert [int(each["labels"]) for each in images.targets] == [20, 12, 20, 12]
    assert [bool(each["difficult"]) for each in images.targets] == [False, True, False, True]
    assert isinstance(images.examples().inputs, list)  # of different sizes


def test_without_a_gpu_the_papers_scale_is_refused_in_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for way in (lambda: voc_detection("voc07", 0), lambda: voc_settings("voc07_12")):
        with pytest.raises(DataError, match="needs a GPU, and torch sees none; expected one: use --scale small"):
            way()
    experiment = experiments()["table6"](Settings(seeds=1, scale="paper", data=("voc07",)))
    done = run(experiment, tmp_path, methods=["frozen"])
    assert len(done.failures) == 1 and "needs a GPU" in str(done.failures[0])


def test_without_data_it_says_where_they_are_expected(monkeypatch, tmp_path):
    monkeypatch.setenv("METRICOPT_DATA", str(tmp_path))
    monkeypatch.setenv("METRICOPT_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DataError, match="there is no VOC2007; expected its folders at"):
        voc_place(2007)


def test_with_data_and_gpu_but_no_weights_it_says_how_to_make_them(folder, monkeypatch):
    pytest.importorskip("torchvision.models.detection", exc_type=ImportError)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("METRICOPT_DETECTOR", str(folder / "none.safetensors"))
    with pytest.raises(DataError, match="metricopt pretrain voc07_12_faster_rcnn"):
        voc_detection("voc07_12", 0)
