"""CoverType: decoding and failing without a network on samples; the whole of it where METRICOPT_DATA has a copy."""

import gzip
import importlib
import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from metricopt.core.errors import DataError
from metricopt.data import check_apart, shared_rows
from metricopt_lab.data import covtype, split
from metricopt_lab.data.table import DATASETS

# The package exports the function under the module's name.
module = importlib.import_module("metricopt_lab.data.covtype")

WHOLE = Path(os.environ.get("METRICOPT_DATA", "nowhere"), "covtype")
needs_copy = pytest.mark.skipif(not WHOLE.exists(), reason="CoverType (8 MB) is in the folder METRICOPT_DATA only")

ROWS = [  # ten numbers, area, soil, cover type
    ([2596, 51, 3, 258, 0, 510, 221, 232, 148, 6279], 0, 28, 5),
    ([2804, 139, 9, 268, 65, 3180, 234, 238, 135, 6121], 0, 11, 2),
    ([2500, 74, 11, 190, -9, 930, 233, 219, 116, 5279], 3, 39, 7),
]


def line(numbers, area, soil, cover):
    bits = [int(k == area) for k in range(4)] + [int(k == soil) for k in range(40)]
    return ",".join(map(str, [*numbers, *bits, cover]))


TEXT = "\n".join(line(*row) for row in ROWS).encode() + b"\n"


def zipped(text):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("covtype.info", "about")
        archive.writestr("covtype.data.gz", gzip.compress(text))
    return file.getvalue()


@pytest.fixture
def sample_is_the_data_set(monkeypatch, tmp_path):
    """Three rows stand for CoverType, UCI is a folder, and neither a copy nor a download is at hand."""
    home = tmp_path / "uci"
    home.mkdir()
    monkeypatch.setattr(module, "SHA256", module.decode(TEXT).sha256)
    monkeypatch.setattr(module, "ADDRESSES", tuple((home / name).as_uri() for name in ("covertype.zip", "data.gz")))
    monkeypatch.setenv("METRICOPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("METRICOPT_DATA", raising=False)
    return home


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zipped])
def test_ucis_text_is_decoded_plain_gzipped_or_zipped(pack):
    survey = module.decode(pack(TEXT))
    assert survey.num.dtype == np.int16
    assert survey.num.tolist() == [row[0] for row in ROWS]
    assert survey.wilderness.tolist() == [0, 0, 3]
    assert survey.soil.tolist() == [28, 11, 39]
    assert survey.y.tolist() == [5, 2, 7]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1,2,3\n", "rows have 3 numbers; expected 55"),
        (b"<html>sign in</html>", "b'<html>sign in</html>'... cannot be decoded"),
        (gzip.compress(TEXT)[:50], "cannot be decoded"),
        (zipped(TEXT)[:50], "cannot be decoded"),
        (line(*ROWS[0][:2], 77, 5).encode(), "exactly one of its 40 soil types"),
        (line(*ROWS[0][:1], 9, 28, 5).encode(), "exactly one of its 4 wilderness areas"),
    ],
    ids=["too few numbers", "a web page", "half a gzip file", "half a zip file", "no such soil", "no such area"],
)
def test_anything_else_is_refused_with_what_was_found(text, message):
    with pytest.raises(DataError, match=message):
        module.decode(text)


def test_a_download_is_built_into_a_table_and_kept(sample_is_the_data_set, tmp_path):
    (sample_is_the_data_set / "covertype.zip").write_bytes(zipped(TEXT))
    first = covtype(classes=7)
    (sample_is_the_data_set / "covertype.zip").unlink()
    assert covtype(classes=7).fingerprint == first.fingerprint
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["covtype.npz"]
    assert first.target.tolist() == [4, 1, 6]
    assert covtype(classes=2).target.tolist() == [0, 1, 0]
    for features, (numbers, area, soil, _) in zip(first.features, ROWS, strict=True):
        assert features.tolist() == [float(value) for value in line(numbers, area, soil, 0).split(",")[:-1]]


def test_the_second_address_is_tried_if_the_first_does_not_answer(sample_is_the_data_set):
    (sample_is_the_data_set / "data.gz").write_bytes(gzip.compress(TEXT))
    assert len(covtype()) == 3


def test_without_network_one_sentence_says_what_to_do(sample_is_the_data_set):
    with pytest.raises(DataError, match=r"nothing came from file:.*covertype\.zip .* set METRICOPT_DATA \(now None\)"):
        covtype()


@pytest.mark.parametrize(("name", "pack"), [("covtype.data.gz", gzip.compress), ("covertype.zip", zipped)])
def test_ucis_own_files_are_found_in_the_local_folder(sample_is_the_data_set, monkeypatch, tmp_path, name, pack):
    (tmp_path / "covtype").mkdir()
    (tmp_path / "covtype" / name).write_bytes(pack(TEXT))
    monkeypatch.setenv("METRICOPT_DATA", str(tmp_path))
    assert len(covtype()) == 3
    assert not (tmp_path / "cache").exists()


def test_a_download_with_other_contents_is_refused_and_not_kept(sample_is_the_data_set, tmp_path):
    (sample_is_the_data_set / "covertype.zip").write_bytes(zipped(TEXT.replace(b"2596", b"2597")))
    with pytest.raises(DataError, match=r"covertype\.zip holds 3 rows with sha256"):
        covtype()
    assert not (tmp_path / "cache").exists()


def test_a_damaged_file_in_the_cache_is_named(sample_is_the_data_set, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "covtype.npz").write_bytes(b"PK\x03\x04 half a file")
    with pytest.raises(DataError, match=r"cache/covtype\.npz cannot be read .* delete the file"):
        covtype()


def test_an_unwritable_cache_is_named(sample_is_the_data_set, monkeypatch, tmp_path):
    (sample_is_the_data_set / "covertype.zip").write_bytes(zipped(TEXT))
    (tmp_path / "file").touch()
    monkeypatch.setenv("METRICOPT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=r"cannot be written .* set METRICOPT_CACHE"):
        covtype()


@needs_copy
@pytest.mark.parametrize(("classes", "counts"), [(2, [297_711, 283_301]), (7, None)])
def test_the_whole_data_set_has_its_published_counts(classes, counts):
    table = DATASETS[f"covtype{classes}"]()
    assert table.features.shape == (581_012, 54)
    published = [211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510]  # covtype.info
    assert np.bincount(table.target).tolist() == (counts or published)
    assert (table.features[:, 10:14].sum(1) == 1).all() and (table.features[:, 14:].sum(1) == 1).all()
    np.testing.assert_array_equal(table.features[:, 10:14].argmax(1), table.groups["wilderness"])


@needs_copy
def test_its_first_rows_are_ucis_balanced_training_and_validation_sets():
    target = covtype(classes=7).target  # covtype.info: 11,340 rows to train and 3,780 to validate, equal in every class
    assert np.bincount(target[:11_340]).tolist() == [1_620] * 7
    assert np.bincount(target[11_340:15_120]).tolist() == [540] * 7


@needs_copy
def test_a_subset_of_its_training_rows_is_found_and_a_split_is_apart():
    table = covtype(classes=2)
    train, val, _ = split(len(table), seed=0)
    assert shared_rows(table.features[train], table.features[val]) == 0
    check_apart({"train": table.features[train], "val": table.features[val]})
    with pytest.raises(DataError, match="1000 of 1000 rows of 'val'"):
        check_apart({"train": table.features[train], "val": table.features[train[:1000]]})
