"""The record of one event in the text of a Chrome trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import SoughtEvent
from ccltui.parsers.kineto import event_in_json
from ccltui.parsers.kineto.event_in_json import read_json_record


def sought(name: str, start_ns: int, dur_ns: int = 1_000, correlation: int = -1) -> SoughtEvent:
    return SoughtEvent("gpu", name, start_ns, dur_ns, correlation, 0, 7)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def events_text(events: list[dict[str, Any]], **layout: Any) -> str:
    return json.dumps({"schemaVersion": 1, "traceEvents": events}, **layout)


def one(name: str, ts: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": name, "ts": ts, "dur": 1, "args": args}


@pytest.mark.parametrize("indent", [None, 2])
def test_the_event_is_told_from_others_with_the_same_digits(
    tmp_path: Path, indent: int | None
) -> None:
    events = [
        one("other", 1234.5, grid=[1, 1, 1]),
        one("gemm", 1234.25, grid=[2, 1, 1]),
        one("gemm", 1234.5, grid=[3, 1, 1], correlation=5, note={"ts": 1234.5, "name": "gemm"}),
        one("gemm", 1234.5, grid=[4, 1, 1], correlation=6),
        {**one("gemm", 1234.5, grid=[5, 1, 1], correlation=6), "dur": 1.5},
    ]
    path = written(tmp_path / "t.json", events_text(events, indent=indent))

    assert read_json_record(path, sought("gemm", 1_234_250), shown="t").grid == (2, 1, 1)
    assert read_json_record(path, sought("gemm", 1_234_500, correlation=6), shown="t").grid == (
        4,
        1,
        1,
    )
    assert read_json_record(path, sought("gemm", 1_234_500, 1_500), shown="t").grid == (5, 1, 1)


def test_arguments_before_the_time_and_braces_in_texts(tmp_path: Path) -> None:
    text = (
        '[{"name":"a {weird} \\"ts\\": 77 name","args":{"grid":[7,1,1],"x":{"y":"}{"}},'
        '"ph":"X","dur":1,"ts" : 77.125}]'
    )
    path = written(tmp_path / "t.json", text)
    found = read_json_record(path, sought('a {weird} "ts": 77 name', 77_125), shown="t")

    assert found.grid == (7, 1, 1)
    assert dict(found.further)["x"] == '{"y": "}{"}'


def test_an_event_across_chunks_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_in_json, "_CHUNK_BYTES", 64)
    monkeypatch.setattr(event_in_json, "_REACH_BYTES", 256)
    events = [one(f"k{n}", 1000 + n, grid=[n + 1, 1, 1]) for n in range(200)]
    path = written(tmp_path / "t.json", events_text(events))

    for n in (0, 1, 57, 120, 199):
        found = read_json_record(path, sought(f"k{n}", (1000 + n) * 1000), shown="t")
        assert found.grid == (n + 1, 1, 1)


def test_values_of_other_types_are_left_out(tmp_path: Path) -> None:
    args = {
        "grid": [1, "2", 3],
        "block": "128",
        "registers per thread": -4,
        "shared memory": 1.5,
        "est. achieved occupancy %": 0,
        "Call stack": "a.py(1): f;b.py(2): g",
    }
    path = written(tmp_path / "t.json", events_text([one("k", 5, **args)]))
    found = read_json_record(path, sought("k", 5_000), shown="t")

    assert (found.grid, found.block, found.registers) == (None, None, None)
    assert (found.shared_bytes, found.occupancy_pct) == (None, None)
    assert found.call_stack == ("a.py(1): f", "b.py(2): g")


def test_damage_gives_a_reason(tmp_path: Path) -> None:
    text = events_text([one("k", 5, grid=[1, 1, 1])])
    cut = written(tmp_path / "cut.json", text[: text.index("grid")])

    with pytest.raises(TraceError, match="not found"):
        read_json_record(cut, sought("k", 5_000), shown="cut.json")
    with pytest.raises(TraceError, match="cannot be read"):
        read_json_record(tmp_path / "none.json", sought("k", 5_000), shown="none.json")
    nested = written(tmp_path / "deep.json", '{"ts": 5, "a": ' + "[" * 100_000)
    with pytest.raises(TraceError, match="not found"):
        read_json_record(nested, sought("k", 5_000), shown="deep.json")
