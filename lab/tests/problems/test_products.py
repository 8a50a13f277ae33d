"""Products in the layout they are published in: parts without a common product, images as bytes, sizes that fit."""

import numpy as np
import pytest
import torch
from PIL import Image

from metricopt.core.errors import DataError
from metricopt_lab.problems.omniglot import Sizes
from metricopt_lab.problems.products import product_parts, products_retrieval


@pytest.fixture
def folder(tmp_path):
    draw = np.random.default_rng(0)
    (tmp_path / "chair_final").mkdir()
    for part, first in (("train", 1), ("test", 7)):
        lines = ["image_id class_id super_class_id path"]
        for product in range(first, first + 6):
            for view in range(2):
                name = f"chair_final/{product}_{view}.JPG"
                Image.fromarray(draw.integers(0, 255, (9, 12, 3), dtype=np.uint8)).save(tmp_path / name)
                lines.append(f"{2 * product + view} {product} 1 {name}")
        (tmp_path / f"Ebay_{part}.txt").write_text("\n".join(lines))
    return tmp_path


def test_parts_share_no_product_and_images_stay_bytes(folder):
    parts = product_parts(folder, Sizes(train=3, search=2, accept=1, test=4), seed=0, side=8)
    products = [set(part.targets.tolist()) for part in parts.values()]
    assert [len(each) for each in products] == [3, 2, 1, 4] and len(set.union(*products)) == 10
    assert products[3] <= set(range(7, 13))
    assert parts["train"].inputs.shape == (6, 3, 8, 8) and parts["train"].inputs.dtype == torch.uint8


def test_more_products_than_there_are_and_a_missing_archive_are_told(folder, monkeypatch):
    with pytest.raises(DataError, match="asks for more products than the 6 and 6"):
        product_parts(folder, Sizes(train=5, search=1, accept=1, test=1), seed=0)
    monkeypatch.setenv("METRICOPT_DATA", str(folder))
    with pytest.raises(DataError, match=r"Ebay_train\.txt is missing"):
        products_retrieval(Sizes(train=1, search=1, accept=1, test=1), seed=0)


def test_the_network_takes_bytes_as_it_takes_numbers():
    pytest.importorskip("torchvision")
    from metricopt_lab.networks.embedding import ResNet50Embedding

    torch.manual_seed(0)
    net, images = ResNet50Embedding(outputs=16).eval(), torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    with torch.no_grad():
        found, expected = net(images), net(images.float() / 255)
    torch.testing.assert_close(found, expected)
    assert found.shape == (2, 16)
