"""Workers of a Ray cluster: actors that are given the function once and stay.

Ray that runs already, or that RAY_ADDRESS names, is joined and left running; otherwise one is started here and ended.
"""

import os
import pickle
import warnings
from typing import Any, final

from metricopt.core.errors import WorkerError
from metricopt.run.workers import Crew, Function

PATIENCE = 300.0
"""Seconds that workers may take to start: torch alone takes some on a busy machine."""


@final
class RayCrew(Crew):
    """Actors spread over the nodes of a cluster; in place of one that died another is made, perhaps on another node."""

    def __init__(self, function: Function, count: int) -> None:
        super().__init__(count)
        ray = self._ray = _ray()
        self._own = _begun(ray, count)
        try:
            # Stored once; every node fetches it once, every actor loads it once.
            stored = ray.put(_content(function))
            made = ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")(_Actor)
            self._hire = lambda: made.remote(stored)
            self._free = [self._hire() for _ in range(count)]
            _check_room(ray, self._free)
        except BaseException:
            self.close()
            raise
        self._busy: dict[Any, tuple[Any, int]] = {}

    def _send(self, ticket: int, question: Any) -> None:
        actor = self._free.pop()
        self._busy[actor.answer.remote(pickle.dumps(question, protocol=pickle.HIGHEST_PROTOCOL))] = actor, ticket

    def _arrivals(self) -> list[tuple[int, bool, Any]]:
        ready, _ = self._ray.wait(list(self._busy), num_returns=1)
        found = []
        for reference in ready:
            actor, ticket = self._busy.pop(reference)
            try:
                found.append((ticket, True, pickle.loads(self._ray.get(reference))))
                self._free.append(actor)
            except self._ray.exceptions.RayError:
                # It or its node is gone. One that Ray restarts refuses calls until it is there; a new one does not.
                found.append((ticket, False, None))
                self._free.append(self._hire())
        return found

    def close(self) -> None:
        """End the actors, and Ray itself if it was started here."""
        if self._own:
            self._ray.shutdown()
            return
        busy = [actor for actor, _ in self.__dict__.get("_busy", {}).values()]
        for actor in [*self.__dict__.get("_free", ()), *busy]:
            self._ray.kill(actor)


class _Actor:
    """What is resident: the function, loaded when the actor is made."""

    def __init__(self, content: bytes) -> None:
        import torch

        torch.set_num_threads(1)
        self._function: Function = pickle.loads(content)

    def answer(self, question: bytes) -> bytes:
        return pickle.dumps(self._function(pickle.loads(question)))

    def ready(self) -> str:
        return os.uname().nodename


def _ray() -> Any:
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise WorkerError(
            "executor is 'ray', but the package ray is not installed; expected it: "
            'pip install "metricopt-torch[ray]", or leave out executor to use processes of this machine'
        ) from error
    return ray


def _begun(ray: Any, count: int) -> bool:
    """Whether Ray had to be started here."""
    if ray.is_initialized():
        return False
    address = os.environ.get("RAY_ADDRESS")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Ray's own, about its coming defaults
        try:
            if address:
                ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            else:
                # "local": a cluster that was killed here leaves its address behind, and would be looked for.
                own = {"address": "local", "num_cpus": count, "include_dashboard": False}
                ray.init(**own, log_to_driver=False, logging_level="ERROR")
        except Exception as error:  # Ray raises all kinds, also the bare one
            raise WorkerError(
                f"no Ray at {address or 'this machine'} ({str(error)[:120]}); expected a cluster: start one with "
                f"`ray start --head`, or unset RAY_ADDRESS to have one started here"
            ) from error
    return True


def _content(function: Function) -> bytes:
    from ray import cloudpickle  # pyright: ignore[reportMissingImports]

    return cloudpickle.dumps(function)  # pyright: ignore[reportPrivateImportUsage]


def _check_room(ray: Any, actors: list[Any]) -> None:
    """Actors wait in silence for processors that are not there; that must not look like a slow metric."""
    ready, late = ray.wait([actor.ready.remote() for actor in actors], num_returns=len(actors), timeout=PATIENCE)
    if late:
        raise WorkerError(
            f"Ray started {len(ready)} of {len(actors)} workers within {PATIENCE:g} s; its nodes have "
            f"{ray.cluster_resources().get('CPU', 0):g} processors in all: ask for as many workers, or add nodes"
        )
