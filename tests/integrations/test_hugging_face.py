"""A transformers Trainer's model, improved after training: with its datasets, collator, loss and metrics."""

import numpy as np
import pytest
import torch
from tests.integrations.hugging_face import EFFORT, Sentences, bert, pad, scores, trainer
from transformers import BertForSequenceClassification

import metricopt as mo
from metricopt.core.errors import DataError, FileFormatError, MetricError, MetricFailureWarning, MetricOptError
from metricopt.integrations.huggingface import Computed

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def logits(model: torch.nn.Module) -> torch.Tensor:
    batch = pad([Sentences(20, 5)[i] for i in range(20)])
    del batch["labels"]
    with torch.no_grad():
        return model.eval()(**batch).logits


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trainer")
    given = trainer(folder)
    given.train()
    before = logits(given.model)
    result = mo.from_trainer(given, metric="eval_f1", queries=6, effort=EFFORT, run_dir=folder / "run")
    return given, result, before, folder


def test_the_trainers_own_metric_is_better_on_rows_the_weights_have_not_seen(done):
    _, result, _, _ = done
    assert result.accepted and result.metric.name == "f1" and result.metric.bounds == (0.0, 1.0)
    assert result.plan["loss"] == "the model's own loss"


def test_the_trainers_model_stays_as_it_is(done):
    given, _, before, _ = done
    assert torch.equal(logits(given.model), before)


def test_what_is_saved_with_save_pretrained_is_what_from_pretrained_reads(done, tmp_path):
    _, result, _, _ = done
    result.save_pretrained(tmp_path)
    again = BertForSequenceClassification.from_pretrained(tmp_path)
    torch.testing.assert_close(logits(again), logits(result.merge()))


def test_a_finished_run_is_resumed_without_another_query_and_loads(done):
    given, result, _, folder = done
    asked = []
    again = mo.from_trainer(
        given, metric="eval_f1", queries=6, effort=EFFORT, run_dir=folder / "run", resume=True,
        watch=[lambda event: asked.append(event["event"])],
    )  # fmt: skip
    assert torch.equal(again.model.phi, result.model.phi) and asked.count("query") == 0
    loaded = mo.load_result(folder / "run", given.model, result.metric, example=pad([Sentences(2, 0)[0]] * 2))
    assert torch.equal(loaded.model.phi, result.model.phi)


def test_a_run_stopped_in_the_middle_goes_on_and_pays_no_query_twice(done, tmp_path):
    given, result, _, _ = done
    asked = []

    class StopError(Exception):
        pass

    def stop(event):
        asked.append(event["event"])
        if asked.count("query") == 3:
            raise StopError

    def note(event):
        asked.append(event["event"])

    how = {"metric": "eval_f1", "queries": 6, "effort": EFFORT, "run_dir": tmp_path / "run"}
    with pytest.raises(StopError):
        mo.from_trainer(given, watch=[stop], **how)
    again = mo.from_trainer(given, watch=[note], resume=True, **how)
    assert torch.equal(again.model.phi, result.model.phi)
    assert asked.count("query") == result.ledger.used


def test_the_callback_gives_the_trainer_the_better_weights(tmp_path):
    given = trainer(tmp_path)
    callback = mo.MetricOptTrainerCallback(given, metric="eval_f1", queries=6, effort=EFFORT)
    given.add_callback(callback)
    given.train()
    assert callback.result is not None and callback.result.accepted
    torch.testing.assert_close(logits(given.model), logits(callback.result.merge()))


def test_a_model_of_bfloat16_is_searched_as_it_comes(tmp_path):
    given = trainer(tmp_path, bert().bfloat16(), steps=0)
    found = mo.from_trainer(
        given, metric="eval_f1", queries=4, recipe=mo.Recipe(start_steps=4),
        adapter=mo.Parameters("classifier.*", dim=8) + mo.OutputAffine(),
    )  # fmt: skip
    assert found.model.phi.dtype == torch.float32
    assert {parameter.dtype for parameter in found.merge().parameters()} == {torch.bfloat16}


def test_sequences_are_padded_and_all_outputs_but_the_loss_handed_over_as_trainer_does():
    seen = []
    metric = Computed(lambda given: {"eval_share": seen.append(given) or 0.5}, "share")
    rows = [np.zeros((2, 3)), np.ones((4, 3))]
    assert metric([torch.tensor([1, 2]), torch.tensor([3, 4, 5, 6])], {"loss": 1.0, "logits": rows}) == 0.5
    assert seen[0].predictions.shape == (2, 4, 3) and (seen[0].predictions[0, 2:] == -100).all()
    assert seen[0].label_ids.tolist() == [[1, 2, -100, -100], [3, 4, 5, 6]]


def raises(match: str, kind: type[Exception], given, **settings) -> None:
    with pytest.raises(kind, match=match) as caught:
        mo.from_trainer(given, **{"metric": "eval_f1", "queries": 4, "effort": EFFORT, **settings})
    assert "\n" not in str(caught.value)


def test_what_cannot_be_is_said_in_one_sentence(tmp_path):
    raises("the Trainer has no eval_dataset; expected one", DataError, trainer(tmp_path, eval_dataset=None))
    raises("the Trainer has no train_dataset; expected one", DataError, trainer(tmp_path, train_dataset=None))
    several = trainer(tmp_path, eval_dataset={"a": Sentences(30, 1), "b": Sentences(30, 2)})
    raises(r"eval_dataset is a dict of 'a', 'b'.*val=trainer.eval_dataset\['a'\]", DataError, several)
    raises("'eval_f1', but the Trainer has no compute_metrics", MetricError, trainer(tmp_path, compute_metrics=None))
    raises("which way metric 'yes' is better is not known", MetricError, trainer(tmp_path), metric="eval_yes")
    raises("'eval_loss', which is followed anyway", MetricError, trainer(tmp_path), metric="eval_loss")


def test_a_missing_entry_is_an_error_whether_or_not_the_trainer_has_evaluated(tmp_path):
    given = trainer(tmp_path)
    with pytest.warns(MetricFailureWarning, match="compute_metrics gives 'f1', 'yes', but no 'recall'"):
        raises("the metric failed at phi = 0, the original model", MetricOptError, given, metric="recall", goal="max")
    given.evaluate()
    raises("compute_metrics gives 'f1', 'yes', but no 'recall'", MetricError, given, metric="eval_recall", goal="max")


def test_a_function_of_an_eval_prediction_is_a_metric_once_its_goal_is_said(tmp_path):
    def yes(prediction) -> float:
        return scores(prediction)["yes"]

    given = trainer(tmp_path, steps=0)
    result = mo.from_trainer(given, metric=yes, goal="max", queries=4, effort=EFFORT)
    assert result.metric.name == "yes" and result.ledger.used == 4


def test_only_networks_that_have_it_are_saved_with_save_pretrained(tmp_path):
    x = torch.randn(200, 3)
    net, y = torch.nn.Linear(3, 2), (x[:, 0] > 0).long()
    result = mo.optimize(net, metric="f1", train=(x[:100], y[:100]), val=(x[100:], y[100:]), queries=2, effort=EFFORT)
    with pytest.raises(FileFormatError, match="a Linear has no save_pretrained"):
        result.save_pretrained(tmp_path)
