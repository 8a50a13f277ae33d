"""The layers of a network an adapter can act on, in the order the network calls them."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from metricopt.adapters.detector import pooling
from metricopt.core.errors import AdapterError
from metricopt.core.tree import Call, Tree, call, described

Kinds = tuple[type[nn.Module], ...]

LINEAR: Kinds = (nn.Linear,)
CONVOLUTION: Kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
BATCH_NORM: Kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
SAMPLE_NORM: Kinds = (nn.LayerNorm, nn.GroupNorm)
EVERY_KIND: Kinds = LINEAR + CONVOLUTION + BATCH_NORM + SAMPLE_NORM


@dataclass(frozen=True)
class Site:
    """One layer of a network whose output has a known channel axis.

    Attributes:
        name: Dotted name of the layer in the network.
        module: The layer.
        channels: Size of the channel axis of its output.
        axis: That axis.
    """

    name: str
    module: nn.Module
    channels: int
    axis: int


@dataclass(frozen=True)
class Survey:
    """What an adapter may know of the network it is bound to.

    Attributes:
        sites: Layers it can act on: in the order of their first call if an example was run, of definition otherwise.
        defined: Names of all layers with parameters or of a known kind, for messages.
        output: What the network gave for the example, if there was one.
        tensors: Its floating parameters and buffers by name.
        parameters: Which of these are parameters.
    """

    sites: tuple[Site, ...]
    defined: tuple[str, ...]
    output: object = None
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    parameters: tuple[str, ...] = ()

    def of_kind(self, kinds: Kinds) -> tuple[Site, ...]:
        """The layers of some kinds."""
        return tuple(site for site in self.sites if isinstance(site.module, kinds))


def survey(net: nn.Module, example: Tree = None, *, call: Call = call) -> Survey:
    """The layers of `net`, looked up in its definition or, better, by running it on an example.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU())
        >>> [(site.name, site.channels) for site in survey(net).sites]
        [('0', 3), ('1', 3)]
    """
    modules = dict(net.named_modules())
    # nn.MultiheadAttention reads the weights of its out_proj and never calls it: a hook there would do nothing.
    silent = {id(m.out_proj) for m in modules.values() if isinstance(m, nn.MultiheadAttention)}
    kinds = EVERY_KIND + pooling()
    defined = [name for name, m in modules.items() if isinstance(m, kinds) and id(m) not in silent]
    shapes: dict[str, torch.Size] = {}
    output = None if example is None else _run(net, example, defined, call, shapes)
    called = [name for name in (defined if example is None else shapes) if _known(modules[name], shapes.get(name))]
    sites = tuple(Site(name, modules[name], *channels_of(modules[name], shapes.get(name))) for name in called)
    every = (*net.named_parameters(), *net.named_buffers())
    tensors = {name: tensor for name, tensor in every if tensor.is_floating_point()}
    parameters = tuple(name for name, _ in net.named_parameters() if name in tensors)
    return Survey(sites, tuple(defined), output, tensors, parameters)


def _known(layer: nn.Module, shape: torch.Size | None) -> bool:
    """Whether the channel axis of a layer's output is known; what pools boxes has as many as an example shows."""
    return isinstance(layer, EVERY_KIND) or (shape is not None and len(shape) == 4)


def channels_of(layer: nn.Module, shape: torch.Size | None = None) -> tuple[int, int]:
    """Size and position of the channel axis of a layer's output, whose shape matters only if it pools boxes.

    Example:
        >>> channels_of(nn.Conv2d(3, 8, 5)), channels_of(nn.BatchNorm1d(6)), channels_of(nn.Linear(4, 2))
        ((8, -3), (6, 1), (2, -1))
    """
    match layer:
        case nn.Linear():
            return layer.out_features, -1
        case nn.Conv1d() | nn.Conv2d() | nn.Conv3d():
            # Counted from the end, so that an input without a batch axis is fine too.
            return layer.out_channels, -1 - len(layer.kernel_size)
        case nn.BatchNorm1d() | nn.BatchNorm2d() | nn.BatchNorm3d() | nn.SyncBatchNorm():
            return layer.num_features, 1
        case nn.GroupNorm():
            return layer.num_channels, 1
        case nn.LayerNorm():
            return layer.normalized_shape[-1], -1
    if shape is not None and isinstance(layer, pooling()):
        return shape[-3], -3
    raise AdapterError(f"a {type(layer).__name__} has no known channel axis; expected one of {_names(EVERY_KIND)}")


def named_sites(found: Survey, patterns: Sequence[str], kinds: Kinds) -> tuple[Site, ...]:
    """Layers of some kinds whose names match any of the patterns; each pattern must match one at least.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
        >>> [site.name for site in named_sites(survey(net), ["*"], LINEAR)]
        ['0', '2']
    """
    sites = found.of_kind(kinds)
    for pattern in patterns:
        if not any(fnmatchcase(site.name, pattern) for site in sites):
            raise AdapterError(_unmatched(found, pattern, kinds))
    return tuple(site for site in sites if any(fnmatchcase(site.name, pattern) for pattern in patterns))


def first_kind(found: Survey, choices: Iterable[Kinds], wish: str) -> tuple[Site, ...]:
    """All layers of the first of several choices of kinds that the network has any of."""
    for kinds in choices:
        if sites := found.of_kind(kinds):
            return sites
    raise AdapterError(f"the network has no layer to modulate: {wish}; it has {listing(found)}")


def named_or_norms(found: Survey, patterns: Sequence[str] | None, kinds: Kinds, wish: str) -> tuple[Site, ...]:
    """Layers of some kinds by name or, without names, all BatchNorms, or all LayerNorms and GroupNorms.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2))
        >>> [[site.name for site in named_or_norms(survey(net), names, LINEAR, "")] for names in (None, ["2"])]
        [['1'], ['2']]
    """
    if patterns is not None:
        return named_sites(found, patterns, kinds)
    return first_kind(found, (BATCH_NORM, SAMPLE_NORM), wish)


def listing(found: Survey) -> str:
    """The layers of a network in a few words, for messages.

    Example:
        >>> listing(survey(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))))
        "'0' (Linear), '2' (Linear)"
    """
    shown = [f"{site.name!r} ({type(site.module).__name__})" for site in found.sites]
    more = [f"and {len(shown) - 12} more"] if len(shown) > 12 else []
    return ", ".join(shown[:12] + more) or f"none of {_names(EVERY_KIND)}"


def _run(net: nn.Module, example: Tree, defined: list[str], call: Call, shapes: dict[str, torch.Size]) -> object:
    """What the network gives for the example; the shapes of what layers gave are noted in the order of first calls."""
    modules = dict(net.named_modules())

    def note(name: str):
        return lambda _layer, _inputs, output: shapes.setdefault(name, output.shape)

    handles = [modules[name].register_forward_hook(_silent(note(name))) for name in defined]
    try:
        with torch.no_grad():
            return call(net, example)
    except Exception as error:
        raise AdapterError(
            f"the network raised {type(error).__name__} on inputs {described(example)}: {error}; expected an output: "
            f"pass inputs of the kind it was trained on, or say by call= how it is called with them"
        ) from error
    finally:
        for handle in handles:
            handle.remove()


def _silent(note: Callable[..., object]) -> Callable[..., None]:
    """A hook that changes nothing, whatever the note gives."""

    def hook(*seen: object) -> None:
        note(*seen)

    return hook


def _unmatched(found: Survey, pattern: str, kinds: Kinds) -> str:
    names = [site.name for site in found.of_kind(kinds)]
    if any(fnmatchcase(name, pattern) for name in set(found.defined) - {site.name for site in found.sites}):
        return f"layer {pattern!r} is defined but not called for the example; name a layer that is: {listing(found)}"
    near = difflib.get_close_matches(pattern, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"the network has {listing(found)}"
    # What pools boxes is known only where torchvision is in use: a sentence must not depend on that.
    usual = tuple(kind for kind in kinds if kind in EVERY_KIND)
    return f"no layer of a kind that can be modulated ({_names(usual)}) is named {pattern!r}; {hint}"


def _names(kinds: Kinds) -> str:
    return ", ".join(kind.__name__ for kind in kinds)
