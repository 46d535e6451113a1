"""Dictionaries taken as rows: the same rows as of the values that `pickle` builds."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.parsers.errors import TraceError
from ccltui.parsers.text import plain_pickle
from ccltui.parsers.text.plain_pickle import PlainPickle, read_plain_pickle

FIELDS = ("action", "size", "time_us")
ACTIONS = ("alloc", "free", "oom")
KEYS = ("action", "addr", "size", "time_us", "frames", "pool", "note", "share", "free")
FRAMES = [{"name": f"f{number}", "line": number} for number in range(300)]
STACKS = [FRAMES[:3], FRAMES[3:4], [], FRAMES]


class Kept:
    """Keeps the rows of every list."""

    key = "events"
    fields = FIELDS

    def __init__(self) -> None:
        self.lists: list[tuple[list[Any], list[tuple[Any, ...]]]] = []

    def begin(self, target: list[Any]) -> Callable[[tuple[Any, ...]], None]:
        rows = self._rows_of(target)
        rows += map(row, target)  # appended one by one
        target.clear()
        return rows.append

    def _rows_of(self, target: list[Any]) -> list[tuple[Any, ...]]:
        found = [rows for known, rows in self.lists if known is target]
        if not found:
            found = [[]]
            self.lists.append((target, found[0]))
        return found[0]

    def rows(self, target: list[Any]) -> list[tuple[Any, ...]]:
        """Rows of a list, and of those dictionaries that it still holds."""
        self.begin(target)
        return [tuple(map(plain, values)) for values in self._rows_of(target)]


def plain(value: Any) -> Any:
    """A value that a row has whatever the form of its dictionary is: an integer or a text."""
    return value if type(value) in (int, str) else None


def row(one: dict[str, Any]) -> tuple[Any, ...]:
    """What is read of an event."""
    return tuple(plain(one.get(field)) for field in FIELDS)


def read_in_parts(data: bytes, kept: Kept, first: int) -> PlainPickle:
    source = BytesIO(data)
    return read_plain_pickle(source.read(first), shown="x", more=source.read, rows=kept)


VALUES = {
    "action": st.sampled_from(ACTIONS),
    "addr": st.integers(0, 2**62),
    "size": st.integers(-(2**40), 2**40) | st.none() | st.booleans(),
    "time_us": st.integers(0, 300) | st.integers(2**50, 2**51),
    "frames": st.sampled_from(STACKS) | st.sampled_from(STACKS).map(list),
    "pool": st.tuples(st.integers(0, 300), st.integers(0, 70000)),
    "note": st.none() | st.booleans() | st.text(max_size=3),
    "share": st.floats(allow_nan=False),
    "free": st.integers(0, 255),
}
EVENTS = st.lists(
    st.sampled_from([KEYS, KEYS[:5], KEYS[:3], KEYS[2:], KEYS[::2]]).flatmap(
        lambda keys: st.fixed_dictionaries({key: VALUES[key] for key in keys})
    ),
    max_size=30,
)


@given(st.lists(EVENTS, max_size=3), st.sampled_from([2, 3, 4, 5]), st.sampled_from([3, 70, 4096]))
def test_rows_are_those_of_the_values(lists: list[Any], protocol: int, chunk: int) -> None:
    value = {"first": [{"events": FRAMES[:2]}], "events": lists, "last": [FRAMES[0], {"a": 1}]}
    data = pickle.dumps(value, protocol=protocol)
    kept = Kept()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_pickle, "_CHUNK", chunk)
        found = read_in_parts(data, kept, chunk).value

    assert found["first"] == value["first"]
    assert found["last"] == value["last"]
    assert [kept.rows(one) for one in found["events"]] == [list(map(row, one)) for one in lists]


def alike(count: int) -> list[dict[str, Any]]:
    return [
        {"action": ACTIONS[number % 3], "addr": 1 << 40, "size": number, "frames": STACKS[0]}
        for number in range(count)
    ]


@pytest.mark.parametrize("protocol", [4, 5])
def test_memory_does_not_grow_with_the_events(protocol: int) -> None:
    data = pickle.dumps({"first": 1, "events": [alike(40_000)]}, protocol=protocol)

    class Dropped(Kept):
        def begin(self, target: list[Any]) -> Callable[[tuple[Any, ...]], None]:
            return lambda _: None

    kept = Dropped()
    tracemalloc.start()
    try:
        read_in_parts(data, kept, 1 << 16)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 40_000 * 50 + len(data) * 2


def test_a_stack_that_was_skipped_is_not_used_elsewhere() -> None:
    stacks = [[FRAMES[0]] for _ in range(3)]
    events = [{"action": "alloc", "size": 1, "frames": stack} for stack in stacks]
    data = pickle.dumps({"a": FRAMES[0], "events": [events], "b": stacks[2]}, protocol=4)

    with pytest.raises(TraceError, match="taken from the memo"):
        read_in_parts(data, Kept(), len(data))


def test_what_is_kept_beside_the_rows_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "MOST_KEPT_BYTES", 1 << 20)
    monkeypatch.setattr(plain_pickle, "_CHUNK", 1 << 12)
    rows = pickle.dumps({"first": 1, "events": [alike(100_000)]}, protocol=4)
    other = pickle.dumps({"first": 1, "others": [alike(100_000)]}, protocol=4)

    assert len(rows) > 1 << 21
    read_in_parts(rows, Kept(), 100)
    with pytest.raises(TraceError, match="more than 1 MiB beside its events"):
        read_in_parts(other, Kept(), 100)


LONG_TEXT = b"\x80\x04X\xff\xff\xff\xff" + bytes(64)


def test_a_length_beyond_the_limit_is_not_asked_for() -> None:
    asked: list[int] = []

    def more(count: int) -> bytes:
        asked.append(count)
        return b""

    with pytest.raises(TraceError, match="beside its events"):
        read_plain_pickle(
            b"\x80\x04X\xff\xff\xff\xff" + bytes(64), shown="x", more=more, rows=Kept()
        )
    assert sum(asked) < 1 << 24


@pytest.mark.parametrize("share", [0.3, 0.6, 0.99])
def test_a_pickle_that_is_cut_off_says_so(share: float) -> None:
    data = pickle.dumps({"first": 1, "events": [alike(100)]}, protocol=4)

    assert read_in_parts(data[: int(len(data) * share)], Kept(), 50).cut
