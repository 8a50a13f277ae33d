"""Lists of images in the layouts that Stanford Online Products and CUB are published in, and Omniglot's averages."""

import numpy as np
import pytest

from metricopt.core.errors import DataError
from metricopt_lab.data.omniglot import averaged
from metricopt_lab.data.retrieval_sets import cub, stanford_online_products


def test_products_are_listed_with_their_classes(tmp_path):
    lines = "image_id class_id super_class_id path\n1 7 1 bicycle_final/a_0.JPG\n2 9 2 chair_final/b_1.JPG\n"
    (tmp_path / "Ebay_test.txt").write_text(lines)
    found = stanford_online_products(tmp_path, "test")
    assert found.classes.tolist() == [7, 9]
    assert found.paths == [tmp_path / "bicycle_final/a_0.JPG", tmp_path / "chair_final/b_1.JPG"]


def test_birds_are_parted_after_the_first_hundred(tmp_path):
    (tmp_path / "images.txt").write_text("1 001.A/x.jpg\n2 100.B/y.jpg\n3 101.C/z.jpg\n")
    (tmp_path / "image_class_labels.txt").write_text("1 1\n2 100\n3 101\n")
    assert cub(tmp_path, "train").classes.tolist() == [1, 100]
    assert cub(tmp_path, "test").paths == [tmp_path / "images" / "101.C/z.jpg"]


def test_a_missing_list_is_told(tmp_path):
    with pytest.raises(DataError, match=r"Ebay_train\.txt is missing"):
        stanford_online_products(tmp_path, "train")


def test_drawings_become_means_of_three_by_three_with_ink_as_255():
    drawing = np.full((105, 105), 255, np.uint8)
    drawing[0, :2] = 0
    assert averaged(drawing)[0, 0] == round(2 * 255 / 9) and averaged(drawing).sum() == round(2 * 255 / 9)
