"""What PEFT keeps of a model in an adapter's own file."""

import sys
from typing import Any

from torch import Tensor, nn

from metricopt.core.extras import needed


def is_peft(candidate: Any) -> bool:
    """Whether it is a model of PEFT.

    Example:
        >>> is_peft(nn.Linear(2, 1))
        False
    """
    # Whoever holds such an object has imported its library; importing it here would cost everybody else seconds.
    module = sys.modules.get("peft")
    return module is not None and isinstance(candidate, module.PeftModel)


def adapter_weights(model: nn.Module) -> list[Tensor]:
    """The parameters of a PEFT model that `save_pretrained` writes, as they are in memory.

    Example:
        >>> from peft import LoraConfig, get_peft_model
        >>> model = get_peft_model(nn.Sequential(nn.Linear(4, 3)), LoraConfig(r=2, target_modules=["0"]))
        >>> [tuple(tensor.shape) for tensor in adapter_weights(model)]
        [(2, 4), (3, 2)]
    """
    peft: Any = needed("peft", extra="peft", purpose="saving a PEFT adapter")
    # By their memory: PEFT renames what it writes.
    held = {tensor.data_ptr() for tensor in peft.get_peft_model_state_dict(model).values()}
    return [parameter for parameter in model.parameters() if parameter.data_ptr() in held]
