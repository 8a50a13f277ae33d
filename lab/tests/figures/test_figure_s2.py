"""Figure S2: the plane is what geometry says, marks and heights belong together, and the text tells the order."""

import numpy as np
import pytest
import torch

from metricopt_lab.cells import Settings
from metricopt_lab.figures.figure_s2.experiment import CORNERS, FigureS2, Plane
from metricopt_lab.figures.figure_s2.plot import LOOKS, draw_surfaces
from metricopt_lab.figures.figure_s2.text import SOLUTIONS, figure_s2_text

draw = torch.Generator().manual_seed(0)
POINTS = torch.randn(3, 7, generator=draw, dtype=torch.float64)


def records(costs: dict[str, float], seed: int = 0) -> list[dict]:
    place = {"place": [1.0, 2.0], "off_plane": 0.5, "train_loss_on_plane": 0.4, "test_cost_on_plane": 0.3}
    common = {"scale": "small", "seed": seed, "problem": "made up"}
    found = [
        {**common, "method": method, "train_loss": 0.4 + i / 10, "test_cost": costs.get(method, 0.3), "length": 1.0,
         "queries": 7}
        for i, method in enumerate(SOLUTIONS)
    ]  # fmt: skip
    grid = {"x": [0.0, 1.0, 2.0], "y": [0.0, 5.0], "train_loss": [[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]]}
    cost = [[0.3, 0.4, 0.5], [0.6, 0.7, 0.2]]
    return [*found, {**common, "method": "surface", **grid, "test_cost": cost, "queries": 0,
                     "solutions": dict.fromkeys(SOLUTIONS, place)}]  # fmt: skip


def test_the_three_points_are_on_their_plane_and_the_first_is_its_origin():
    plane = Plane.through(*POINTS)
    torch.testing.assert_close(plane.distances(POINTS), torch.zeros(3, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(plane.points(plane.coordinates(POINTS)), POINTS)
    first, second, _ = plane.coordinates(POINTS)
    assert first.tolist() == [0, 0]
    assert second.tolist() == pytest.approx([float((POINTS[1] - POINTS[0]).norm()), 0])


def test_distances_to_the_plane_are_those_of_least_squares():
    plane = Plane.through(*POINTS)
    others = torch.randn(5, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    spanned = torch.stack([POINTS[1] - POINTS[0], POINTS[2] - POINTS[0]], 1).numpy()
    for other, distance in zip(others, plane.distances(others), strict=True):
        difference = (other - POINTS[0]).numpy()
        weights = np.linalg.lstsq(spanned, difference, rcond=None)[0]
        assert float(distance) == pytest.approx(np.linalg.norm(difference - spanned @ weights))


def test_every_solution_has_a_look_and_the_plane_s_corners_are_solutions():
    assert set(LOOKS) == set(SOLUTIONS) >= set(CORNERS)
    assert len(set(LOOKS.values())) == len(LOOKS)


def test_the_surface_is_the_last_cell_of_a_seed():
    cells = FigureS2(Settings(seeds=2)).cells()
    assert [cell.method for cell in cells] == 2 * [*SOLUTIONS, "surface"]


def two_seeds(method: str, costs: tuple[float, float]) -> str:
    return figure_s2_text([row for seed, cost in enumerate(costs) for row in records({method: cost}, seed)])


def test_the_text_says_whose_metric_is_best_even_if_it_is_not_ours():
    lost, won = two_seeds("aucpr", (0.1, 0.1)), two_seeds("metricopt", (0.1, 0.1))
    assert "of the others: AUCPR loss, .1000 at train loss .6000." in lost
    assert "(p < .05): not confirmed." in lost
    assert "ours: MetricOpt, search, .1000 at train loss .9000; of the others: pre-trained, .3000 at" in won
    assert "(p < .05): confirmed." in won


def test_a_lead_that_seeds_do_not_agree_on_is_a_tie():
    assert "(p < .05): a tie." in two_seeds("metricopt", (0.1, 0.4))


def test_the_text_finds_the_lowest_points_of_both_grids():
    text = figure_s2_text(records({}))
    assert "the least train loss on the grid is 1.0000, at (1.00, 0.00)" in text
    assert "the least 1 - AUCPR on the grid is .2000, at (2.00, 5.00)" in text


def test_a_picture_is_drawn_even_where_a_height_is_missing(tmp_path):
    surface = records({})[-1]
    surface["train_loss"][0][0] = None
    draw_surfaces(surface, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
