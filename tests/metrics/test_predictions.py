import pytest
import torch
from torch import nn

from metricopt.core.errors import MetricError
from metricopt.metrics import labels_of, margin_of, outputs_of, scores_of


def test_a_single_logit_reads_the_same_with_and_without_its_column():
    outputs = torch.randn(3, 20, generator=torch.Generator().manual_seed(0))
    for read in (labels_of, scores_of, margin_of):
        assert torch.equal(read(outputs), read(outputs.unsqueeze(-1)))


def test_a_single_logit_says_one_exactly_where_its_probability_exceeds_a_half():
    outputs = torch.tensor([[-1.0, 0.0, 1e-3, 5.0]])
    assert labels_of(outputs).tolist() == (scores_of(outputs) > 0.5).long().tolist() == [[0, 0, 1, 1]]


def test_several_logits_are_a_distribution_over_classes():
    outputs = torch.randn(2, 9, 4, generator=torch.Generator().manual_seed(0))
    scores = scores_of(outputs)
    torch.testing.assert_close(scores.sum(-1), torch.ones(2, 9, dtype=torch.float64))
    assert torch.equal(labels_of(outputs), scores.argmax(-1))


def test_the_probability_of_class_1_is_the_sigmoid_of_the_margin():
    outputs = torch.randn(2, 9, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(scores_of(outputs)[..., 1], margin_of(outputs).sigmoid())


def test_multilabel_columns_are_independent_questions():
    outputs = torch.tensor([[[3.0, 1.0, -1.0]]])
    assert labels_of(outputs, multilabel=True).tolist() == [[[1, 1, 0]]]
    torch.testing.assert_close(scores_of(outputs, multilabel=True), outputs.double().sigmoid())


def test_confident_float32_outputs_do_not_become_tied_scores():
    scores = scores_of(torch.tensor([[18.0, 19.0]]))
    assert scores[0, 0] < scores[0, 1] < 1


def test_image_shaped_outputs_have_no_labels():
    with pytest.raises(MetricError, match=r"\(1, 2, 3, 4\).*on='logits'"):
        labels_of(torch.zeros(1, 2, 3, 4))


def test_three_columns_have_no_margin():
    with pytest.raises(MetricError, match="3 output columns"):
        margin_of(torch.zeros(1, 2, 3))


def test_running_a_model_leaves_modes_buffers_and_gradients_alone():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5), nn.Linear(2, 1))
    model[1].eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    outputs = outputs_of(model, torch.ones(3, 2))
    assert [module.training for module in model] == [True, False, True]
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert not outputs.requires_grad


def test_a_model_that_returns_no_tensor_is_sent_to_on_model():
    with pytest.raises(MetricError, match=r"dict.*on='model'"):
        outputs_of(lambda inputs: {"boxes": inputs}, torch.ones(1))
