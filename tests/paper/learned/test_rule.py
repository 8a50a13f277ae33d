import math

import pytest
import torch

from metricopt.core.errors import UnknownNameError
from metricopt.core.seeding import stream
from metricopt.paper.learned.equation_s1_rule import EQUATION_S1, LOSS_ONLY, WITH_VALUE, MlpRule
from metricopt.paper.learned.inputs import TIMES
from metricopt.paper.learned.signals import Signals


def signals(seed: int, *, members: int = 2, dim: int = 3, metric: float | None = None) -> Signals:
    draw = stream(seed, "signals")
    vectors = [torch.randn(members, dim, generator=draw, dtype=torch.float64) for _ in range(3)]
    loss, known = (torch.rand(members, generator=draw, dtype=torch.float64) for _ in range(2))
    told = known if metric is None else torch.full_like(known, metric)
    return Signals(vectors[0], vectors[1], loss, told, vectors[2])


def root_mean_square(vector: list[float]) -> float:
    return math.sqrt(sum(x * x for x in vector) / len(vector))


def plain_loops(rule: MlpRule, weights: list[float], seen: list[Signals], member: int) -> list[float]:
    """The last update of one member, number by number."""
    dim = seen[0].phi.shape[1]
    averages = [[0.0] * dim for _ in rule.decays]
    first, mean = {}, {}
    for now in seen:
        gradient = now.gradient[member].tolist()
        averages = [
            [decay * a + (1 - decay) * g for a, g in zip(average, gradient, strict=True)]
            for decay, average in zip(rule.decays, averages, strict=True)
        ]
        for name, value in (("loss", now.loss[member].item()), ("metric", now.metric[member].item())):
            if not math.isnan(value):
                mean[name] = 0.9 * mean[name] + 0.1 * value if name in mean else value
                first.setdefault(name, value)
    last = seen[-1]
    updates = []
    for i in range(dim):
        inputs = []
        for name in rule.features:
            if name in ("gradient", "metric_gradient"):
                vector = getattr(last, name)[member].tolist()
                inputs.append(vector[i] / root_mean_square(vector))
            elif name == "average":
                inputs += [average[i] / root_mean_square(average) for average in averages]
            elif name == "phi":
                vector = last.phi[member].tolist()
                inputs.append(vector[i] / math.sqrt(1 + root_mean_square(vector) ** 2))
            elif name == "time":
                inputs += [math.tanh(len(seen) / scale - 1) for scale in TIMES]
            else:
                what = name.split("_")[0]
                value, reference = getattr(last, what)[member].item(), (mean if "change" in name else first).get(what)
                inputs.append(0.0 if reference is None else math.tanh((value - reference) / abs(reference)))
        numbers, values = iter(weights), inputs
        for layer, (a, b) in enumerate(zip(rule.widths, rule.widths[1:], strict=False)):
            matrix = [[next(numbers) for _ in range(b)] for _ in range(a + 1)]
            values = [sum(v * row[j] for v, row in zip([*values, 1.0], matrix, strict=True)) for j in range(b)]
            values = [max(v, 0.0) for v in values] if layer < len(rule.widths) - 2 else values
        updates.append(values[0] * math.exp(min(max(values[1], -4.0), 4.0)))
    return updates


@pytest.mark.parametrize("features", [EQUATION_S1, LOSS_ONLY, WITH_VALUE])
@pytest.mark.parametrize("metric", [None, math.nan])
def test_an_update_is_that_of_plain_loops_over_coordinates_and_layers(features, metric):
    rule = MlpRule(features=features, decays=(0.5, 0.9), hidden=(5, 4))
    weights = torch.randn(2, rule.size, generator=stream(1), dtype=torch.float64)
    seen = [signals(step, metric=metric) for step in range(4)]
    state = rule.start(seen[0].phi)
    for now in seen:
        update, state = rule.update(weights, now, state)
    for member in range(2):
        expected = plain_loops(rule, weights[member].tolist(), seen, member)
        torch.testing.assert_close(update[member], torch.tensor(expected, dtype=torch.float64))


def unit(vector: torch.Tensor) -> torch.Tensor:
    return vector / vector.square().mean(-1, keepdim=True).sqrt()


@pytest.mark.parametrize("hidden", [(2,), (8,), (8, 6)])
@pytest.mark.parametrize("features", [EQUATION_S1, ("time", "average"), WITH_VALUE])
def test_training_starts_from_a_step_against_the_average_gradient_and_that_of_the_metric(hidden, features):
    rule, now = MlpRule(features=features, hidden=hidden, decays=(0.9, 0.5)), signals(0)
    weights = rule.initial(stream(0)).double().expand(2, -1)
    update, _ = rule.update(weights, now, rule.start(now.phi))
    expected = -unit(now.gradient) - (unit(now.metric_gradient) if rule.needs_value else 0.0)
    torch.testing.assert_close(update, expected)


def test_the_scale_of_losses_gradients_and_metrics_changes_nothing():
    rule = MlpRule()
    weights, now = torch.randn(2, rule.size, generator=stream(1), dtype=torch.float64), signals(0)
    scaled = Signals(now.phi, 100 * now.gradient, 7 * now.loss, 0.5 * now.metric, now.metric_gradient)
    one, other = (rule.update(weights, each, rule.start(each.phi))[0] for each in (now, scaled))
    torch.testing.assert_close(one, other)


def test_a_normalised_step_is_as_long_as_its_one_alpha_says():
    plain, normalised = MlpRule(), MlpRule(normalised=True)
    weights, now = torch.randn(2, plain.size, generator=stream(1), dtype=torch.float64), signals(0)
    found = normalised.update(weights, now, normalised.start(now.phi))[0]
    # Twice the output's weights and bias of the direction change nothing: only alpha is listened to.
    doubled = weights.clone()
    last = doubled[:, -33 * 2 :].view(2, 33, 2)
    last[..., 0] *= 2
    torch.testing.assert_close(normalised.update(doubled, now, normalised.start(now.phi))[0], found)
    assert not torch.allclose(plain.update(doubled, now, plain.start(now.phi))[0], found)
    last[..., 1] = 0.0  # a logarithm of nothing: alpha is 1
    one = normalised.update(doubled, now, normalised.start(now.phi))[0]
    torch.testing.assert_close(one.square().mean(-1), torch.ones(2, dtype=torch.float64))


def test_an_unknown_feature_is_named():
    with pytest.raises(UnknownNameError, match="feature is 'gradeint'"):
        MlpRule(features=("gradeint", "average"))


def test_a_rule_without_an_average_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match="expected an 'average'"):
        MlpRule(features=("gradient",))
