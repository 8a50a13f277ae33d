"""Activations of the layers that phi cannot reach, computed once for each data set."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import torch
from torch import Tensor

from metricopt.adapters import AdaptedModel
from metricopt.adapters.device import on_model, rows_apart
from metricopt.adapters.graph.checked_cut import checked_cut, recall_of
from metricopt.adapters.graph.recall import Recall, Remembered, each_tensor
from metricopt.adapters.graph.rooms import in_a_file, in_memory
from metricopt.adapters.graph.split import Crossing
from metricopt.core.errors import DataError
from metricopt.core.tree import Tree, each, joined, opened, row_count, rows, tensors_of
from metricopt.data.dataset import Data, Examples

DEFAULT_MEMORY = 2**30
# Rows the layers before the cut see at once, when a data set is gone through.
_ROWS = 1024
_BYTES_AT_ONCE = 2**22
# Below so many multiply-adds for each byte, computing is faster than reading from a disk.
_WORTH_A_DISK = 30


@final
class PrefixCache:
    """An adapted model on some data sets, without computing twice what no phi can change.

    The network is cut (`graph.split`), and the cut is compared with the model itself on a few rows. If that fails,
    everything goes through the model, and `reason` says why. What crosses the cut is kept in memory as far
    as the limit allows, and in files beyond if the model is on the CPU. Where there is nothing to cut, inputs given on
    another device than the model's are kept there within the same limit, or moved batch by batch. A network that
    cannot be cut and takes lists, as detectors do, recalls what its modules gave (`graph.recall`), example by example.

    Args:
        model: The adapted model.
        memory: Bytes of activations kept on the model's device; 0 turns the cache off.
        probe: A few rows of inputs.
        most_rows: Rows computed at the same time at most, where a pass takes long; None for as many as fit.
        beat: Called after each pass.

    Attributes:
        reason: Why something is not cached: the network cannot be cut, or a data set takes too much room.
        cut: The network in two parts; None if it cannot be cut.
        recall: What it recalls instead, where that works.
        bytes_in_memory: Activations kept in memory.
        bytes_on_disk: Activations kept in files.

    Example:
        >>> from metricopt.adapters import FiLM, adapt
        >>> from torch import nn
        >>> data = Examples(torch.randn(40, 6, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2)
        >>> model = adapt(nn.Sequential(nn.Linear(6, 100), nn.BatchNorm1d(100), nn.Linear(100, 1)), FiLM(dim=4))
        >>> cache = PrefixCache(model, probe=data.inputs)
        >>> cache.fill(data)
        >>> cache.reason, cache.bytes_in_memory
        ('', 16000)
        >>> phi, index = torch.ones(2, 4), torch.tensor([[0, 1], [5, 7]])
        >>> rows = cache.gather([(data, index)])
        >>> torch.allclose(cache.outputs(phi, rows, paired=True), model.outputs(phi, data.inputs[index], paired=True))
        True
    """

    def __init__(
        self,
        model: AdaptedModel,
        *,
        memory: int = DEFAULT_MEMORY,
        probe: Tree,
        most_rows: int | None = None,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self.model = model
        self.memory = memory
        self.most_rows = most_rows
        self.beat = beat
        self.bytes_in_memory = self.bytes_on_disk = 0
        probe = on_model(model, rows(probe, slice(0, 16)))
        self.reason, self.cut = checked_cut(model, probe) if memory else ("it is turned off", None)
        self.recall: Recall | None = None
        if self.cut is None and memory and model.gives_list:
            self.reason, self.recall = recall_of(model, rows(probe, slice(0, 1)))
        # Of a network that cannot be cut rows may influence each other, so they stay together. On a processor they do
        # anyway; elsewhere memory is scarce enough, and of slow ones time, to find out.
        scarce = self._device.type != "cpu" or most_rows is not None
        self._apart = self.cut is not None or (scarce and model.reader is not None and rows_apart(model, probe))
        # The data themselves are kept too: their identity is the key.
        self._kept: dict[int, tuple[Data, Crossing]] = {}
        self._remembered: dict[int, tuple[Data, list[Remembered]]] = {}
        self._placed: dict[int, tuple[Data, Tree]] = {}
        self._refused: dict[int, Data] = {}
        self._seen: dict[int, int] = {}

    @property
    def _device(self) -> torch.device:
        return self.model.phi.device

    def holds(self, data: Data) -> bool:
        """Whether the activations of a data set are there."""
        return id(data) in self._kept or id(data) in self._remembered

    def remembered(self, data: Data, index: Tensor) -> list[Remembered] | None:
        """Examples of a data set by number, (n,), as they are recalled; None if they are not."""
        if self.recall is None:
            return None
        self._count(data, index.numel())
        kept = self._remembered.get(id(data))
        return None if kept is None else [kept[1][row] for row in index.tolist()]

    def fill(self, data: Data) -> None:
        """Compute the activations of a data set, unless they are there or cannot be kept."""
        if self.holds(data) or id(data) in self._placed or id(data) in self._refused:
            return
        if self.recall is not None:
            self._remember(data)
            return
        if self.cut is None:
            self._place(data)
            return
        sample = self.cut.before(on_model(self.model, data.inputs_at(slice(0, 1))))
        size = len(data) * sum(tensor.nbytes for tensor in sample)
        crossing = self._room(sample, len(data), size)
        if crossing is None:
            self._place(data)
            self.reason = f"{size / 2**20:.0f} MiB for {len(data)} rows are over the limit and not worth a file"
            return
        for stretch in data.stretches(self._at_most(_ROWS if isinstance(data, Examples) else data.batch_size)):
            self.beat()
            found = self.cut.before(on_model(self.model, data.inputs_at(stretch)))
            if any(room.shape[1:] != part.shape[1:] for room, part in zip(crossing, found, strict=True)):
                self._refused[id(data)] = data
                self.reason = "its activations differ in shape from batch to batch, as those of padded texts do"
                return
            for room, part in zip(crossing, found, strict=True):
                room[stretch] = part
        self._kept[id(data)] = (data, crossing)

    def _remember(self, data: Data) -> None:
        """All examples, unless they would take more than there is: beyond the limit half of the disk, or no GPU's."""
        assert self.recall is not None
        sizes: list[int] = []
        first = self.recall.remember(on_model(self.model, data.inputs_at(slice(0, 1))))
        each_tensor(lambda tensor: (sizes.append(tensor.untyped_storage().nbytes()), tensor)[1], first)
        size = len(data) * sum(sizes)
        on_disk = shutil.disk_usage(tempfile.gettempdir()).free // 2 if self._device.type == "cpu" else 0
        if size > self.memory - self.bytes_in_memory + on_disk:
            self._refused[id(data)] = data
            self.reason = f"{size / 2**20:.0f} MiB for {len(data)} examples are over the limit"
            return
        self._remembered[id(data)] = (data, [self._one(data, row) for row in range(len(data))])

    def _one(self, data: Data, row: int) -> Remembered:
        """One example, in memory as far as the limit allows and in files beyond it, if the model is on the CPU."""
        assert self.recall is not None
        self.beat()
        return each_tensor(
            self._stored, self.recall.remember(on_model(self.model, data.inputs_at(slice(row, row + 1))))
        )

    def _stored(self, tensor: Tensor) -> Tensor:
        size = tensor.untyped_storage().nbytes()  # of one that is only a shape, a single number
        if self.bytes_in_memory + size <= self.memory or self._device.type != "cpu" or not tensor.dim():
            self.bytes_in_memory += size
            return tensor
        self.bytes_on_disk += tensor.nbytes
        room = in_a_file(len(tensor), tensor)
        room.copy_(tensor)
        return room

    def gather(self, wanted: Sequence[tuple[Data, Tensor]]) -> Tensor | Crossing:
        """Rows of data sets by index, one below the other: activations if all sets are cached, inputs otherwise.

        Of data whose inputs are one tensor.
        """
        for data, index in wanted:
            self._count(data, index.numel())
        if all(self.holds(data) for data, _ in wanted):
            columns = zip(*(self._kept[id(data)][1] for data, _ in wanted), strict=True)
            return Crossing(_below([c[i] for c, (_, i) in zip(column, wanted, strict=True)]) for column in columns)
        return _below([on_model(self.model, self._inputs(data)[index]) for data, index in wanted])

    def outputs(self, phi: Tensor, given: Tree | Crossing, *, paired: bool = False) -> Tensor:
        """As `AdaptedModel.outputs`, of what `gather` gave, or of inputs."""
        if not isinstance(given, Crossing):
            return self.model.outputs(phi, on_model(self.model, given), paired=paired)
        assert self.cut is not None
        return self.cut.outputs(phi, given, paired=paired)

    def all_outputs(self, phi: Tensor, data: Data, *, every: int = 1, at_once: int) -> Tensor:
        """Tensors read from the outputs on all rows of a data set, or on every so manyth, (population, n, ...).

        Without a graph, on the CPU.

        Args:
            phi: Vectors, (population, dim).
            data: Filled into the cache if it is not there.
            every: Distance between the rows.
            at_once: Members times rows computed at the same time.
        """
        self.fill(data)
        if id(data) in self._remembered:
            return self._read_of(phi, self._remembered[id(data)][1][::every])
        if self.holds(data) or isinstance(data, Examples):
            given = self._kept[id(data)][1] if self.holds(data) else self._inputs(data)
            return self.chunked(phi, given if every == 1 else _part(given, slice(None, None, every)), at_once=at_once)
        parts = [self.chunked(phi, inputs, at_once=at_once) for inputs in self._read(data, every)]
        if len({part.shape[2:] for part in parts}) > 1:
            raise DataError(
                f"outputs have shapes {sorted({tuple(part.shape[2:]) for part in parts})} an example in different "
                f"batches; expected one: pad all batches alike, or use a metric with on='outputs'"
            )
        return _below(parts, dim=1)

    def whole_outputs(self, phi: Tensor, data: Data) -> list[Tree]:
        """For each member all that the network gives on all rows, without a graph, on the CPU, one row an example.

        Of a network that gives one item an example, as detectors do, a list; of others the structure of their output,
        with lists for what differs in shape from batch to batch.
        """
        self.fill(data)
        with torch.no_grad():
            return [self._whole(member, data) for member in phi]

    def output(self, phi: Tensor, examples: Sequence[Remembered], *, model: AdaptedModel | None = None) -> Tree:
        """All that the network, or a twin of the model, gives for some examples at one phi (dim,), differentiable."""
        assert self.recall is not None
        return joined([self.recall.output(phi, example, model=model) for example in examples])

    def _read_of(self, phi: Tensor, examples: Sequence[Remembered]) -> Tensor:
        """Tensors read from the outputs, (population, n, ...)."""
        with torch.no_grad():
            return torch.stack([self.model.read(self.output(member, examples)) for member in phi]).cpu()

    def _whole(self, member: Tensor, data: Data) -> Tree:
        if id(data) in self._remembered:
            self.beat()
            found = self.output(member, self._remembered[id(data)][1])
            return each(lambda tensor: tensor.detach().cpu(), opened(found))
        parts = []
        for stretch in data.stretches(self._at_most(data.batch_size)):
            self.beat()
            if self.holds(data):
                assert self.cut is not None
                found = self.cut.output(member, _part(self._kept[id(data)][1], stretch))
            else:
                inputs = rows(self._inputs(data), stretch) if isinstance(data, Examples) else data.inputs_at(stretch)
                found = self.model.output(member, on_model(self.model, inputs))
            parts.append(each(lambda tensor: tensor.detach().cpu(), opened(found)))
        return joined(parts)

    def chunked(self, phi: Tensor, given: Tree | Crossing, *, at_once: int) -> Tensor:
        """Outputs for shared rows without a graph, on the CPU, at most `at_once` members times rows at a time."""
        tensors = tensors_of(tuple(given) if isinstance(given, Crossing) else given)
        count = row_count(tuple(given) if isinstance(given, Crossing) else given) or 1
        if self._device.type == "cpu" and tensors:
            # What fits into a processor's own memory is several times faster than what does not.
            at_once = min(at_once, max(64, _BYTES_AT_ONCE // max(1, sum(t[:1].nbytes for t in tensors))))
        at_once = self._at_most(max(1, at_once))
        step = min(count, at_once) if self._apart else count
        parts = []
        with torch.no_grad():
            for some in phi.split(max(1, at_once // count)):
                blocks = [self._block(some, _part(given, slice(i, i + step))) for i in range(0, count, step)]
                parts.append(_below(blocks, dim=1))
        return _below(parts)

    def _block(self, phi: Tensor, given: Tree | Crossing) -> Tensor:
        self.beat()
        return self.outputs(phi, given).cpu()

    def _at_most(self, rows: int) -> int:
        return rows if self.most_rows is None else max(1, min(rows, self.most_rows))

    def _read(self, data: Data, every: int) -> Iterator[Tree]:
        """Inputs of every so manyth row, some at a time."""
        if every == 1:
            yield from (data.inputs_at(stretch) for stretch in data.stretches(data.batch_size))
            return
        for some in torch.arange(0, len(data), every).split(data.batch_size):
            yield data.batch(some, seed=int(some[0])).inputs

    def _count(self, data: Data, rows: int) -> None:
        """Fill in a data set once as many of its rows were computed as it has: at most twice the least work."""
        if not self.holds(data) and id(data) not in self._placed:
            self._seen[id(data)] = self._seen.get(id(data), 0) + rows
            if self._seen[id(data)] >= len(data):
                self.fill(data)

    def _inputs(self, data: Data) -> Tree:
        if id(data) in self._placed:
            return self._placed[id(data)][1]
        assert isinstance(data, Examples)
        return data.inputs

    def _place(self, data: Data) -> None:
        """Keep the inputs as the model wants them, if they are not like that already and fit the limit."""
        if not isinstance(data, Examples):
            self._refused[id(data)] = data
            return
        inputs, sample = tensors_of(data.inputs), tensors_of(on_model(self.model, data.inputs_at(slice(0, 1))))
        alike = all((a.device, a.dtype) == (b.device, b.dtype) for a, b in zip(sample, inputs, strict=False))
        size = len(data) * sum(tensor.nbytes for tensor in sample)
        if alike or self.bytes_in_memory + size > self.memory:
            self._refused[id(data)] = data
            return
        self.bytes_in_memory += size
        self._placed[id(data)] = (data, on_model(self.model, data.inputs))

    def _room(self, sample: Crossing, rows: int, size: int) -> Crossing | None:
        """Unfilled tensors in memory or, beyond the limit, in files; None where neither makes sense."""
        assert self.cut is not None
        if self.bytes_in_memory + size <= self.memory:
            self.bytes_in_memory += size
            return Crossing(in_memory(rows, tensor) for tensor in sample)
        free = shutil.disk_usage(tempfile.gettempdir()).free
        if self._device.type != "cpu" or self.cut.saved * rows < _WORTH_A_DISK * size or size > free // 2:
            return None
        self.bytes_on_disk += size
        return Crossing(in_a_file(rows, tensor) for tensor in sample)


def _part(given: Tree | Crossing, which: slice) -> Any:
    return Crossing(tensor[which] for tensor in given) if isinstance(given, Crossing) else rows(given, which)


def _below(parts: list[Tensor], dim: int = 0) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)
