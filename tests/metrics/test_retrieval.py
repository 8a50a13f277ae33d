"""Retrieval metrics against pytorch-metric-learning and plain loops; blocks, ties, roles, bad input."""

import pytest
import torch

from metricopt.core.errors import MetricError
from metricopt.metrics import map_at_r, precision_at_1, r_precision, recall_at_k
from metricopt.metrics import retrieval as module

MEASURES = {"precision_at_1": precision_at_1, "r_precision": r_precision, "mean_average_precision_at_r": map_at_r}


def drawn(seed=0, n=120, dim=6, classes=25, spread=1.0):
    draw = torch.Generator().manual_seed(seed)
    targets = torch.randint(classes, (n,), generator=draw)
    centres = torch.randn(classes, dim, generator=draw)
    return centres[targets] + spread * torch.randn(n, dim, generator=draw), targets


def distances(embeddings, distance):
    if distance == "cosine":
        unit = embeddings.double() / embeddings.double().norm(dim=1, keepdim=True)
        return -(unit @ unit.T)
    return torch.cdist(embeddings.double(), embeddings.double())


def looped_recall(embeddings, targets, ks, distance="cosine", roles=None):
    """The mean over k of the share of queries that find one of their class, by plain loops."""
    roles = [2] * len(targets) if roles is None else roles.tolist()
    far, shares = distances(embeddings, distance).tolist(), []
    for k in ks:
        hits = []
        for q in range(len(targets)):
            items = [j for j in range(len(targets)) if j != q and roles[j] != 1]
            if roles[q] == 0 or not any(targets[j] == targets[q] for j in items):
                continue
            items.sort(key=lambda j, q=q: (far[q][j], bool(targets[j] == targets[q])))
            hits.append(any(targets[j] == targets[q] for j in items[:k]))
        shares.append(sum(hits) / len(hits))
    return sum(shares) / len(shares)


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("seed", range(2))
def test_it_is_that_of_pytorch_metric_learning(name, distance, seed):
    calculator = pytest.importorskip("pytorch_metric_learning.utils.accuracy_calculator")
    inference = pytest.importorskip("pytorch_metric_learning.utils.inference")
    measures = pytest.importorskip("pytorch_metric_learning.distances")
    embeddings, targets = drawn(seed)
    kind = measures.CosineSimilarity() if distance == "cosine" else measures.LpDistance(normalize_embeddings=False)
    theirs = calculator.AccuracyCalculator(
        include=(name,), k="max_bin_count", device=torch.device("cpu"), knn_func=inference.CustomKNN(kind)
    ).get_accuracy(embeddings, targets, embeddings, targets, ref_includes_query=True)
    assert MEASURES[name](distance=distance).value(embeddings, targets) == pytest.approx(theirs[name], abs=1e-9)


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("ks", [(1,), (3,), (1, 5, 20)])
def test_recall_is_that_of_plain_loops(distance, ks):
    embeddings, targets = drawn(3)
    found = recall_at_k(ks, distance=distance).value(embeddings, targets)
    assert found == pytest.approx(looped_recall(embeddings, targets, ks, distance), abs=1e-12)


def test_separate_queries_and_gallery_are_told_by_groups():
    embeddings, targets = drawn(4)
    roles = torch.randint(3, (120,), generator=torch.Generator().manual_seed(1))
    found = recall_at_k((1, 4), separate=True).value(embeddings, targets, roles)
    assert found == pytest.approx(looped_recall(embeddings, targets, (1, 4), roles=roles), abs=1e-12)


@pytest.mark.parametrize("metric", [recall_at_k, r_precision, map_at_r])
def test_blocks_and_populations_change_nothing(metric, monkeypatch):
    members = torch.stack([drawn(seed, n=90)[0] for seed in range(5)])
    targets = drawn(0, n=90)[1]
    whole = metric().values(members, targets)
    small = metric(memory=90 * 8 * 7).values(members, targets)  # seven queries at a time
    assert torch.equal(whole, small)
    assert whole.tolist() == [metric().value(each, targets) for each in members]
    own = torch.stack([drawn(seed, n=90)[1] for seed in range(5)])  # one set of classes a member
    alone = [metric().value(e, t) for e, t in zip(members, own, strict=True)]
    assert metric().values(members, own).tolist() == alone


@pytest.mark.parametrize("metric", [recall_at_k, r_precision, map_at_r])
def test_embeddings_that_are_all_alike_find_nothing(metric):
    embeddings, targets = torch.ones(30, 3), torch.arange(30) % 10
    assert metric(distance="euclidean").value(embeddings, targets) == 0.0


def test_a_class_of_one_item_is_no_query_and_stays_to_be_found():
    embeddings = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.99, 0.1]])
    assert recall_at_k().value(embeddings, torch.tensor([0, 0, 5])) == 0.0
    assert recall_at_k().value(embeddings[:2], torch.tensor([0, 0])) == 1.0


@pytest.mark.parametrize(
    ("metric", "embeddings", "targets", "said"),
    [
        (recall_at_k(), torch.eye(4), torch.arange(4), "none of 4 queries has an item of its class"),
        (recall_at_k(4), torch.eye(4), torch.zeros(4), "k is 4, but the gallery has 3 items beside the query"),
        (recall_at_k(), torch.zeros(4, 2), torch.zeros(4), "4 of 4 embeddings are zero"),
        (recall_at_k(), torch.full((4, 2), torch.nan), torch.zeros(4), r"NaN or \+inf"),
        (recall_at_k(), torch.eye(4), torch.tensor([0.5, 1, 1, 1]), "such as 0.5; expected one class code a row"),
        (recall_at_k(), torch.eye(4)[:, :1], torch.zeros(4), "are no embeddings"),
    ],
)
def test_bad_input_is_one_sentence(metric, embeddings, targets, said):
    with pytest.raises(MetricError, match=said):
        metric.value(embeddings, targets)


def test_settings_without_meaning_are_refused():
    for k in (0, (), (1, 0), 1.5, True):
        with pytest.raises(MetricError, match="k is"):
            recall_at_k(k)
    with pytest.raises(Exception, match="distance"):
        recall_at_k(distance="manhattan")
    with pytest.raises(MetricError, match="expected the role of each row"):
        recall_at_k(separate=True).value(torch.eye(4), torch.zeros(4), torch.tensor([0, 1, 7, 1]))


def test_similarities_take_no_more_memory_than_granted():
    largest = []

    def noted(block):
        largest.append(block.nearness.nbytes)
        return torch.zeros(block.nearness.shape[:2])

    embeddings, targets = drawn(n=2000, classes=100)
    scores = module.QueryScores(noted, "cosine", 2**20, module.Roles(separate=False, least=1))
    scores(targets[None].expand(3, -1), embeddings.expand(3, -1, -1))
    assert max(largest) <= 2**20 and len(largest) > 10
