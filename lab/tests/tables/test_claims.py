"""Claims of the paper: what a difference with an error says of a published one."""

import pytest

from metricopt_lab.tables.claims import Claim, Difference, claims_table, verdict


@pytest.mark.parametrize(
    ("mean", "error", "published", "said"),
    [
        (0.03, 0.01, 0.5, "confirmed"),  # better beyond doubt, be it less than published
        (0.01, 0.01, 0.02, "not resolvable here"),  # 0 and the published difference are both within the interval
        (0.00, 0.01, 0.02, "not confirmed"),  # the published difference is outside
        (-0.05, 0.01, 0.02, "not confirmed"),
        (-0.01, 0.002, -0.005, "not confirmed"),  # published as worse, and worse here
        (5.00, float("inf"), 0.02, "not resolvable here"),  # a single seed tells nothing
    ],
)
def test_one_rule_gives_every_verdict(mean, error, published, said):
    assert verdict(Difference(mean, error), published) == said


def test_a_table_has_one_line_a_claim_and_a_dash_where_nothing_was_measured():
    found = {"metricopt_paper": Difference(0.004, 0.001)}
    text = claims_table(
        [Claim("better than X", ("x",), 0.002)], lambda _, method: found.get(method), scale=100, digits=1
    )
    cells = [cell.strip() for cell in text.splitlines()[-1].strip("|").split("|")]
    assert cells == ["better than X", "+0.2", "+0.4 ± 0.1", "confirmed", "—"]
