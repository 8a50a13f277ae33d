"""What every test and example has in common."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

from metricopt.paper import preset

# A deadline measures the machine's other guests, not the code.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
# As all commands do. Once torch has used several threads, a forked process that uses them too waits for ever.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def the_same_start() -> Iterator[None]:
    """Networks that an example makes without a seed must not depend on the tests before it."""
    torch.manual_seed(0)
    yield
    # Commands make numbers next to zero zero, for speed; the next test must not inherit that.
    torch.set_flush_denormal(False)


@pytest.fixture
def quick_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper's presets without going through few tasks again and again, which takes most of their time."""
    for name in ("PAPER", "PAPER_LETTER"):
        monkeypatch.setattr(preset, name, getattr(preset, name).once)
