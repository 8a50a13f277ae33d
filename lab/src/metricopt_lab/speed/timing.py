"""Ratios of running times on a machine that has other things to do."""

import gc
import os
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

Clock = Callable[[], float]


def interleaved(
    work: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    each: int = 1,
    warm_up: int = 2,
    clock: Clock = time.process_time,
) -> dict[str, np.ndarray]:
    """Seconds of one call of each piece of work, (rounds,), all of them in turn in every round.

    By default the process's own computing time: other processes on the machine then hardly count.

    Example:
        >>> taken = interleaved({"little": lambda: None, "much": lambda: sum(range(20000))}, rounds=3)
        >>> bool(np.median(taken["much"]) > np.median(taken["little"]))
        True
    """
    for _ in range(warm_up):
        for call in work.values():
            call()
    taken: dict[str, list[float]] = {name: [] for name in work}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, call in work.items():
                began = clock()
                for _ in range(each):
                    call()
                taken[name].append((clock() - began) / each)
    finally:
        gc.enable()
    return {name: np.array(seconds) for name, seconds in taken.items()}


def quartiles(values: np.ndarray) -> tuple[float, float, float]:
    """Median, lower and upper quartile.

    Example:
        >>> quartiles(np.array([1.0, 2.0, 3.0]))
        (2.0, 1.5, 2.5)
    """
    median, low, high = np.quantile(values, [0.5, 0.25, 0.75]).tolist()
    return median, low, high


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """p of seconds = c * size^p, fitted to the larger half of the sizes: at small ones fixed costs hide the growth.

    Example:
        >>> round(exponent([1, 10, 100, 1000], [5.0, 5.5, 50.0, 500.0]), 2)
        1.0
    """
    half = max(2, (len(sizes) + 1) // 2)
    slope, _ = np.polyfit(np.log(sizes[-half:]), np.log(seconds[-half:]), 1)
    return float(slope)


def peak_memory(work: Callable[[], object]) -> float:
    """MiB by which a call of `work` raises the memory of a process at most, seen in a forked copy; NaN if not known.

    Example:
        >>> round(peak_memory(lambda: np.ones(2**23)))  # doctest: +SKIP
        64
    """
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return float("nan")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            before = int(statm.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
            work()
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            os.write(writer, f"{(after - before) / 2**20}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as answer:
        text = answer.read()
    return float(text) if text else float("nan")


def children_seconds() -> float:
    """Computing time of all processes this one has started and waited for.

    Example:
        >>> children_seconds() >= 0
        True
    """
    times = os.times()
    return times.children_user + times.children_system
