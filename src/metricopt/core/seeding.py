"""Random numbers by name: every consumer has its own stream, so adding one never changes another."""

import hashlib

import torch


def stream(seed: int, *names: str | int) -> torch.Generator:
    """Generator that depends on `seed` and the names only, on any machine.

    Example:
        >>> a, b = stream(0, "batches"), stream(0, "batches")
        >>> torch.equal(torch.randn(3, generator=a), torch.randn(3, generator=b))
        True
        >>> torch.equal(torch.randn(3, generator=a), torch.randn(3, generator=stream(0, "phi")))
        False
    """
    return torch.Generator().manual_seed(derived_seed(seed, *names))


def derived_seed(seed: int, *names: str | int) -> int:
    """A seed for a library with random numbers of its own, derived like `stream`'s.

    Example:
        >>> derived_seed(0, "cma") == derived_seed(0, "cma") != derived_seed(1, "cma")
        True
    """
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
