"""Figure S4: what varies and what stays, and verdicts that follow from the records alone."""

import pytest
import torch

from metricopt.adapters import adapt
from metricopt_lab.cells import Settings
from metricopt_lab.figures.figure_s4.experiment import EFFORTS, VARIANTS, FigureS4, adapter_of, observations
from metricopt_lab.figures.figure_s4.plot import draw_panels
from metricopt_lab.figures.figure_s4.text import CLAIMS, PANELS, figure_s4_text
from metricopt_lab.networks import resnet32, small_convnet


def records(costs: dict[str, tuple[float, ...]], seeds: int = 3) -> list[dict]:
    return [
        {"scale": "small", "data": "small_convnet", "seed": seed, "metric": kind, "method": name, "test_before": 0.3,
         "test_cost": costs.get(name, (0.25, 0.26, 0.27))[seed], "dim": 148, "queries": 144, "rank_correlation": 0.5,
         "problem": "made up; FiLM of something"}
        for seed in range(seeds)
        for name, variant in VARIANTS.items()
        for kind in variant.kinds
    ]  # fmt: skip


def verdict(text: str, words: str) -> str:
    return next(line for line in text.splitlines() if words in line)


def test_every_panel_holds_the_default_and_every_variant_has_a_panel():
    assert all("default" in variants for variants in PANELS.values())
    assert {name for variants in PANELS.values() for name in variants} == set(VARIANTS)
    assert {claim.variant for claim in CLAIMS} == set(VARIANTS) - {"default"}


def test_the_paper_s_scale_has_500_tasks_of_200_steps_with_10_observations_by_default():
    effort = EFFORTS["paper"]
    assert (effort.tasks, effort.stages.steps, observations(VARIANTS["default"], effort.stages.steps)) == (500, 200, 10)


def test_all_observations_means_one_a_step():
    assert all(
        observations(VARIANTS["k-100"], effort.stages.steps) == effort.stages.steps for effort in EFFORTS.values()
    )


def test_the_larger_network_is_measured_if_it_is_named():
    assert {cell.data for cell in FigureS4(Settings(seeds=1)).cells()} == {"small_convnet"}
    assert {cell.data for cell in FigureS4(Settings(seeds=1, data=("resnet32",))).cells()} == {"resnet32"}


@pytest.mark.parametrize(("variant", "small", "large"), [("last-biases", 10, 10), ("last-layer", 1930, 650)])
def test_inputs_of_the_last_layer_have_as_many_coordinates_as_it_has_parameters(variant, small, large):
    for network, make, dim in (("small_convnet", small_convnet, small), ("resnet32", resnet32, large)):
        adapter = adapter_of(VARIANTS[variant], network, "small")
        assert adapt(make(), adapter, example=torch.zeros(2, 3, 32, 32)).dim == dim


def test_a_difference_is_believed_only_if_seeds_agree_on_it():
    text = figure_s4_text(records({"k-2.5": (0.35, 0.37, 0.36), "k-10": (0.1, 0.5, 0.2)}))
    assert verdict(text, "K = 2.5% of T hurts").endswith("worse: confirmed.")
    assert verdict(text, "K = 10% of T slightly helps").endswith("no difference is resolved: not confirmed.")


def test_what_contradicts_the_paper_is_said():
    text = figure_s4_text(records({"last-layer": (0.15, 0.17, 0.16), "d-32": (0.35, 0.37, 0.36)}))
    assert verdict(text, "the whole last layer fails").count("better: not confirmed") == 2
    assert verdict(text, "d = 32 does about as well").count("worse: not confirmed") == 2


def test_differences_are_paired_by_seed():
    text = figure_s4_text(records({"d-64": (0.26, 0.27, 0.28)}))
    assert "+.0100 ± .0000" in verdict(text, "| 64 ")


def test_one_seed_gives_no_verdict():
    assert "one seed tells nothing" in verdict(figure_s4_text(records({}, seeds=1)), "K = 2.5% of T hurts")


def test_a_picture_is_drawn(tmp_path):
    draw_panels(records({}), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
