"""Test values beyond the limits: a TraceError or columns, the same from both decoders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kineto_fuzz import WHOLE, difference, outcome

from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.kineto.scanner import typed_event

EVENT = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1}
CALL = {**EVENT, "cat": "cpu_op", "name": "c10d::send"}
HUGE = "@huge@"
"""Stands for an integer of 5,000 digits, which Python refuses to write."""


def written(path: Path, *events: dict[str, Any]) -> Path:
    text = json.dumps([*events, EVENT]).replace(f'"{HUGE}"', "9" * 5000)
    path.write_text(text.replace(HUGE, "9" * 5000))
    return path


def test_more_categories_than_the_table_holds(tmp_path: Path, decoder: str) -> None:
    events = [
        {**EVENT, "cat": f"category {number}", "ts": number, "ph": phase}
        for number in range(400)
        for phase in ("X", "i", "s")
    ]
    trace = read_kineto(written(tmp_path / "a.json", *events))

    assert len(trace.group("other")) == 400
    assert trace.counts["X:category 399"] == trace.counts["i:category 399"] == 1
    assert sum(trace.counts.values()) == 1201


@pytest.mark.parametrize("field", ["est. achieved occupancy %", "blocks per SM"])
def test_a_launch_of_any_size(tmp_path: Path, decoder: str, field: str) -> None:
    args = {field: 10**400, "grid": [10**400, 1, 1], "correlation": 5}
    trace = read_kineto(written(tmp_path / "a.json", {**EVENT, "args": args}))

    assert trace.group("gpu").correlation.tolist() == [5, -1]
    assert trace.group("gpu").occupancy_pct.tolist() == []


@pytest.mark.parametrize("value", [HUGE, f"text of {HUGE}", 10**400, str(10**400)])
def test_a_communicator_and_a_peer_of_any_size(tmp_path: Path, decoder: str, value: Any) -> None:
    stated = {"Collective name": "send", "In msg nelems": 8, "dtype": "Float", "Comms Id": value}
    told = {
        "Input Dims": [[3], [], []],
        "Input type": ["float", "", ""],
        "Concrete Inputs": ["", "", value],
    }
    path = written(tmp_path / "a.json", {**EVENT, "args": stated}, {**CALL, "args": told})
    args = read_kineto(path).collective_args

    assert set(args.comms_id.tolist()) <= {0}
    assert set(args.dst.tolist()) <= {-1}


def test_shapes_that_are_not_text(tmp_path: Path, decoder: str) -> None:
    product = {**EVENT, "cat": "cpu_op", "name": "aten::mm", "args": {"Input Dims": ["@"]}}
    path = tmp_path / "a.json"
    path.write_bytes(json.dumps([product, EVENT]).encode().replace(b"@", b"\xff"))
    trace = read_kineto(path)

    assert len(trace.group("cpu_ops")) == 1
    assert (trace.group("cpu_ops").shapes == -1).all()


def test_other_args_of_an_event_that_is_not_strict_are_kept(tmp_path: Path, decoder: str) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,'
                    '"args":{"correlation":5,"other":%s,}}]' % (10**30))  # fmt: skip

    assert read_kineto(path).group("gpu").correlation.tolist() == [5]


NUMBERS = st.one_of(
    st.integers(),
    st.integers(min_value=-(10**400), max_value=10**400),
    st.sampled_from([2**31, 2**53 - 1, 2**53, 2**61, 2**62, 2**63 - 1, 2**63, 2**64, 10**400]),
    st.sampled_from([HUGE, f"-{HUGE}", f"{HUGE}.5", "1e400", "-1e400", "0e999999999", "1e-400"]),
    st.floats(),
)
TEXTS = st.one_of(st.text(max_size=6), st.sampled_from(["\udcff", "a\udc80b", HUGE]))
DEEP = st.integers(1, 1500).map(lambda depth: f"@deep{depth}@")
VALUES = st.one_of(
    NUMBERS, TEXTS, DEEP, st.none(), st.booleans(), st.lists(st.one_of(NUMBERS, TEXTS), max_size=4)
)
MEMBERS = ("ph", "cat", "name", "pid", "tid", "ts", "dur")
ARGS = (
    *("External id", "correlation", "device", "stream", "bytes", "grid", "blocks per SM"),
    *("est. achieved occupancy %", "Input Dims", "Input type", "Concrete Inputs", "name"),
    *("Collective name", "In msg nelems", "Out msg nelems", "dtype", "Process Group Name"),
    *("Process Group Ranks", "Group size", "In split size", "Seq", "Record function id"),
    *("Comms Id", "Src Rank", "Dst Rank", "Is asynchronized op", "Global rank start"),
    *("Global rank stride", "other"),
)
NAMES = st.sampled_from(["k", "c10d::send", "record_param_comms", "aten::mm", "thread_name"])
EVENTS = st.builds(
    lambda name, cat, odd, args: {**EVENT, "name": name, "cat": cat, **odd, "args": args},
    NAMES,
    st.sampled_from(["kernel", "cpu_op", "gpu_memcpy", "user_annotation", "new"]),
    st.dictionaries(st.sampled_from(MEMBERS), VALUES, max_size=2),
    st.dictionaries(st.sampled_from(ARGS), VALUES, max_size=4),
)


def bytes_of(events: list[dict[str, Any]]) -> bytes:
    """Return JSON that no encoder writes: invalid UTF-8, long numbers, deep lists."""
    text = json.dumps(events, ensure_ascii=False)
    for sign, fraction in (("", ""), ("-", ""), ("", ".5")):
        text = text.replace(f'"{sign}{HUGE}{fraction}"', f"{sign}{'9' * 5000}{fraction}")
    text = text.replace(HUGE, "9" * 5000)
    for number in ("1e400", "-1e400", "0e999999999", "1e-400"):
        text = text.replace(f'"{number}"', number)
    while (at := text.find('"@deep')) >= 0:
        end = text.index('@"', at + 2)
        depth = int(text[at + 6 : end])
        text = text[:at] + "[" * depth + "]" * depth + text[end + 2 :]
    return text.encode("utf-8", "surrogateescape" if _is_escaped(text) else "surrogatepass")


def _is_escaped(text: str) -> bool:
    return all(not 0xD800 <= ord(one) <= 0xDFFF or 0xDC80 <= ord(one) <= 0xDCFF for one in text)


@given(events=st.lists(EVENTS, min_size=1, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_reader_raises_trace_errors_only(tmp_path: Path, events: list[dict[str, Any]]) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(bytes_of(events))

    with mock.patch.dict(os.environ):  # the decoder is chosen by a variable
        outcome(path, "general", WHOLE)
    if typed_event.compiled():
        assert difference(path, 64) is None


@pytest.mark.parametrize(("first", "second"), [(False, 0), (0.0, 0), (0, 0.0)])
def test_equal_numbers_of_two_types_are_two_tracks(
    tmp_path: Path, decoder: str, first: float, second: float
) -> None:
    trace = read_kineto(
        written(tmp_path / "a.json", {**EVENT, "pid": first}, {**EVENT, "pid": second})
    )

    assert {track.pid for track in trace.tracks} == {str(first), str(second)} | {"0"}


@pytest.mark.parametrize(("depth", "count"), [(250, 1), (480, 0), (490, 0), (1100, 0)])
def test_a_nested_event_counts_whatever_the_depth_of_its_caller(
    tmp_path: Path, decoder: str, depth: int, count: int
) -> None:
    path = tmp_path / "a.json"
    text = json.dumps([{**EVENT, "ph": "@"}]).replace('"@"', "[" * depth + "]" * depth)
    path.write_text(text)

    assert sum(read_kineto(path).counts.values()) == count
