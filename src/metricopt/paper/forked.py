"""Work that this process and forked ones do in turn: the same results from any number of them."""

import gc
import math
import mmap
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

import torch
from torch import Tensor

from metricopt.core.errors import MetricOptError

Found = TypeVar("Found")


def can_fork() -> bool:
    """Whether this system can fork processes at all.

    Example:
        >>> isinstance(can_fork(), bool)
        True
    """
    return "fork" in multiprocessing.get_all_start_methods()


def shared_zeros(*shape: int, dtype: torch.dtype) -> Tensor:
    """Zeros in memory that forked processes write to as well: a pipe would have to carry every number.

    Example:
        >>> shared_zeros(2, 3, dtype=torch.float32).shape
        torch.Size([2, 3])
    """
    memory = mmap.mmap(-1, math.prod(shape) * dtype.itemsize)
    return torch.frombuffer(memory, dtype=dtype).view(shape)


@contextmanager
def one_thread() -> Iterator[None]:
    """In it torch computes with one thread.

    Example:
        >>> with one_thread():
        ...     torch.get_num_threads()
        1
    """
    # Several threads would sum in another order than one: other last bits.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def in_turn(work: Callable[[int], Found], groups: int, *, workers: int) -> Iterator[Found]:
    """`work(group)` of all groups in order, by this process and `workers` - 1 forked ones in turn.

    Example:
        >>> list(in_turn(lambda group: group * group, 4, workers=1))
        [0, 1, 4, 9]
    """
    processes: list[BaseProcess] = []
    receivers: list[Connection] = []
    try:
        for turn in range(1, workers):
            process = _forked(work, range(turn, groups, workers), receivers)
            processes.append(process)
        for group in range(groups):
            turn = group % workers
            yield _received(receivers[turn - 1], group) if turn else work(group)
    finally:
        for receiver in receivers:
            receiver.close()
        for process in processes:
            process.terminate()
            process.join()


def _forked(work: Callable[[int], Found], groups: range, receivers: list[Connection]) -> BaseProcess:
    """A process that works on some of the groups; what it sends comes out of the last of the receivers."""
    # Forked, not spawned: nothing of a task has to be pickled, and activations it has cached are shared.
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    receivers.append(receiver)
    process = context.Process(target=_serve, args=(work, groups, sender, receivers), daemon=True)
    process.start()
    sender.close()  # the child has its own; with ours open its death would go unnoticed
    return process


def _serve(work: Callable[[int], object], groups: range, sender: Connection, receivers: list[Connection]) -> None:
    """Body of a forked process: what it found of each group, or one sentence about what went wrong."""
    for receiver in receivers:
        receiver.close()  # the first process reads; when it is gone, writing has to fail
    torch.set_num_threads(1)
    gc.disable()  # going through everything inherited would copy it, page by page
    for group in groups:
        try:
            sender.send((work(group), None))
        except Exception as error:
            sender.send((None, f"{type(error).__name__}: {error}"))
            return


def _received(receiver: Connection, group: int) -> Any:
    try:
        found, failure = receiver.recv()
    except EOFError:
        raise MetricOptError(
            f"a worker process died in group {group} of the tasks (out of memory?); try again with fewer workers"
        ) from None
    if failure is not None:
        raise MetricOptError(f"a worker process failed in group {group} of the tasks: {failure}")
    return found
