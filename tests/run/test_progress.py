"""Progress is silent for what is quick, rare in logs, and a bar on terminals."""

import io

from metricopt.run.progress import INTERVAL, Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lines_of(moments: list[float]) -> list[str]:
    clock, stream = Clock(), io.StringIO()
    with Progress("work", total=len(moments), stream=stream, clock=clock) as progress:
        for done, clock.now in enumerate(moments, 1):
            progress.update(done)
    return stream.getvalue().splitlines()


def test_work_of_less_than_two_seconds_is_not_mentioned():
    assert lines_of([0.1, 1.0, 1.9]) == []


def test_a_log_gets_at_most_one_line_an_interval():
    moments = [0.1 * step for step in range(1, 401)]  # 40 seconds
    assert len(lines_of(moments)) == 1 + int((40 - 2) / INTERVAL)


def test_the_time_left_follows_the_pace_since_the_first_step():
    # Ten seconds of training before the first step, then one step a second.
    assert lines_of([10.0, 16.0, 22.0, 28.0])[-2:] == ["work: 3/4, 6 s left", "work: 4/4, 0 s left"]


def test_a_terminal_gets_a_bar_that_is_gone_in_the_end():
    clock, stream = Clock(), Terminal()
    with Progress("work", total=4, stream=stream, clock=clock) as progress:
        clock.now = 3.0
        progress.update(2, "half-way")
    assert "half-way" in stream.getvalue()
    assert "━" in stream.getvalue()
