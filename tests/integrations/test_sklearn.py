"""The estimators where scikit-learn's users put them: pipelines, searches, calibration, tables of mixed types."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from skorch import NeuralNetClassifier
from tests.integrations.hugging_face import EFFORT, QUICK
from torch import nn

import metricopt as mo
from metricopt.core.errors import AdapterError


def table(rows: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(rows, 4)).astype(np.float32)
    return x, np.where(x[:, 0] + 0.5 * draw.normal(size=rows) > 1.2, "rare", "usual")


def classifier(module=None, **settings) -> mo.MetricOptClassifier:
    usual = {"metric": "macro_f1", "queries": 6, "epochs": 3, "effort": QUICK, "random_state": 0}
    return mo.MetricOptClassifier(module, **{**usual, **settings})


def test_classes_are_words_and_a_fitted_module_is_improved_and_left_alone(tmp_path):
    x, y = table()
    net = nn.Sequential(nn.Linear(4, 2))
    nn.init.zeros_(net[0].weight)
    net[0].weight.data[0, 0] = 1.0  # the class "rare" comes first
    before = net[0].bias.detach().clone()
    model = classifier(net, epochs=None, queries=20, run_dir=tmp_path).fit(x, y)
    assert set(model.classes_) == {"rare", "usual"} and model.result_.accepted
    assert torch.equal(net[0].bias, before) and torch.equal(model.module[0].bias, before)
    plain = np.where((net(torch.tensor(x)).argmax(1) == 0).numpy(), "rare", "usual")
    assert f1_score(y, model.predict(x), average="macro") > f1_score(y, plain, average="macro")
    again = classifier(net, epochs=None, queries=20, run_dir=tmp_path, resume=True).fit(x, y)
    assert torch.equal(again.result_.model.phi, model.result_.model.phi)


def test_a_pickled_estimator_predicts_the_same():
    x, y = table()
    model = classifier().fit(x, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(x), model.predict_proba(x))


def test_tables_of_mixed_types_go_through_a_column_transformer_in_a_pipeline():
    x, y = table()
    frame = pd.DataFrame({"size": x[:, 0], "kind": np.where(x[:, 1] > 0, "a", "b")})
    columns = make_column_transformer((StandardScaler(), ["size"]), (OneHotEncoder(), ["kind"]))
    model = make_pipeline(columns, classifier(queries=2)).fit(frame, y)
    assert model.score(frame, y) > 0.8


def test_searched_cross_validated_and_calibrated():
    x, y = table(240)
    search = GridSearchCV(classifier(queries=2), {"lr": [0.01, 0.03]}, cv=2, scoring="f1_macro").fit(x, y)
    assert search.best_params_["lr"] in (0.01, 0.03)
    assert len(cross_val_score(classifier(queries=2), x, y, cv=2)) == 2
    probabilities = CalibratedClassifierCV(classifier(queries=2), cv=2).fit(x, y).predict_proba(x)
    assert np.allclose(probabilities.sum(1), 1)


def test_weights_of_rows_count_in_the_loss_and_in_a_scorer():
    x, y = table()
    model = classifier(metric="accuracy", queries=2)
    model.fit(x, y, sample_weight=np.where(y == "rare", 1.0, 1e-6))
    assert (model.predict(x) == "rare").mean() > 0.9
    assert model.result_.metric.groups and model.result_.comparison.before > 0.9


@pytest.mark.parametrize("fitted", [True, False])
def test_a_net_of_skorch_is_taken_as_it_is_or_fitted(fitted):
    x, y = table()
    codes = (y == "usual").astype(np.int64)
    net = NeuralNetClassifier(
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2), nn.Softmax(dim=-1)), max_epochs=3, lr=0.1, verbose=0
    )
    if fitted:
        net.fit(x, codes)
        said = net.predict_proba(x)
    model = classifier(FrozenEstimator(net) if fitted else net).fit(x, codes)
    assert np.allclose(model.predict_proba(x).sum(1), 1)
    assert f1_score(codes, model.predict(x), average="macro") > 0.5
    if fitted:
        assert np.array_equal(net.predict_proba(x), said)
        assert cross_val_score(classifier(FrozenEstimator(net), queries=2), x, codes, cv=2).min() > 0.5


def test_a_regressor_takes_scoring_names_and_any_module():
    x, _ = table()
    y = 10 * x[:, 0] + 100
    make = lambda features, outputs: nn.Linear(features, outputs)  # noqa: E731
    how = {"metric": "r2", "queries": 4, "effort": EFFORT, "random_state": 0}
    assert mo.MetricOptRegressor(epochs=20, **how).fit(x, y).score(x, y) > 0.9
    assert mo.MetricOptRegressor(make, epochs=5, **how).fit(x, y).predict(x).shape == (600,)


def test_what_is_no_module_is_said_in_one_sentence():
    with pytest.raises(AdapterError, match=r"module is 'mlp'; expected a torch.nn.Module, a function"):
        classifier("mlp").fit(*table())
