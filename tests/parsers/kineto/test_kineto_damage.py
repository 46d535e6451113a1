"""Test truncated, corrupt and hostile text: events before the damage, notes, no crash."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kineto_fuzz import read_in_pieces

from ccltui.parsers.columns import CollectiveArgs, Events, RankTrace
from ccltui.parsers.errors import TraceError

pytestmark = pytest.mark.usefixtures("decoder")


SIZES = [1, 7, 4096, 1 << 20]


def event(index: int, **more: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "kernel",
        "name": f"k{index}",
        "pid": 0,
        "tid": 7,
        "ts": index,
        "dur": 1,
        **more,
    }


def read(tmp_path: Path, text: str | bytes, size: int = 1 << 20) -> RankTrace:
    path = tmp_path / "trace.json"
    # a new file: the file system flushes one that is truncated and written again
    path.unlink(missing_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_in_pieces(path, size)


def names(trace: RankTrace) -> list[str]:
    return [trace.text(i) for events in trace.events.values() for i in events.name.tolist()]


TEXT = json.dumps(
    {
        "distributedInfo": {"rank": 1, "world_size": 2},
        "traceEvents": [event(0), event(1, args={"name": "x", "a": [{"ph": 1}]}), event(2)],
        "traceName": "t",
    }
)


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_cut_at_every_byte_keeps_the_complete_events(tmp_path: Path, size: int) -> None:
    ends = [TEXT.index("}", TEXT.index(f'"name": "k{i}"')) for i in (0, 2)]
    second = TEXT.index("]}}", TEXT.index('"k1"')) + 2
    complete = [ends[0], second, ends[1]]
    for cut in range(TEXT.index("[") + 1, len(TEXT)):
        trace = read(tmp_path, TEXT[:cut], size)

        expected = [f"k{i}" for i, end in enumerate(complete) if cut > end]
        assert names(trace) == expected, cut
        assert trace.truncated
        note = trace.notes[0]
        assert note.code == "truncated_trace"
        assert f"{len(expected)} events kept" in note.message
        assert note.offset is not None
        assert note.offset <= cut


@pytest.mark.parametrize("size", SIZES)
def test_two_writers_in_one_file_lose_only_overwritten_events(tmp_path: Path, size: int) -> None:
    broken = '{"ph":"X","name":"a",{"ph":"X","name":"b","cat":"kernel","ts":5,"dur":1},'
    text = "[" + json.dumps(event(0)) + "," + broken + json.dumps(event(6)) + "]"

    trace = read(tmp_path, text, size)

    assert names(trace) == ["k0", "b", "k6"]
    assert [(note.code, note.count) for note in trace.notes] == [("malformed_event", 1)]
    assert trace.notes[0].offset == text.index('{"ph":"X","name":"b"')


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("odd", "code"),
    [
        (
            '{"ph":"X","cat":"kernel","name":"odd","ts":1,"dur":1,"args":{"v":NaN,},}',
            "repaired_event",
        ),
        ('{"ph":"X","cat":"kernel","name":"odd","ts":1,"dur":1,"args":[1,2]}', "repaired_event"),
        (
            '{"ph":"X","cat":"kernel","name":"odd","ts":1,"dur":1,"args":{"v":-Infinity}}',
            "repaired_event",
        ),
        ('{"ph":"X","cat":["kernel"],"name":"odd","ts":1,"dur":1}', "repaired_event"),
        ('{"ph":"X","cat":"kernel","name":"odd","ts":1,"dur":01x}', "malformed_event"),
        ('"a string"', "not_an_event"),
        ("12.5", "not_an_event"),
        ("[[1, {}], []]", "not_an_event"),
        ("null", "not_an_event"),
    ],
)
def test_one_invalid_element_drops_no_other(tmp_path: Path, odd: str, code: str, size: int) -> None:
    text = "[" + json.dumps(event(0)) + ", " + odd + "," + json.dumps(event(2)) + ",]"

    trace = read(tmp_path, text, size)

    assert [name for name in names(trace) if name != "odd"] == ["k0", "k2"]
    assert ("odd" in names(trace)) == (code == "repaired_event")
    place = text.index("01x" if "01x" in odd else odd)
    assert [(note.code, note.offset) for note in trace.notes] == [(code, place)]
    assert not trace.truncated


def test_invalid_utf8_is_replaced_and_noted(tmp_path: Path) -> None:
    trace = read(tmp_path, b'[{"ph":"X","name":"k\xff\xfe","ts":1,"dur":1}]')

    assert names(trace) == ["k\ufffd\ufffd"]
    assert [note.code for note in trace.notes] == ["repaired_event"]


def test_escapes_are_decoded_and_lone_surrogates_replaced(tmp_path: Path) -> None:
    trace = read(tmp_path, r'[{"ph":"X","name":"k\u00e4se \ud83d\ude00 \\\"","ts":1,"dur":1}]')
    lone = read(tmp_path, r'[{"ph":"X","name":"\ud83d","ts":1,"dur":1}]')

    assert names(trace) == ['käse 😀 \\"']
    assert names(lone) == ["\ufffd"]
    assert [note.code for note in lone.notes] == ["repaired_event"]


def test_duplicate_keys_give_the_last_as_json_does(tmp_path: Path) -> None:
    trace = read(tmp_path, '[{"ph":"X","name":"a","name":"b","ts":1,"ts":2,"dur":1}]')

    assert names(trace) == ["b"]
    assert trace.group("other").start_ns.tolist() == [2000]


def test_ids_above_63_bits_keep_their_bits(tmp_path: Path) -> None:
    args = {
        "Comms Id": 10159970886766084423,
        "Collective name": "allreduce",
        "External id": 2**64 - 2,
        "correlation": 2**63,
    }

    trace = read(tmp_path, json.dumps([event(0, args=args)]))

    gpu = trace.group("gpu")
    assert trace.collective_args.comms_id.tolist() == [10159970886766084423]
    assert gpu.external_id.astype("uint64").tolist() == [2**64 - 2]
    assert gpu.correlation.astype("uint64").tolist() == [2**63]


def test_deep_nesting_does_not_exhaust_the_stack(tmp_path: Path) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    text = '{"a": ' + deep + ', "traceEvents": [' + json.dumps(event(0)) + ","
    text += '{"ph":"X","name":"deep","ts":1,"dur":1,"args":{"x":' + deep + "}},"
    text += json.dumps(event(2))

    trace = read(tmp_path, text + "]}")

    assert [name for name in names(trace) if name != "deep"] == ["k0", "k2"]


def test_a_huge_argument_is_skipped(tmp_path: Path) -> None:
    stack = "frame\\n" * 400_000
    text = "[" + json.dumps(event(0, args={"Call stack": stack, "correlation": 3})) + "]"

    trace = read(tmp_path, text, 4096)

    assert trace.group("gpu").correlation.tolist() == [3]


def columns(trace: RankTrace) -> list[object]:
    """Return everything that must not depend on the chunk size."""
    return [
        {
            group: {
                name: getattr(events, name).tolist()
                for name, _ in (*Events.COLUMNS, *Events.SPARSE)
            }
            for group, events in trace.events.items()
        },
        {n: getattr(trace.collective_args, n).tolist() for n, _ in CollectiveArgs.COLUMNS},
        list(trace.strings),
        trace.tracks,
        trace.process_groups,
        dict(trace.counts),
        trace.truncated,
    ]


PIECES = [*'{}[],:" \\\n\x00', "1e5", "null", "NaN", '{"ph":"X"', '"name":"a"', '"ts":1']
PIECES += ['"dur":2', '"args":{', '"traceEvents":[', '"External id":7']


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES), max_size=40), st.sampled_from([1, 2, 7, 64]))
def test_any_text_gives_the_same_at_any_chunk_size(
    tmp_path: Path, pieces: list[str], size: int
) -> None:
    text = '{"traceEvents":[' + json.dumps(event(0)) + "," + "".join(pieces)

    whole = read(tmp_path, text)

    assert columns(read(tmp_path, text, size)) == columns(whole)
    assert names(whole)[:1] in (["k0"], ["a"])


@pytest.mark.parametrize(("rank", "size"), [(10**9, 2 * 10**9), (2**63, 2**64), (-1, -2)])
def test_invalid_rank_or_world_size_is_none(tmp_path: Path, rank: int, size: int) -> None:
    info = {"rank": rank, "world_size": size}

    trace = read(tmp_path, json.dumps({"traceEvents": [event(0)], "distributedInfo": info}))

    assert (trace.rank, trace.rank_source, trace.world_size) == (None, "none", None)


def test_mutants_of_a_trace_never_crash(tmp_path: Path) -> None:
    dice = random.Random(11)
    events = [event(i, args={"a": [{}], "correlation": i}) for i in range(12)]
    data = json.dumps({"traceEvents": events, "distributedInfo": {"rank": 0}}).encode()
    for _ in range(500):
        mutant = bytearray(data)
        for _ in range(dice.randrange(1, 6)):
            place = dice.randrange(len(mutant))
            choice = dice.randrange(3)
            if choice == 0:
                mutant[place] = dice.randrange(256)
            elif choice == 1:
                del mutant[place : place + dice.randrange(1, 30)]
            else:
                mutant[place:place] = dice.choice([b'"', b"{", b"}", b"]", b",", b"\\", b"\xff"])
        try:
            whole = read(tmp_path, bytes(mutant))
        except TraceError:
            continue
        assert columns(read(tmp_path, bytes(mutant), 61)) == columns(whole)
