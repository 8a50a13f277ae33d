import os

import pytest
import torch

from metricopt.core.errors import MetricOptError
from metricopt.paper.forked import can_fork, in_turn, one_thread, shared_zeros

pytestmark = pytest.mark.skipif(not can_fork(), reason="this system cannot fork processes")


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_order_from_as_many_processes_as_were_asked_for(workers):
    found = list(in_turn(lambda group: (group, os.getpid()), 7, workers=workers))
    assert [group for group, _ in found] == list(range(7))
    assert len({process for _, process in found}) == workers
    assert found[0][1] == os.getpid()


def test_what_forked_processes_write_to_shared_memory_is_seen_here():
    rows = shared_zeros(4, 3, dtype=torch.float32)

    def work(group: int) -> None:
        rows[group] = group + 1

    list(in_turn(work, 4, workers=2))
    assert rows[:, 0].tolist() == [1, 2, 3, 4]


def test_the_death_of_a_process_is_one_sentence_and_no_endless_wait():
    def work(group: int) -> None:
        if group == 1:
            os._exit(1)

    with pytest.raises(MetricOptError, match="a worker process died in group 1 of the tasks"):
        list(in_turn(work, 3, workers=2))


def test_an_error_in_a_process_is_one_sentence_here():
    def work(group: int) -> int:
        return 1 // (1 - group)

    with pytest.raises(MetricOptError, match="failed in group 1 of the tasks: ZeroDivisionError"):
        list(in_turn(work, 3, workers=2))


def test_the_number_of_threads_is_what_it_was():
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
