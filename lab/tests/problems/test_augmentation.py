import torch
from hypothesis import given
from hypothesis import strategies as st

from metricopt_lab.problems.augmentation import SHIFT, Views, plain_views, random_views

IMAGES = torch.rand(5, 3, 6, 7, generator=torch.Generator().manual_seed(0)) + 1
SHIFTS = st.integers(-SHIFT, SHIFT)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans(), SHIFTS, SHIFTS), min_size=1, max_size=4),
)
def test_a_view_is_the_image_moved_then_mirrored_pixel_by_pixel(wanted):
    rows, mirrored, down, right = zip(*wanted, strict=True)
    views = Views(torch.tensor(rows), torch.tensor(mirrored), torch.tensor([down, right]).T)
    found = views.of(IMAGES)
    assert found.shape == (len(rows), 3, 6, 7)
    for n, image in enumerate(found):
        for i in range(6):
            for j in range(7):
                source_i, source_j = i - down[n], (6 - j if mirrored[n] else j) - right[n]
                inside = 0 <= source_i < 6 and 0 <= source_j < 7
                expected = IMAGES[rows[n], :, source_i, source_j] if inside else torch.zeros(3)
                assert torch.equal(image[:, i, j], expected)


def test_views_come_channels_last_with_and_without_augmentation():
    draw = torch.Generator().manual_seed(0)
    for views in (plain_views(torch.tensor([3, 1])), random_views(torch.tensor([3, 1]), draw)):
        assert views.of(IMAGES).is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(plain_views(torch.tensor([3, 1])).of(IMAGES), IMAGES[[3, 1]])


def test_half_of_the_views_are_mirrored_and_every_shift_is_equally_frequent():
    views = random_views(torch.zeros(90_000, dtype=torch.long), torch.Generator().manual_seed(0))
    assert views.mirrored is not None and views.shifts is not None
    assert abs(float(views.mirrored.double().mean()) - 0.5) < 4 * 0.5 / 300
    for shifts in views.shifts.T:
        counts = torch.bincount(shifts + SHIFT, minlength=9)
        assert len(counts) == 9 and (counts - 10_000).abs().max() < 4 * 95


def test_some_views_are_those_of_the_whole():
    views = random_views(torch.arange(5), torch.Generator().manual_seed(0))
    assert torch.equal(views.some(slice(2, 4)).of(IMAGES), views.of(IMAGES)[2:4])
