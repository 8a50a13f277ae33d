import pytest

from metricopt.core.errors import UnknownNameError
from metricopt.core.registry import Registry


@pytest.fixture
def animals() -> Registry[str]:
    registry: Registry[str] = Registry("animal")
    registry.add("zebra")("striped")
    registry.add("ant")("small")
    return registry


def test_names_come_in_the_order_they_were_added(animals):
    assert list(animals) == ["zebra", "ant"]
    assert animals.items() == [("zebra", "striped"), ("ant", "small")]
    assert len(animals) == 2 and "ant" in animals and "cat" not in animals


def test_what_is_decorated_stays_itself():
    shapes = Registry("shape")

    def area(side):
        return side * side

    assert shapes.add("square")(area) is area is shapes["square"]


def test_a_near_miss_is_told_the_right_name(animals):
    with pytest.raises(UnknownNameError, match="there is no animal named 'zerba'; did you mean 'zebra'\\?"):
        animals["zerba"]


def test_a_far_miss_is_told_all_names(animals):
    with pytest.raises(UnknownNameError, match="known: zebra, ant"):
        animals["hippopotamus"]


def test_an_empty_registry_says_that_it_knows_nothing():
    with pytest.raises(LookupError, match="known: none"):
        Registry("animal")["ant"]


def test_a_name_is_given_once(animals):
    with pytest.raises(ValueError, match="animal 'ant' is already registered"):
        animals.add("ant")
    assert animals["ant"] == "small"
