"""Every layout is valid JSON with the same events and exact times."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from ccltui.demo import Cut, Spec, build
from ccltui.demo.kineto_writer import base_ns, observe
from ccltui.demo.simulate import simulate
from ccltui.demo.spec import Layout

TINY = {"tp": 2, "pp": 1, "dp_shard": 1, "steps": 2, "layers": 1, "micro_batches": 1}
MODERN: tuple[Layout, ...] = ("native", "metadata_last", "one_line", "indent4")
ALL: tuple[Layout, ...] = (*MODERN, "bare_list", "integer_us", "old2021")


def tiny(layout: Layout, **changes: Any) -> Spec:
    metadata = "names_only" if layout == "old2021" else "full"
    return Spec.quiet(**{**TINY, "layout": layout, "metadata": metadata, **changes})


def text_of(spec: Spec, rank: int = 1) -> str:
    return build(spec).files[f"kineto_trace_{rank}.json"]


def parsed(spec: Spec, rank: int = 1) -> Any:
    """The file with every number that has a point kept exact."""
    return json.loads(text_of(spec, rank), parse_float=Decimal)


def events_of(spec: Spec) -> list[dict[str, Any]]:
    document = parsed(spec)
    events: list[dict[str, Any]] = (
        document if isinstance(document, list) else document["traceEvents"]
    )
    return events


@pytest.mark.parametrize("layout", ALL)
def test_times_in_the_text_are_the_schedule_to_the_nanosecond(layout: Layout) -> None:
    spec = tiny(layout, jitter_ns=997, clock_offsets_ns=(1_003,))

    kernels = [
        event
        for event in events_of(spec)
        if str(event.get("cat", "")).lower() in ("kernel", "gpu_memcpy", "gpu_memset")
        or event.get("cat") in ("Memcpy", "Memset")
    ]

    wanted = sorted((item.start_ns, item.dur_ns) for item in observe(simulate(spec)).activities[1])
    found = sorted(
        (base_ns(spec) + int(Decimal(event["ts"]) * 1000), int(Decimal(event["dur"]) * 1000))
        for event in kernels
    )
    assert found == wanted


@pytest.mark.parametrize("layout", MODERN[1:])
def test_the_modern_layouts_hold_equal_documents(layout: Layout) -> None:
    native = json.loads(text_of(tiny("native")))
    other = json.loads(text_of(tiny(layout)))

    assert other == native


def test_one_line_and_indent_4_are_what_json_dumps_writes() -> None:
    one_line, indented = text_of(tiny("one_line")), text_of(tiny("indent4"))

    assert one_line == json.dumps(json.loads(one_line))
    assert indented == json.dumps(json.loads(indented), indent=4)


def test_native_text_looks_as_the_profiler_prints_it() -> None:
    lines = text_of(tiny("native")).splitlines()

    assert lines[:3] == ["", "{", '  "schemaVersion": 1,']
    row = next(number for number, line in enumerate(lines) if "ProfilerStep#10" in line)
    assert lines[row - 1] == "  {"
    assert lines[row] == (
        '    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#10", '
        '"pid": 41017, "tid": 41017,'
    )
    assert lines[row + 1] == '    "ts": 973473392000.000, "dur": 7071.213,'
    assert lines[row + 2] == '    "args": {'
    assert lines[-1] == "}"


def test_metadata_last_puts_the_rank_behind_the_events() -> None:
    text = text_of(tiny("metadata_last"))

    assert text.startswith('{\n  "traceEvents": [')
    assert text.index('"distributedInfo"') > text.index("Record Window End")


def test_a_bare_list_knows_neither_rank_nor_base() -> None:
    document = json.loads(text_of(tiny("bare_list")))

    assert isinstance(document, list)
    assert all("ph" in event for event in document)


def test_2023_wrote_whole_microseconds_since_the_epoch() -> None:
    document = json.loads(text_of(tiny("integer_us")))

    assert "baseTimeNanoseconds" not in document
    assert document["distributedInfo"] == {"backend": "nccl", "rank": 1, "world_size": 2}
    assert all(isinstance(event["ts"], int) for event in document["traceEvents"])


def test_2021_wrote_capitals_string_threads_and_no_rank() -> None:
    document = json.loads(text_of(tiny("old2021")))
    events = document["traceEvents"]

    assert set(document) == {"schemaVersion", "deviceProperties", "traceEvents", "traceName"}
    categories = {event["cat"] for event in events if event["ph"] == "X"}
    assert categories == {"Operator", "Runtime", "Kernel", "Memcpy", "Memset", "Trace"}
    kernel = next(event for event in events if event.get("cat") == "Kernel")
    assert kernel["tid"] == "stream 7"
    assert isinstance(kernel["ts"], int)
    assert "external id" in kernel["args"]
    marker = next(event for event in events if event["name"] == "ProfilerStep#10")
    assert (marker["cat"], marker["tid"]) == ("Operator", "41017")
    assert '"cat": "Operator", \n' in text_of(tiny("old2021"))


@pytest.mark.parametrize("layout", ALL)
def test_a_cut_file_is_a_true_beginning(layout: Layout) -> None:
    whole, cut = (
        text_of(tiny(layout)),
        text_of(tiny(layout, cuts=(Cut(rank=1, fraction=0.8),))),
    )

    assert cut == whole[: int(len(whole) * 0.8)]
    with pytest.raises(json.JSONDecodeError):
        json.loads(cut)
