"""Dataclasses made quickly behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, replace
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from ccltui.parsers.system import quick_dataclass

T = TypeVar("T")
Make = Callable[..., Any]


def classes(dataclass: Make, prefix: str) -> tuple[Any, ...]:
    """Return the same classes, made by one decorator."""

    @dataclass(frozen=True, slots=True)
    class Point(Generic[T]):
        """A place."""

        kind: ClassVar[str] = "place"
        x: int
        y: Any = 0
        near: tuple[T, ...] = ()
        marks: dict[str, int] = field(default_factory=dict)

        @property
        def sum(self) -> int:
            return self.x + int(self.y)

    @dataclass(frozen=True, slots=True)
    class Named(Point[int]):
        """A place with a name."""

        name: str = "here"

        def __post_init__(self) -> None:
            if not self.name:
                raise ValueError("no name")

    @dataclass(frozen=True, slots=True)
    class Single:
        """One value."""

        only: Any

    @dataclass(frozen=True, slots=True)
    class Empty:
        """Nothing."""

    found = Point, Named, Single, Empty
    for one in found:
        one.__qualname__ = f"{prefix}_{one.__name__}"
        globals()[one.__qualname__] = one
    return found


QUICK = classes(quick_dataclass.dataclass, "Quick")
USUAL = classes(dataclasses.dataclass, "Usual")


def both(index: int, *values: Any, **named: Any) -> tuple[Any, Any]:
    return QUICK[index](*values, **named), USUAL[index](*values, **named)


CASES = [
    (0, (1,), {}),
    (0, (1, 2), {"near": (3, 4)}),
    (0, (), {"x": 5, "marks": {"a": 1}}),
    (1, (1, 2), {"name": "there"}),
    (2, (float("inf"),), {}),
    (2, ([1],), {}),
    (3, (), {}),
]


@pytest.mark.parametrize(("index", "values", "named"), CASES)
def test_values_names_and_fields_are_the_same(
    index: int, values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    quick, usual = both(index, *values, **named)

    assert repr(quick).replace("Quick_", "Usual_") == repr(usual)
    assert dataclasses.asdict(quick) == dataclasses.asdict(usual)
    assert type(quick).__slots__ == type(usual).__slots__
    assert type(quick).__doc__ == type(usual).__doc__
    assert not hasattr(quick, "__dict__")


@pytest.mark.parametrize(("index", "values", "named"), CASES)
def test_equality_and_hash_are_those_of_the_values(
    index: int, values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    one, usual = both(index, *values, **named)
    other, _ = both(index, *values, **named)

    assert one == other
    assert one != usual
    try:
        expected = hash(usual)
    except TypeError:
        with pytest.raises(TypeError):
            hash(one)
    else:
        assert hash(one) == hash(other) == expected


@pytest.mark.parametrize(("index", "values", "named"), CASES)
def test_copies_and_pickles_are_equal(
    index: int, values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    one, _ = both(index, *values, **named)

    assert pickle.loads(pickle.dumps(one)) == one
    assert copy.deepcopy(one) == copy.copy(one) == one


def test_nothing_can_be_changed() -> None:
    point, _ = both(0, 1)

    with pytest.raises(FrozenInstanceError):
        point.x = 2
    with pytest.raises(FrozenInstanceError):
        del point.x
    with pytest.raises(FrozenInstanceError):
        point.other = 2
    assert replace(point, x=2).sum == 2
    assert point == replace(point)
    assert point != replace(point, y=1)


def test_every_object_has_its_own_default() -> None:
    one, other = QUICK[0](1), QUICK[0](1)

    assert one.marks == {}
    assert one.marks is not other.marks


def test_values_are_checked_after_they_are_set() -> None:
    with pytest.raises(ValueError, match="no name"):
        QUICK[1](1, name="")
    with pytest.raises(TypeError):
        QUICK[0]()
    with pytest.raises(TypeError):
        QUICK[0](1, absent=2)


def test_no_other_kind_is_made() -> None:
    with pytest.raises(TypeError, match="frozen"):
        quick_dataclass.dataclass(frozen=False, slots=True)
