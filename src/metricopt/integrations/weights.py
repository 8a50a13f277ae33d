"""Improved weights put where they came from: into the network in place, or into files of its own library."""

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from metricopt.api.result import Result
from metricopt.core.errors import AdapterError, FileFormatError
from metricopt.integrations.peft import adapter_weights, is_peft


@runtime_checkable
class Pretrained(Protocol):
    """A network that writes itself into a folder, as those of transformers and PEFT do."""

    def save_pretrained(self, save_directory: Any) -> Any:
        """Write weights and configuration."""
        ...


def take_weights(net: nn.Module, result: Result) -> bool:
    """Give a network the weights of an accepted result, in place; whether there was one.

    Example:
        >>> from metricopt.api.optimize import optimize
        >>> x = torch.randn(900, 2, generator=torch.Generator().manual_seed(0))
        >>> y, net = (x[:, 0] > 0.5).long(), nn.Linear(2, 1)
        >>> _ = nn.init.eye_(net.weight), nn.init.zeros_(net.bias)  # its threshold is at 0
        >>> result = optimize(net, metric="f1", train=(x[:300], y[:300]), val=(x[300:], y[300:]), queries=20)
        >>> take_weights(net, result), torch.equal(net.bias, result.merge().bias)
        (True, True)
    """
    if not result.accepted:
        return False
    merged, why = result.model.merged()
    own, found = net.state_dict(), merged.state_dict()
    if why or own.keys() != found.keys():
        raise AdapterError(
            f"the result does not fit the weights of the {type(net).__name__} ({why or 'a layer got a bias it had not'}"
            f"); expected an adapter that they can take in: use result.merge(), or tune='weights'"
        )
    net.load_state_dict(found)
    return True


def save_pretrained(result: Result, folder: Path | str) -> None:
    """Write the improved network in the layout of its own library; its `from_pretrained` reads it.

    Of a PEFT model that is the adapter's own file, so the result may have changed nothing else.

    Args:
        result: What `optimize` found; if nothing was accepted, the original is written.
        folder: Where to; made if missing.
    """
    merged, why = result.model.merged()
    if not isinstance(merged, Pretrained):
        raise FileFormatError(
            f"a {type(merged).__name__} has no save_pretrained{f', as {why}' if why else ''}; expected a model of "
            f"transformers or PEFT: use result.save(folder), or torch.save(result.merge().state_dict(), path)"
        )
    _check_peft(result.model.net, merged)
    merged.save_pretrained(folder)


def _check_peft(net: nn.Module, merged: nn.Module) -> None:
    """Raises if a PEFT model has changed in weights that its adapter's file does not hold."""
    if not is_peft(merged):
        return
    before, after = dict(net.named_parameters()), dict(merged.named_parameters())
    held = {id(tensor) for tensor in adapter_weights(merged)}
    lost = [name for name, tensor in after.items() if id(tensor) not in held and _differs(before.get(name), tensor)]
    if lost:
        raise FileFormatError(
            f"the result changed {lost[0]!r}{f' and {len(lost) - 1} more' if len(lost) > 1 else ''}, which the PEFT "
            f"adapter's file does not hold; expected changes of the adapter alone: optimize with "
            f"adapter=Parameters('*lora_B*'), or save result.merge().merge_and_unload()"
        )


def _differs(before: torch.Tensor | None, after: torch.Tensor) -> bool:
    return before is None or not torch.equal(before, after)
