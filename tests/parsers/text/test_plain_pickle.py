"""The reader of pickles builds plain values as `pickle` does, and imports and calls nothing."""

from __future__ import annotations

import ast
import contextlib
import pickle
import pickletools
import re
import struct
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.parsers.errors import TraceError
from ccltui.parsers.text.plain_pickle import MOST_DEPTH, PlainPickle, read_plain_pickle

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
VALUES = st.recursive(
    SCALARS | st.sets(st.integers(-(2**62), 2**62) | st.text()),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers(0, 2**40), inner)
        | st.lists(inner).map(tuple)
    ),
    max_leaves=20,
)


def read(data: bytes) -> PlainPickle:
    return read_plain_pickle(data, shown="x")


def refused(data: bytes) -> str:
    """Return why bytes are refused, "" where they are read."""
    try:
        read(data)
    except TraceError as error:
        return str(error)
    return ""


@given(VALUES, st.sampled_from([4, 5]))
def test_plain_values_are_read_as_pickle_reads_them(value: Any, protocol: int) -> None:
    found = read(pickle.dumps(value, protocol=protocol))

    assert found == PlainPickle(value)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_values_that_occur_twice_stay_one(protocol: int) -> None:
    frame = {"name": "f", "line": 3}

    found = read(pickle.dumps([[frame], [frame]], protocol=protocol)).value

    assert found == [[frame], [frame]]
    assert found[0][0] is found[1][0]


PLAIN = {
    *("PROTO", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "EMPTY_SET", "MARK", "SETITEMS"),
    *("APPENDS", "SETITEM", "APPEND", "ADDITEMS", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "MEMOIZE", "FRAME", "BININT", "BININT1"),
    *("BININT2", "LONG1", "BINFLOAT", "NONE", "NEWTRUE", "NEWFALSE", "STOP"),
}


@pytest.mark.parametrize("name", [one.name for one in pickletools.opcodes])
def test_every_opcode_outside_of_the_list_ends_the_reading(name: str) -> None:
    code = next(one.code for one in pickletools.opcodes if one.name == name)
    refusal = "which names or calls code|which no pickle of plain values needs"
    data = b"\x80\x02]" + code.encode("latin-1") + b"\0" * 64

    if name not in PLAIN:
        with pytest.raises(TraceError, match=rf"^x at byte 3: .*({refusal})"):
            read(data)
    else:
        said = refused(data)  # at the latest at the zeros that follow
        assert "byte 3" not in said or re.search(refusal, said) is None


def test_nothing_is_imported_opened_or_run() -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return exec, ("raise SystemExit",)

    traps = [pickle.dumps(Trap(), protocol=number) for number in (2, 3, 4, 5)]
    traps += [
        b"\x80\x02cos\nsystem\n(X\x04\x00\x00\x00exittR.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04exit\x85R.",
        b"\x80\x02(ios\nsystem\n.",
        b"\x80\x02cbuiltins\nlist\n)\x81}b.",
        b"\x80\x02Pid\n.",
        b"\x80\x02K\x01Q.",
        b"\x80\x02\x82\x01.",
    ]
    events: list[str] = []
    is_on = [True]
    sys.addaudithook(lambda name, _: events.append(name) if is_on[0] else None)
    try:
        for trap in traps:
            with pytest.raises(TraceError):
                read(trap)
    finally:
        is_on[0] = False

    risky = ("import", "exec", "compile", "open", "os.", "subprocess", "pickle.", "socket")
    assert [name for name in events if name.startswith(risky)] == []


HUGE = [
    b"\x80\x02X\xff\xff\xff\xffabc.",
    b"\x80\x04\x8d" + struct.pack("<Q", 1 << 60) + b"abc.",
    b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"abc.",
    b"\x80\x02B\xff\xff\xff\x7fabc.",
    b"\x80\x02]r\xff\xff\xff\xff.",
    b"\x80\x02\x8a\xff" + b"\x01" * 300 + b".",
    b"\x80\x02\x8b\xff\xff\xff\x7f" + b"\x01" * 64 + b".",
]


@pytest.mark.parametrize("data", HUGE)
def test_lengths_are_checked_before_anything_is_taken(data: bytes) -> None:
    tracemalloc.start()
    try:
        with contextlib.suppress(TraceError):
            assert read(data) == PlainPickle(None, cut=True, notes=read(data).notes)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1 << 20


def test_a_bomb_of_references_costs_no_more_than_its_bytes() -> None:
    layers = b"".join(b"](" + bytes([0x68, n - 1]) * 200 + b"eq" + bytes([n]) for n in range(1, 60))
    tracemalloc.start()
    try:
        found = read(b"\x80\x02](" + b"]q\0" + layers + b"e.").value
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(found) == 60
    assert peak < 4 << 20


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02" + b"](" * 5000 + b"e" * 5000 + b".",
        b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b".",
        b"\x80\x02]" + b"\x85" * 5000 + b".",
        b"\x80\x02}" + (b"X\x01\x00\x00\x00a}" * 5000) + b"s" * 5000 + b".",
        b"\x80\x02" + b"(" * 5000 + b".",
    ],
)
def test_deep_nesting_is_refused(data: bytes) -> None:
    with pytest.raises(TraceError, match=f"more than {MOST_DEPTH} containers in one another"):
        read(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02]q\x00(h\x00e.",
        b"\x80\x02]q\x00h\x00a.",
        b"\x80\x02]q\x00]q\x01h\x00ah\x01a.",
        b"\x80\x02}q\x00X\x01\x00\x00\x00ah\x00s.",
        b"\x80\x02]q\x00(h\x00\x85q\x01e.",
    ],
)
def test_a_value_never_holds_itself(data: bytes) -> None:
    with pytest.raises(TraceError, match="a container"):
        read(data)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x80\x02}(X\x07\x00\x00\x00versionhcu.", "memo that was not put"),
        (b"\x80\x02q\x00.", "nothing is there"),
        (b"\x80\x02]q\x05.", "memo index 5 after 0"),
        (b"\x80\x02}X\x01\x00\x00\x00au.", "a mark is missing"),
        (b"\x80\x02}(X\x01\x00\x00\x00au.", "a key without a value"),
        (b"\x80\x02}(]K\x01u.", "neither text nor an integer"),
        (b"\x80\x02}(K\x01K\x01K\x01K\x02u.", "a key that occurs twice"),
        (b"\x80\x02]s.", "a value is missing"),
        (b"\x80\x02K\x01K\x02a.", "items for a list, and there is none"),
        (b"\x80\x02K\x01K\x02.", "more than one value, or with none"),
        (b"\x80\x02.", "more than one value, or with none"),
        (b"\x80\x02\x85.", "a value is missing"),
        (b"\x80\x04\x8f(]\x90.", "a container in a set"),
        (b"\x80\x01].", "not a pickle of protocol 2 to 5"),
        (b"", "not a pickle of protocol 2 to 5"),
    ],
)
def test_damaged_pickles_are_refused_with_a_reason(data: bytes, why: str) -> None:
    with pytest.raises(TraceError, match=why):
        read(data)


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_that_is_cut_off_gives_what_was_complete(protocol: int) -> None:
    entries = [{"id": number, "sizes": [[number, 2]]} for number in range(20)]
    data = pickle.dumps({"version": "2.4", "groups": {"0": "a"}, "entries": entries}, protocol)
    seen = set()

    for size in range(3, len(data)):
        found = read(data[:size])
        assert found.cut
        if isinstance(found.value, dict) and isinstance(found.value.get("entries"), list):
            assert found.value["entries"] == entries[: len(found.value["entries"])]
            seen.add(len(found.value["entries"]))

    assert seen == set(range(21))


def test_bytes_after_the_end_are_ignored_and_noted() -> None:
    found = read(pickle.dumps([1]) + b"more")

    assert found.value == [1]
    assert [note.message for note in found.notes] == [
        "4 bytes after the end of the pickle are ignored"
    ]


def test_text_that_is_not_utf8_keeps_its_bytes() -> None:
    assert read(b"\x80\x02X\x02\x00\x00\x00\xff\xfe.").value == "\udcff\udcfe"


LOADERS = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
OWN_PROCESSES = {"array_transfer.py", "packed_findings.py", "server.py", "client.py"}
"""Of `ccltui/tui/engine`: messages between the explorer and the process that it starts."""


def test_nothing_that_reads_files_imports_what_loads_pickles() -> None:
    root = Path(__file__).resolve().parents[3]
    found = set()
    for folder in ("ccltui", "parsers", "metrics"):
        for path in (root / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_bytes())):
                names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                if any(one.split(".")[0] in LOADERS for one in names):
                    found.add(str(path.relative_to(root)))

    assert found == {f"ccltui/tui/engine/{name}" for name in OWN_PROCESSES}
