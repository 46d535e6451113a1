"""Dictionaries that are matched whole are those that `pickle` builds, and damaged ones are told."""

from __future__ import annotations

import pickle
import pickletools
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.parsers.errors import TraceError
from ccltui.parsers.text.pickle_rows import Dictionaries
from ccltui.parsers.text.plain_pickle import MOST_DEPTH, read_plain_pickle

FRAMES = [{"name": f"f{number}", "line": number} for number in range(300)]
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300)
SIMPLE = (
    NUMBERS
    | st.none()
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.sampled_from(["a", "b", "completed", *map(str, range(300))])
    | st.sampled_from(FRAMES)
)
VALUES = (
    SIMPLE
    | st.tuples(SIMPLE, SIMPLE)
    | st.lists(SIMPLE, max_size=40)
    | st.lists(st.lists(NUMBERS, max_size=4), max_size=4)
    | st.sampled_from([FRAMES[:3], FRAMES[2:4], FRAMES])
)
KEYS = ("frames", "record_id", "state", "sizes", "group", "free", "h", "u", "e", "version")
ENTRIES = st.lists(
    st.sampled_from([KEYS, KEYS[:5], KEYS[3:], KEYS[::2]]).flatmap(
        lambda keys: st.fixed_dictionaries(dict.fromkeys(keys, VALUES))
    ),
    max_size=20,
)


def without_puts(value: Any) -> bytes:
    """Return a pickle of protocol 2 that puts into the memo only what is taken from it again.

    That is the form of PyTorch's own pickler.
    """
    return pickletools.optimize(pickle.dumps(value, protocol=2))


def read(data: bytes) -> Any:
    return read_plain_pickle(data, shown="x").value


class Counted:
    """Counts the dictionaries that were matched whole."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        take = Dictionaries.take

        def counted(one: Dictionaries, data: bytes, at: int) -> Any:
            found = take(one, data, at)
            self.count += found is not None
            return found

        patch.setattr(Dictionaries, "take", counted)


@given(ENTRIES)
def test_dictionaries_are_those_of_pickle(entries: list[dict[str, Any]]) -> None:
    value = {"version": "2", "entries": entries}

    assert read(without_puts(value)) == value


def entry(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "frames": FRAMES[:30],
        "number": number,
        "time": (1 << 60) + number,
        "group": ("0", "default"),
        "sizes": [[4096, number % 2], [3, 4]],
        "none": None,
        "share": number / 7,
        "is_p2p": False,
        **changes,
    }


def test_nearly_all_entries_are_matched_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    entries = [entry(number) for number in range(100)]

    assert read(without_puts(entries)) == entries
    assert counted.count == 99  # the first has the keys themselves


def test_lists_of_equal_bytes_are_one_object() -> None:
    one, other, last = read(without_puts([entry(number) for number in (1, 3, 5)]))[-3:]

    assert other["frames"] is last["frames"]
    assert other["sizes"] is last["sizes"]
    assert one["frames"] == last["frames"]


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_a_pickle_cut_inside_a_dictionary_keeps_those_before(share: float) -> None:
    entries = [entry(number) for number in range(50)]
    data = without_puts({"version": "2", "entries": entries})

    found = read_plain_pickle(data[: int(len(data) * share)], shown="x")

    kept = found.value["entries"]
    assert found.cut
    assert kept == entries[: len(kept)]
    assert len(kept) > 20


A = b"X\x01\x00\x00\x00aq\x00"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"](" + A + b"}(h\x00h\x07ue.", "a value is taken from the memo"),
        (b"](" + A + b"}(h\x00](K\x01h\x07eue.", "a value is taken from the memo"),
        (b"](" + A + b"}(h\x07K\x01ue.", "a value is taken from the memo"),
        (b"](" + A + b"}(h\x00K\x01h\x00K\x02ue.", "a key that occurs twice"),
        (b"](](K\x01eq\x00}(h\x00K\x01ue.", "a key that is neither text nor an integer"),
        (b"](" + A + b"}(h\x00\x8a\x09" + b"\x01" * 9 + b"ue.", "an integer of 9 bytes"),
        (b"](" + A + b"]q\x01}(h\x00h\x01uh\x01K\x01ae.", "a container is filled after"),
        (b"](" + A + b"]q\x01}(h\x00](h\x01euh\x01K\x01ae.", "a container is filled after"),
    ],
)
def test_damaged_dictionaries_are_refused_with_a_reason(data: bytes, why: str) -> None:
    with pytest.raises(TraceError, match=why):
        read(b"\x80\x02" + data)


def test_a_value_that_is_replaced_in_the_memo_is_not_the_old_one() -> None:
    texts = b"".join(
        b"X\x01\x00\x00\x00" + text + b"q" + bytes([n]) for n, text in enumerate([b"a", b"b", b"c"])
    )
    pairs = b"}(h\x00h\x01h\x02](h\x01h\x02eu"

    found = read(b"\x80\x02](" + texts + pairs + b"X\x01\x00\x00\x00dq\x01" + pairs + b"e.")

    assert found[3] == {"a": "b", "c": ["b", "c"]}
    assert found[5] == {"a": "d", "c": ["d", "c"]}


def test_deep_nesting_is_refused() -> None:
    layers = b"".join(b"}(h\x00h" + bytes([n - 1]) + b"uq" + bytes([n]) for n in range(1, 200))

    with pytest.raises(TraceError, match=f"more than {MOST_DEPTH} containers in one another"):
        read(b"\x80\x02](" + A + layers + b"e.")


def test_lists_longer_than_a_match_takes_are_read() -> None:
    value = [entry(number, frames=FRAMES * 4, sizes=[[1] * 65, [2]]) for number in range(4)]

    assert read(without_puts(value)) == value


def test_a_match_that_fails_costs_little_memory() -> None:
    pairs = b"h\x00](" + b"](K\x01K\x02e" * 1024 + b"e"
    tracemalloc.start()
    try:
        reader = Dictionaries({0: "a"}, lambda *_: None, lambda _: 1)
        found = reader.take(b"}(" + pairs * 60 + b"]u", 0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert found is None
    assert peak < 1 << 20
