import hashlib

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metricopt.core.seeding import derived_seed, stream


def draw(generator):
    return torch.randn(4, generator=generator)


@settings(deadline=None)
@given(seed=st.integers(0, 10**9), name=st.text(max_size=5), number=st.integers(0, 99))
def test_a_seed_is_the_first_four_bytes_of_a_hash_so_it_is_the_same_on_any_machine(seed, name, number):
    digest = hashlib.sha256(f"{seed}/{name}/{number}".encode()).hexdigest()
    assert derived_seed(seed, name, number) == int(digest[:8], 16)


def test_the_same_names_give_the_same_numbers_and_others_give_others():
    assert torch.equal(draw(stream(3, "batches", 1)), draw(stream(3, "batches", 1)))
    others = [stream(4, "batches", 1), stream(3, "batches", 2), stream(3, "phi", 1), stream(3, "batches"), stream(3)]
    drawn = [draw(stream(3, "batches", 1)), *map(draw, others)]
    assert len({tuple(numbers.tolist()) for numbers in drawn}) == len(drawn)


def test_one_consumer_never_disturbs_another_or_the_global_generator():
    first, second = stream(0, "a"), stream(0, "b")
    before = torch.get_rng_state()
    _ = draw(first)
    assert torch.equal(draw(second), draw(stream(0, "b")))
    assert torch.equal(torch.get_rng_state(), before)
