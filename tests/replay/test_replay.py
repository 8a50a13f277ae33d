"""Recorded small runs come out again, bit for bit: what changes them bumps a version, and says so."""

import pytest
from tests.replay.problems import PROBLEMS
from tests.replay.record import head, machine, recorded, refusal, replay
from tests.replay.runs import WAYS

HEAD, *RUNS = recorded()
ADVICE = (
    "bits changed: bump RECIPE_VERSION of metricopt.search, or the rival's version, then python -m tests.replay.record"
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_recorded_run_comes_out_again_to_the_last_bit(problem, way):
    if HEAD["machine"] != machine():
        pytest.skip(f"recorded with {HEAD['machine']}, this machine has {machine()}")
    expected = next(run for run in RUNS if (run["problem"], run["way"]) == (problem, way))
    assert replay(problem, way) == expected, ADVICE


def test_the_recordings_are_of_the_present_versions():
    assert HEAD["versions"] == head()["versions"], "bumped and not recorded: python -m tests.replay.record"


def made(version, phi, **machine):
    return [{"machine": machine, "versions": {"default": version}}, {"problem": "p", "way": "default", "phi": phi}]


def test_other_bits_of_the_same_version_are_not_recorded():
    assert "bump RECIPE_VERSION" in refusal(made(2, "00"), made(2, "01"))


def test_the_same_bits_other_bits_of_a_new_version_and_those_of_another_machine_are_recorded():
    assert refusal(made(2, "00"), made(2, "00")) == ""
    assert refusal(made(2, "00"), made(3, "01")) == ""
    assert refusal(made(2, "00"), made(2, "01", processor="another")) == ""
