"""Retrieval metrics are judged on resamples of queries by class: how often a network that is no better is accepted."""

import pytest
import torch

from metricopt.acceptance.climb import climb, compare
from metricopt.acceptance.evidence import bootstrapped
from metricopt.acceptance.gathering import decision_calls, gathered
from metricopt.data.dataset import Examples
from metricopt.metrics import Metric, recall_at_k
from metricopt.task.answers import evaluator, resampled_costs

CLASSES, ITEMS, DIM, TRIALS = 30, 8, 6, 150


def no_better(seed):
    """Two embeddings of the same origin: whatever helps some classes and hurts others is drawn anew for each."""
    draw = torch.Generator().manual_seed(seed)
    targets = torch.arange(CLASSES).repeat_interleave(ITEMS)
    centres = torch.randn(CLASSES, DIM, generator=draw)
    # Classes are more or less blurred in either network, all items of a class alike.
    blurs = 0.4 + 0.8 * torch.rand(2, CLASSES, generator=draw)
    noise = torch.randn(2, len(targets), DIM, generator=draw)
    return centres[targets] + blurs[:, targets].unsqueeze(2) * noise, Examples(torch.zeros(len(targets), 1), targets)


def accepted_by_rows(metric, pair, data, generator):
    """What resampling rows would say: items drawn twice find themselves, and classes count as many rows."""
    plain = Metric(metric.function, on="logits", goal="max", name="plain", batched=metric.batched)
    both = [evaluator(plain, one, data.truth) for one in pair]
    found = bootstrapped(
        lambda index: torch.stack([values(index) for values in both]),
        len(data),
        60,
        generator,
        candidates=2,
        once=lambda _key, ask, _calls: ask(),
    )
    return climb(metric, found, examples=len(data))[1]


def test_a_network_that_is_no_better_is_accepted_as_rarely_as_said():
    by_query = []
    for seed in range(TRIALS):
        pair, data = no_better(seed)
        draw = torch.Generator().manual_seed(seed)
        by_query.append(compare(recall_at_k(), list(pair), data, resamples=200, generator=draw).accepted)
    # A one-sided test at 5%: of 150 more than 16 would happen once in a thousand times.
    assert sum(by_query) <= 16


def test_rows_drawn_twice_would_find_themselves_and_claim_certainty_that_is_not_there():
    widths, rows, levels = [], [], []
    for seed in range(6):
        pair, data = no_better(seed)
        honest = compare(recall_at_k(), list(pair), data, resamples=200, generator=torch.Generator().manual_seed(seed))
        naive = accepted_by_rows(recall_at_k(), pair, data, torch.Generator().manual_seed(seed))
        widths.append(honest.interval[1] - honest.interval[0])
        rows.append(naive.interval[1] - naive.interval[0])
        levels.append(naive.before)
    assert sum(rows) < 0.75 * sum(widths)


def test_resamples_of_rows_find_themselves():
    pair, data = no_better(0)
    metric = recall_at_k()
    plain = Metric(metric.function, on="logits", goal="max", name="plain", batched=metric.batched)
    draw = torch.Generator().manual_seed(0)
    index = torch.randint(len(data), (40, len(data)), generator=draw)
    level = metric.value(pair[0], data.targets)
    naive = evaluator(plain, pair[0], data.truth)(index).mean()
    units = metric.resampling.units(data.truth, len(data))
    honest = evaluator(metric, pair[0], data.truth)(torch.randint(units, (400, units), generator=draw)).mean()
    assert float(naive) > level + 0.1 and float(honest) == pytest.approx(level, abs=0.02)


def test_values_on_choices_of_classes_are_means_over_their_queries():
    pair, data = no_better(1)
    metric = recall_at_k((1, 5))
    scores = metric.resampling.scores(data.targets[None], pair[:1])[0]
    choices = torch.tensor([[0, 0, 3], [1, 2, 4]])
    expected = [torch.cat([scores[data.targets == label] for label in row]).mean() for row in choices]
    found = evaluator(metric, pair[0], data.truth)(choices)
    assert found.tolist() == pytest.approx([float(value) for value in expected])


def test_one_call_of_the_metric_gives_every_resample():
    pair, data = no_better(2)
    calls = []
    metric = recall_at_k()
    found = gathered(
        metric,
        list(pair),
        data,
        resamples=None,
        generator=torch.Generator().manual_seed(0),
        once=lambda _key, ask, count: (calls.append(count), ask())[1],
    )
    assert sum(calls) == found.calls == 2 <= decision_calls(metric, 1)
    assert found.others.shape == (2, 500)


def test_the_noise_of_the_search_is_that_of_classes():
    pair, data = no_better(3)
    costs = resampled_costs(recall_at_k(), pair[0], data.truth, rows=len(data), resamples=300, at_once=100)
    by_class = torch.stack(
        [1 - evaluator(recall_at_k(), pair[0], data.truth)(torch.tensor([[c]]))[0] for c in range(CLASSES)]
    )
    assert float(costs.std()) == pytest.approx(float(by_class.std()) / CLASSES**0.5, rel=0.2)


def test_a_users_metric_on_embeddings_is_never_asked_about_a_row_twice():
    seen = []

    def spread(classes, embeddings):
        seen.append(len(embeddings) == len({tuple(row) for row in embeddings.tolist()}))
        return float(abs(embeddings).mean() % 1)

    pair, data = no_better(4)
    metric = Metric(spread, on="embeddings", goal="max")
    found = gathered(metric, list(pair), data, resamples=None, generator=torch.Generator().manual_seed(0))
    assert found.folds and all(seen) and not metric.resampled
