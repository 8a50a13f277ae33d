"""Data modules: objects, as of Lightning, that prepare data and give loaders of them."""

from typing import Any

from metricopt.core.errors import DataError


def both_of(train: Any, val: Any, datamodule: Any = None) -> tuple[Any, Any]:
    """Data to train on and to ask about, given as they are or by a data module.

    Example:
        >>> class Numbers:
        ...     prepare_data = setup = lambda self, stage=None: None
        ...     train_dataloader = lambda self: "training rows"
        ...     val_dataloader = lambda self: "validation rows"
        >>> both_of(None, None, Numbers())
        ('training rows', 'validation rows')
    """
    if datamodule is None:
        for name, part, purpose in (("train", train, "finetune on"), ("val", val, "ask the metric about")):
            if part is None:
                raise DataError(f"{name} is None; expected data to {purpose}: pass train= and val=, or datamodule=")
        return train, val
    if train is not None or val is not None:
        raise DataError("a datamodule was given with train or val; expected one of the two ways: leave out either")
    datamodule.prepare_data()
    datamodule.setup("fit")
    return one_loader(datamodule.train_dataloader(), "train"), one_loader(datamodule.val_dataloader(), "val")


def one_loader(found: Any, name: str) -> Any:
    """The loader, unless there are several or none.

    Example:
        >>> one_loader(["rows"], "val")
        'rows'
    """
    loaders = list(found) if isinstance(found, list | tuple) else [found]
    if len(loaders) != 1 or isinstance(found, dict) or loaders[0] is None:
        count = len(found) if isinstance(found, dict | list | tuple) else 0
        raise DataError(f"the {name} data are {count} loaders; expected one DataLoader: give the module one of them")
    return loaders[0]
