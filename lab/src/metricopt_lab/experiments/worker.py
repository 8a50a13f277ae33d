"""How a worker process of an experiment begins."""

import multiprocessing
import os
import threading

import torch


def begin_worker() -> None:
    """One thread, no slow arithmetic next to zero, and an end as soon as the process that started it has ended.

    Workers of a command that was killed would otherwise go on for as long as their jobs take.
    """
    torch.set_num_threads(1)
    # Numbers next to zero, which a diverging value network is full of, are ten times slower than others.
    torch.set_flush_denormal(True)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
