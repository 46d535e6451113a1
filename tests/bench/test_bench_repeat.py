"""A repeated trace holds its events again, later and under other ids, in any layout."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.repeat import Counts, Steps, pattern_of

EVENTS: list[dict[str, Any]] = [
    {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "ts": 0, "args": {"name": "python"}},
    {
        "ph": "X",
        "cat": "user_annotation",
        "name": "ProfilerStep#3",
        "pid": 7,
        "tid": 7,
        "ts": 101.25,
        "dur": 40.5,
    },
    {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mm",
        "pid": 7,
        "tid": 7,
        "ts": 100.25,
        "dur": 50.5,
        "args": {"External id": 1, "est. %": 12},
    },
    {"ph": "s", "id": 9, "cat": "ac2g", "name": "ac2g", "pid": 7, "tid": 7, "ts": 110.0},
    {
        "ph": "X",
        "cat": "kernel",
        "name": 'a "quoted" name: {}, []',
        "pid": 0,
        "tid": 20,
        "ts": 120.125,
        "dur": 10.0,
        "args": {"correlation": 9, "stream": 20, "Seq": 4},
    },
    {"ph": "X", "cat": "Trace", "name": "profiler", "pid": "S", "tid": "p", "ts": 0, "dur": 400},
]
DOCUMENT = {"distributedInfo": {"rank": 3}, "traceEvents": EVENTS, "traceName": "a.json"}


def text_of(layout: str) -> str:
    if layout == "bare list":
        return json.dumps(EVENTS)
    return json.dumps(DOCUMENT, indent={"one line": None, "indent 1": 1, "indent 4": 4}[layout])


@pytest.mark.parametrize("layout", ["one line", "indent 1", "indent 4", "bare list"])
def test_events_move_and_the_rest_comes_once(layout: str) -> None:
    pattern = pattern_of(text_of(layout))

    read = json.loads("".join(pattern.texts(3)))

    events = read if layout == "bare list" else read["traceEvents"]
    assert [event["ph"] for event in events] == ["M", "X", "X", *["X", "s", "X"] * 3]
    calls = [event for event in events if event["name"] == "aten::mm"]
    assert [event["ts"] for event in calls] == [100.25, 250.25, 400.25]
    assert [event["args"]["External id"] for event in calls] == [1, 11, 21]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert [event["args"]["correlation"] for event in kernels] == [9, 19, 29]
    assert [event["args"]["Seq"] for event in kernels] == [4, 14, 24]
    assert {event["args"]["stream"] for event in kernels} == {20}
    assert {event["name"] for event in kernels} == {'a "quoted" name: {}, []'}
    assert [event["id"] for event in events if event["ph"] == "s"] == [9, 19, 29]


def test_one_repetition_is_the_source_with_its_fixed_events_first() -> None:
    pattern = pattern_of(text_of("one line"))

    read = json.loads("".join(pattern.texts(1)))

    assert read == {
        **DOCUMENT,
        "traceEvents": [EVENTS[0], EVENTS[5], EVENTS[1], *EVENTS[2:5]],
    }


def test_steps_are_as_many_as_before_and_longer() -> None:
    pattern = pattern_of(text_of("one line"))

    read = json.loads("".join(pattern.texts(3)))

    steps = [event for event in read["traceEvents"] if event["name"].startswith("ProfilerStep")]
    # Events begin at 100.25 and last 50.5; two more repetitions come 150 later each.
    stretch = 1 + 2 * 150 / 50.5
    assert [step["name"] for step in steps] == ["ProfilerStep#3"]
    assert steps[0]["ts"] == pytest.approx(100.25 + 1.0 * stretch, abs=1e-3)
    assert steps[0]["dur"] == pytest.approx(40.5 * stretch, abs=1e-3)


def test_counts_are_known_without_reading() -> None:
    pattern = pattern_of(text_of("one line"))

    assert pattern.counts(10) == Counts(events=3 + 3 * 10, timed=1 + 2 * 10)


def test_files_of_one_job_move_alike() -> None:
    pattern = pattern_of(text_of("one line"))
    steps = pattern.steps.covering(Steps(time_us=1000, ids=2))

    read = json.loads("".join(pattern.texts(2, steps)))

    times = [event["ts"] for event in read["traceEvents"] if event.get("cat") == "kernel"]
    assert times == [120.125, 1120.125]
    assert steps == Steps(time_us=1000, ids=10)


def test_a_text_without_events_is_refused() -> None:
    with pytest.raises(ValueError, match="no list of trace events"):
        pattern_of('{"a": 1}')
