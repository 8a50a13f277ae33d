"""Workers: every question is answered once, by whoever is free; one that dies takes no question with it."""

import os
import pickle
import signal
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from metricopt.core.errors import MetricOptWarning, WorkerError
from metricopt.run import workers_executor
from metricopt.run.workers import ForkedCrew, hired, most_deaths
from metricopt.run.workers_executor import ExecutorCrew


def slowly(seconds):
    time.sleep(seconds)
    return seconds


def fatal(question):
    """Dies over the first question that says so, as often as the file has letters."""
    number, path = question
    if path.exists() and path.read_text():
        path.write_text(path.read_text()[1:])
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def answers(crew, questions):
    tickets = [crew.ask(question) for question in questions]
    found = [crew.answer(tickets) for _ in tickets]
    assert sorted(each.ticket for each in found) == tickets
    return found


def crews():
    """Each kind of workers that needs nothing installed, with what it stands on."""
    yield "forked", lambda function: hired(function, workers=3)
    yield "threads", lambda function: hired(function, workers=3, executor=ThreadPoolExecutor(3))
    yield "processes", lambda function: hired(function, workers=3, executor=ProcessPoolExecutor(3))


@pytest.mark.parametrize("kind", ["forked", "threads", "processes"])
def test_a_slow_answer_holds_nobody_up(kind):
    with dict(crews())[kind](slowly) as crew:
        assert crew is not None
        answers(crew, [0.0] * 3)  # workers that have to be started are there
        order = [each.answer for each in answers(crew, [1.0, *[0.01] * 9])]
    assert order == [*[0.01] * 9, 1.0]


def test_a_function_of_any_kind_is_held_by_forked_workers():
    state = {"sum": 2}
    with ForkedCrew(lambda number: number + state["sum"], 2) as crew:
        assert sorted(each.answer for each in answers(crew, range(5))) == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_question_whose_worker_was_killed_is_asked_again_and_the_loss_is_told(tmp_path, deaths):
    path = tmp_path / "deaths"
    path.write_text("x" * deaths)
    with ForkedCrew(fatal, 2) as crew:
        found = answers(crew, [(number, path) for number in range(6)])
    assert sorted(each.answer for each in found) == list(range(6))
    assert sum(each.lost for each in found) == deaths


def test_a_question_that_kills_every_worker_is_given_up():
    with ForkedCrew(lambda _: os.kill(os.getpid(), signal.SIGKILL), 1) as crew:
        (found,) = answers(crew, [0])
        assert found.answer is None and found.lost == 3
        with pytest.raises(WorkerError, match=rf"5 workers died .* expected at most {most_deaths(1)} in one run"):
            answers(crew, [0])


def test_forked_workers_end_with_the_crew():
    with ForkedCrew(lambda _: os.getpid(), 2) as crew:
        processes = {each.answer for each in answers(crew, [0] * 4)}
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_an_executor_that_breaks_is_replaced_by_this_process(tmp_path):
    path = tmp_path / "deaths"
    path.write_text("x")
    with (
        ProcessPoolExecutor(2) as pool,
        ExecutorCrew(fatal, 2, pool) as crew,
        pytest.warns(MetricOptWarning, match="the executor takes no more calls .* the rest is asked in this process"),
    ):
        found = answers(crew, [(number, path) for number in range(6)])
    assert sorted(each.answer for each in found) == list(range(6))
    assert 1 <= sum(each.lost for each in found) <= 2


def test_an_executor_that_is_shut_down_is_found_before_anything_is_asked():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(WorkerError, match=r"the executor takes no calls .*; expected one that is running"):
        ExecutorCrew(abs, 2, pool)


def test_what_is_no_executor_is_refused():
    with (
        pytest.raises(WorkerError, match=r"executor is 3; expected a concurrent\.futures\.Executor"),
        hired(abs, workers=2, executor=3),
    ):
        pass


class Heavy:
    """A function that knows how often it was unpickled in this process."""

    loaded: list[int] = []  # noqa: RUF012

    def __reduce__(self):
        return _load, ()

    def __call__(self, question):
        return question


def _load():
    Heavy.loaded.append(threading.get_ident())
    return Heavy()


@pytest.mark.parametrize("sees_the_disk", [True, False])
def test_the_function_is_given_to_each_worker_of_an_executor_once(sees_the_disk):
    Heavy.loaded.clear()
    with ThreadPoolExecutor(2) as pool, ExecutorCrew(Heavy(), 2, pool) as crew:
        if not sees_the_disk:
            crew._path.unlink()
        answers(crew, range(20))
    assert len(Heavy.loaded) == len(set(Heavy.loaded)) <= 2


def test_what_cannot_be_pickled_goes_by_cloudpickle_or_is_refused(monkeypatch):
    number = 2
    function = lambda question: question + number  # noqa: E731
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setitem(sys.modules, "cloudpickle", None)
        with pytest.raises(WorkerError, match="the metric cannot be sent to the executor's workers"):
            ExecutorCrew(function, 2, pool)
        monkeypatch.undo()
        pytest.importorskip("cloudpickle")
        assert pickle.loads(workers_executor._pickled(function))(1) == 3
