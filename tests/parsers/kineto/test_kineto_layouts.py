"""Test that layouts of the same events give the same columns."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.errors import TraceError
from ccltui.parsers.kineto.kineto_reader import read_kineto

pytestmark = pytest.mark.usefixtures("decoder")


SIZES = [1, 7, 4096, 1 << 20]
EVENTS: list[dict[str, Any]] = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, "ts": 10, "dur": 5},
    {
        "ph": "X",
        "cat": "kernel",
        "name": 'void f<A<1>, (lambda #1)>(int[4]*, "x\\")}, {',
        "pid": 0,
        "tid": 7,
        "ts": 12,
        "dur": 3,
        "args": {"device": 0, "stream": 7, "correlation": 5, "grid": [8, 1, 1], "x": [{}, {}]},
    },
    {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 9, "tid": 9, "ts": 11},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 11, "dur": 1},
    {"ph": "s", "id": 5, "cat": "ac2g", "name": "ac2g", "pid": 9, "tid": 9, "ts": 10},
]
HEAD = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}}


def native(events: list[dict[str, Any]]) -> str:
    """Return events in the profiler's layout: several keys per line, blanks before commas."""
    parts = []
    for event in events:
        rest = {k: v for k, v in event.items() if k not in ("ph", "args")}
        args = ",".join(f'"{k}": {json.dumps(v)}' for k, v in event.get("args", {}).items())
        body = ", ".join(f'"{k}": {json.dumps(v)}' for k, v in rest.items())
        parts.append(
            f'  {{\n    "ph": "{event["ph"]}", {body}'
            + (f',\n    "args": {{\n      {args}\n    }}' if args else "")
            + "\n  }"
        )
    return "\n{\n" + json.dumps(HEAD)[1:-1] + ',\n  "traceEvents": [\n' + ",\n".join(parts)


LAYOUTS = {
    "one line": json.dumps({**HEAD, "traceEvents": EVENTS}),
    "no blanks": json.dumps({**HEAD, "traceEvents": EVENTS}, separators=(",", ":")),
    "indent 4": json.dumps({**HEAD, "traceEvents": EVENTS}, indent=4),
    "native": native(EVENTS) + '\n  ],\n  "traceName": "a.json"\n}',
    "metadata last": json.dumps({"traceEvents": EVENTS, **HEAD}),
    "nested metadata first": json.dumps(
        {
            "metadata": {"traceEvents": [1], "a": '"}'},
            "traceEvents": EVENTS,
            "x": [{"}": "]"}],
            **HEAD,
        }
    ),
    "byte order mark": "\ufeff" + json.dumps({**HEAD, "traceEvents": EVENTS}),
    "odd blanks": json.dumps({**HEAD, "traceEvents": EVENTS}).replace(
        '}, {"ph"', '} \t\r\n , \n\n{ "ph"'
    ),
    "keys sorted": json.dumps({**HEAD, "traceEvents": EVENTS}, sort_keys=True),
    "large unknown members": json.dumps(
        {"stacks": ["x" * 5000, {"y": "\\" * 3001}], **HEAD, "traceEvents": EVENTS, "z": 12.5}
    ),
}


def read(tmp_path: Path, text: str | bytes, size: int = 1 << 20) -> RankTrace:
    path = tmp_path / "trace.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_kineto(path, chunk_bytes=size)


def rows(trace: RankTrace) -> list[tuple[str, int, int, str, int]]:
    """Return (group, start, duration, name, correlation) of every complete event."""
    return [
        (
            group,
            int(events.start_ns[i]),
            int(events.dur_ns[i]),
            trace.text(int(events.name[i])),
            int(events.correlation[i]),
        )
        for group, events in sorted(trace.events.items())
        for i in range(len(events))
    ]


EXPECTED = [
    ("cpu_ops", 10_000, 5_000, "aten::mm", -1),
    ("gpu", 11_000, 1_000, "k", -1),
    ("gpu", 12_000, 3_000, 'void f<A<1>, (lambda #1)>(int[4]*, "x\\")}, {', 5),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_columns(tmp_path: Path, layout: str, size: int) -> None:
    trace = read(tmp_path, LAYOUTS[layout], size)

    assert rows(trace) == EXPECTED
    assert (trace.rank, trace.world_size, trace.backend) == (3, 8, "nccl")
    assert trace.counts == {
        "X:cpu_op": 1,
        "X:kernel": 2,
        "i:cpu_instant_event": 1,
        "s:ac2g": 1,
    }
    assert trace.notes == ()
    assert not trace.truncated


@pytest.mark.parametrize("size", SIZES)
def test_a_bare_list_has_no_rank(tmp_path: Path, size: int) -> None:
    trace = read(tmp_path, "[\n\n" + json.dumps(EVENTS)[1:], size)

    assert rows(trace) == EXPECTED
    assert trace.rank is None
    assert trace.rank_source == "none"


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_compression_is_found_by_content(tmp_path: Path, pack: Any) -> None:
    trace = read(tmp_path, pack(LAYOUTS["native"].encode()))

    assert rows(trace) == EXPECTED
    assert trace.source.text_bytes == len(LAYOUTS["native"].encode())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the file is empty"),
        ("   \n", "no list of trace events"),
        ("<html>502 Bad Gateway</html>", "not a JSON object or list"),
        ('{"schema":"1.1.1-chakra.0.0.4","nodes":[{"id":1}]}', "no list of trace events"),
        ('{"traceEvents": 5}', "no list of trace events"),
        ('{"a": [1, 2', "ends in the middle"),
        ('{"a": }', "no list of trace events"),
    ],
)
@pytest.mark.parametrize("size", SIZES)
def test_other_files_are_rejected_with_a_reason(
    tmp_path: Path, text: str, why: str, size: int
) -> None:
    with pytest.raises(TraceError, match=why):
        read(tmp_path, text, size)


def test_unreadable_file_is_rejected_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"absent\.json: cannot be read \(No such file"):
        read_kineto(tmp_path / "absent.json", shown="absent.json")


@pytest.mark.parametrize("size", SIZES)
def test_second_document_is_ignored_and_noted(tmp_path: Path, size: int) -> None:
    first = LAYOUTS["one line"]

    trace = read(tmp_path, first + "\n" + first, size)

    assert rows(trace) == EXPECTED
    assert [(note.code, note.offset) for note in trace.notes] == [("trailing_data", len(first) + 1)]


def test_devices_and_groups_are_kept(tmp_path: Path) -> None:
    document = {
        "deviceProperties": [
            {"id": 0, "name": "GPU-X", "totalGlobalMem": 85899345920, "numSms": 132},
            {},
        ],
        "distributedInfo": {
            "rank": "1",
            "world_size": 2,
            "nccl_version": "2.27.5",
            "pg_config": [
                {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]},
                {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]},
                {"pg_name": "7", "uid": "old_key", "ranks": "[1]"},
            ],
        },
        "host_name": "node-a",
        "traceEvents": EVENTS,
    }

    trace = read(tmp_path, json.dumps(document))

    assert trace.rank == 1
    assert trace.nccl_version == "2.27.5"
    assert trace.host == "node-a"
    assert [(d.index, d.name, d.num_sms) for d in trace.devices] == [(0, "GPU-X", 132)]
    assert [(g.name, g.description, g.ranks, g.size) for g in trace.process_groups] == [
        ("0", "default_pg", (0, 1), 2),
        ("7", "old_key", (1,), 1),
    ]


def test_begin_and_end_pairs_become_complete_events(tmp_path: Path) -> None:
    events = [
        {"ph": "B", "name": "outer", "cat": "a,user_annotation", "ts": 1, "pid": 0, "tid": 0},
        {"ph": "B", "name": "inner", "ts": "2.5", "pid": 0, "tid": 0},
        {"ph": "B", "name": "never ended", "ts": 3, "pid": 0, "tid": 1},
        {"ph": "E", "ts": 3, "pid": 0, "tid": 0},
        {"ph": "E", "ts": 9, "pid": 0, "tid": 0},
        {"ph": "E", "ts": 10, "pid": 0, "tid": 0},
    ]

    trace = read(tmp_path, json.dumps(events))

    assert rows(trace) == [
        ("annotations", 1_000, 8_000, "outer", -1),
        ("other", 2_500, 500, "inner", -1),
    ]
    assert [(note.code, note.count) for note in trace.notes] == [
        ("unmatched_end", 1),
        ("unmatched_begin", 1),
    ]


def test_names_and_tracks_are_read(tmp_path: Path) -> None:
    events = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", "pid": "Spans", "tid": None, "args": {"name": "t"}},
        {"ph": "X", "name": "\x1b[2J[red]\u202e", "pid": "Spans", "tid": None, "ts": 1, "dur": 1},
        {"ph": "X", "name": 5, "pid": "", "tid": "7", "ts": 2, "dur": 1},
        {"ph": "X", "cat": "kernel", "name": "k", "pid": "x", "tid": "y", "ts": 2, "dur": 1},
        {
            "ph": "X",
            "cat": "Kernel",
            "name": "k",
            "pid": 3,
            "tid": 4,
            "ts": 3,
            "dur": 1,
            "args": {"device": 1, "stream": 20},
        },
    ]

    trace = read(tmp_path, json.dumps(events))

    assert [(t.kind, t.pid, t.tid, t.device, t.stream, t.label) for t in trace.tracks] == [
        ("stream", "1", "20", 1, 20, ""),
        ("stream", "x", "y", -1, -1, ""),
        ("thread", "", "7", -1, -1, ""),
        ("thread", "Spans", "None", -1, -1, "t"),
    ]
    assert trace.text(int(trace.group("other").name[0])) == "\x1b[2J[red]\u202e"
    assert trace.text(int(trace.group("other").name[1])) == "5"
