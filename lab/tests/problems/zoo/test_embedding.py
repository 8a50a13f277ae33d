"""Embedding text: what is missing is said in one sentence, and what is read keeps its classes."""

import gzip
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from metricopt.cli.app import app
from metricopt_lab.problems.zoo import embedding, sources

REVIEWS = """,Clothing ID,Age,Title,Review Text,Rating,Recommended IND,Class Name
0,1,33,,Lovely and soft,5,1,Dresses
1,2,34,,,4,1,Dresses
2,3,60,,Too small,1,0,Pants
"""
CLINC = {
    **{part: [["book a table", "restaurant"], ["my balance", "bank"]] for part in ("train", "val", "test")},
    **{f"oos_{part}": [["what is love", "oos"]] for part in ("train", "val", "test")},
}


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("METRICOPT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("METRICOPT_CACHE", str(tmp_path / "cache"))
    sources.clinc.cache_clear()
    yield tmp_path
    sources.clinc.cache_clear()


def test_text_that_is_not_there_is_named_in_one_sentence(folders):
    result = CliRunner().invoke(app, ["embed"])
    assert result.exit_code != 0
    assert "clinc150.json.gz is missing; expected the published file" in result.output + str(result.exception)


def test_both_files_are_written_with_classes_by_name_and_reviews_without_text_left_out(folders, monkeypatch):
    monkeypatch.setattr(embedding, "embeddings", lambda texts: np.ones((len(texts), 4), np.float16))
    (folders / "data" / "text").mkdir(parents=True)
    for name, text in (("clothing_reviews.csv.gz", REVIEWS), ("clinc150.json.gz", json.dumps(CLINC))):
        (folders / "data" / "text" / name).write_bytes(gzip.compress(text.encode()))
    result = CliRunner().invoke(app, ["embed"])
    assert result.exit_code == 0, result.output
    with np.load(folders / "cache" / "reviews.npz") as reviews:
        assert reviews["rating"].tolist() == [4, 0] and reviews["garments"].tolist() == ["Dresses", "Pants"]
        assert reviews["x"].shape == (2, 4)
    with np.load(folders / "cache" / "clinc.npz") as clinc:
        assert clinc["intents"].tolist() == ["bank", "restaurant"] and clinc["y_train"].tolist() == [1, 0, 2]
    pool = sources.clinc(out_of_scope=True)
    assert len(pool.target) == 9 and pool.test is not None and pool.test.tolist() == [6, 7, 8]
