"""Which files are Perfetto traces, and what damaged ones give."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from golden_bytes import GOLDEN, START, written
from perfetto_files import (
    annotation,
    begin,
    end,
    field,
    interned,
    packet,
    process_track,
    text,
    thread_track,
    varint,
)

from ccltui.parsers import open_job
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError
from ccltui.parsers.pftrace.pftrace_reader import read_pftrace

HEAD = process_track(1, 10, "python3") + thread_track(2, 1, 10, 11, "main")
TABLES = interned(text(1, 1, "cpu_op"), text(2, 1, "aten::add"), text(2, 2, "aten::mul"))
CPU_OP = field(3, 1)


def read(folder: Path, data: bytes) -> RankTrace:
    path = folder / "rank0.pftrace"
    path.write_bytes(data)
    (found,) = read_pftrace(path)
    return found


def slices(trace: RankTrace) -> list[tuple[str, int, int]]:
    rows = trace.events["cpu_ops"]
    names = [trace.text(name) for name in rows.name.tolist()]
    return list(zip(names, rows.start_ns.tolist(), rows.dur_ns.tolist(), strict=True))


def notes(trace: RankTrace) -> list[tuple[str, int | None, int]]:
    return [(note.code, note.offset, note.count) for note in trace.notes]


def test_bytes_of_perfettos_own_classes(decoder: str, tmp_path: Path) -> None:
    found = read(tmp_path, GOLDEN)
    assert not found.notes
    assert slices(found) == [("aten::mm", START + 1000, 1500)]
    op, launch, kernel = (found.events[g] for g in ("cpu_ops", "runtime", "gpu"))
    assert found.text(int(op.shapes[0])) == "[[8, 16], [16, 4]]"
    assert op.external_id.tolist() == [17]
    assert (launch.start_ns[0], launch.dur_ns[0], launch.correlation[0]) == (START + 1500, 1500, 77)
    assert (kernel.start_ns[0], kernel.dur_ns[0], kernel.correlation[0]) == (START + 4000, 1234, 77)
    track = found.tracks[int(kernel.track[0])]
    assert (track.device, track.stream, found.text(int(kernel.name[0]))) == (3, 7, "gemm")
    assert found.tracks[int(op.track[0])].label == "main"
    samples = found.samples
    readings = zip(samples.time_ns - START, map(found.text, samples.name), samples.value)  # noqa: B905
    assert list(readings) == [(4100, "Power (W)", 512.5), (4200, "SM Clock (MHz)", 1980.0)]


def test_the_bytes_are_those_that_the_package_writes() -> None:
    pytest.importorskip("perfetto")
    assert written() == GOLDEN


def test_ends_are_paired_by_their_place_in_a_group(decoder: str, tmp_path: Path) -> None:
    data = HEAD + TABLES + begin(100, 2, 1, CPU_OP) + begin(150, 2, 2, CPU_OP)
    found = read(tmp_path, data + end(180, 2) + end(300, 2))
    assert slices(found) == [("aten::add", 100, 80), ("aten::mul", 150, 150)]


def test_ends_of_perfettos_library_are_paired_by_a_stack(decoder: str, tmp_path: Path) -> None:
    data = HEAD + TABLES + begin(100, 2, 1, CPU_OP) + begin(150, 2, 2, CPU_OP)
    found = read(tmp_path, data + end(180, 2, flags=True) + end(300, 2, flags=True))
    assert slices(found) == [("aten::add", 100, 200), ("aten::mul", 150, 30)]


def test_times_that_go_back_on_a_track_are_pairs_by_place(decoder: str, tmp_path: Path) -> None:
    data = HEAD + TABLES + begin(150, 2, 2, CPU_OP) + begin(100, 2, 1, CPU_OP)
    found = read(tmp_path, data + end(180, 2, flags=True) + end(300, 2, flags=True))
    assert slices(found) == [("aten::add", 100, 200), ("aten::mul", 150, 30)]


def test_begins_and_ends_without_their_other_half_are_notes(decoder: str, tmp_path: Path) -> None:
    data = HEAD + TABLES + begin(100, 2, 1, CPU_OP) + end(150, 2) + begin(200, 2, 1, CPU_OP)
    assert notes(read(tmp_path, data)) == [("unmatched_begin", None, 1)]
    data = HEAD + TABLES + begin(100, 2, 1, CPU_OP) + end(150, 2) + end(160, 2)
    assert notes(read(tmp_path, data)) == [("unmatched_end", None, 1)]
    data = HEAD + TABLES + begin(100, 2, 1, CPU_OP) * 2 + end(150, 2) + end(90, 2)
    assert notes(read(tmp_path, data)) == [("negative_duration", None, 1)]
    data = HEAD + TABLES + begin(100, 2, 1, CPU_OP) * 2 + end(150, 2) + end(190, 9)
    assert notes(read(tmp_path, data)) == [("unmatched_end", None, 1)]


WHOLE = HEAD + TABLES + begin(100, 2, 1, CPU_OP) + end(150, 2)
DAMAGED = {
    "a number without an end": b"\x0a\x05\x50\xff\xff\xff\xff",
    "a length beyond the packet": packet(varint(11 << 3 | 2) + varint(1 << 40)),
    "a field without a number": packet(b"\x00\x00"),
    "a group": packet(b"\x5b\x5c"),
    "a wire type that is not in use": packet(b"\x5e\x00"),
    "a damaged argument": begin(1, 2, 1, field(4, b"\x50\xff")),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_packet_is_left_out(kind: str, decoder: str, tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE + DAMAGED[kind] + WHOLE)
    assert slices(found) == [("aten::add", 100, 50)] * 2
    assert notes(found) == [("malformed_packet", len(WHOLE), 1)]


def test_a_file_that_is_cut_keeps_what_is_before(decoder: str, tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE + begin(1, 2, 1)[:-3])
    assert found.truncated
    (note,) = found.notes
    assert (note.code, note.offset) == ("truncated_trace", len(WHOLE))
    assert note.message == "the file ends in the middle of a packet; 1 events kept"


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (b"\x0a" + varint(1 << 50), "a packet of more than 64 MiB: what follows it is not read"),
        (b"get lost", "bytes that are no packet: what follows it is not read"),
        (b"\xff" * 40, "bytes that are no packet: what follows it is not read"),
    ],
)
def test_bytes_that_are_no_packet_end_the_reading(
    rest: bytes, message: str, decoder: str, tmp_path: Path
) -> None:
    found = read(tmp_path, WHOLE + rest + WHOLE)
    assert found.truncated
    assert [(note.message, note.offset) for note in found.notes] == [(message, len(WHOLE))]
    assert slices(found) == [("aten::add", 100, 50)]


def test_fields_of_the_wrong_wire_type_are_ignored(decoder: str, tmp_path: Path) -> None:
    odd = packet(field(8, b"x"), field(10, b"y"), field(11, 5), field(12, 6), field(60, 7))
    found = read(tmp_path, WHOLE + odd)
    assert slices(found) == [("aten::add", 100, 50)]
    assert not found.notes


def test_arguments_that_are_nested_deep_are_left_out(decoder: str, tmp_path: Path) -> None:
    value = field(4, 1)
    for _ in range(5000):
        value = field(12, value)
    deep = field(4, field(10, "Input Dims") + value)
    name = text(2, 9, "aten::mm")
    data = HEAD + interned(name, text(1, 1, "cpu_op")) + begin(100, 2, 9, CPU_OP, deep)
    found = read(tmp_path, data + end(150, 2))
    assert slices(found) == [("aten::mm", 100, 50)]


def test_interned_texts_are_those_of_the_last_tables(decoder: str, tmp_path: Path) -> None:
    keys = field(3, field(1, 1) + field(2, "correlation"))
    own = (field(4, field(1, 1) + field(4, 5)), CPU_OP)
    first = interned(text(1, 1, "cpu_op"), text(2, 1, "one"), keys) + begin(1, 2, 1, *own)
    again = interned(text(1, 1, "cpu_op"), text(2, 1, "two")) + begin(5, 2, 1, *own)
    found = read(tmp_path, HEAD + first + again + end(2, 2) + end(6, 2))
    assert slices(found) == [("one", 1, 1), ("two", 5, 1)]
    assert found.events["cpu_ops"].correlation.tolist() == [5, -1]


def test_kernels_of_the_version_that_names_launches_by_the_id_of_events(
    decoder: str, tmp_path: Path
) -> None:
    tables = interned(text(2, 1, "gemm"), text(24, 1, "Kernel"))
    stated = field(1, 4711) + field(2, 10) + field(11, 2) + field(13, 5) + field(14, 1)
    stage = packet(field(8, 100), field(10, 1), field(53, stated + field(20, 1)))
    kernel = read(tmp_path, tables + stage).events["gpu"]
    assert (kernel.correlation.tolist(), kernel.dur_ns.tolist()) == ([4711], [10])


def test_a_trace_without_events_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.pftrace"
    for data, message in (
        (b"", "the file is empty"),
        (HEAD, "a Perfetto trace without any event"),
        (HEAD + b"\x0a\x7f", "the file ends in the middle of a packet, at byte"),
    ):
        path.write_bytes(data)
        with pytest.raises(TraceError, match=message):
            read_pftrace(path)


def test_a_directory_of_ranks_is_a_job(tmp_path: Path) -> None:
    (tmp_path / "rank0.pftrace").write_bytes(WHOLE)
    (tmp_path / "rank1.pftrace.gz").write_bytes(gzip.compress(WHOLE + begin(200, 2, 2) + end(9, 2)))
    found = discover(tmp_path)
    assert [(f.kind, f.rank, f.problem) for f in found.files] == [
        ("pftrace", 0, None),
        ("pftrace", 1, None),
    ]
    assert [(one.rank, one.rank_source) for one in open_job(tmp_path).ranks] == [
        (0, "file name"),
        (1, "file name"),
    ]


def test_json_of_the_same_rank_comes_first(tmp_path: Path) -> None:
    (tmp_path / "rank0.pftrace").write_bytes(WHOLE)
    (tmp_path / "rank1.pftrace").write_bytes(WHOLE + WHOLE)
    event = '{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}'
    (tmp_path / "rank0.json").write_text(f'{{"traceEvents": [{event}]}}')
    paths = [one.source.path for one in open_job(tmp_path).ranks]
    assert paths == ["rank0.json", "rank1.pftrace"]


@pytest.mark.parametrize(
    "data",
    [
        b"\n\n\n\n",
        b"\n  {\n",
        b"\nstep 1 loss 3.2\nstep 2 loss 3.1\n",
        b"\x0a\x00\x0a\x00",
        b"\x0a\x04\x12\x02ab" * 9,  # another message of protocol buffers
        "\n\nÄrger\n".encode(),
    ],
)
def test_other_files_are_none(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.pftrace").write_bytes(data)
    (found,) = discover(tmp_path).files
    assert found.kind not in {"pftrace", "perfetto_export"}


def test_arguments_of_any_type_are_read(decoder: str, tmp_path: Path) -> None:
    parts = [annotation(key, value) for key, value in (("bytes", "12"), ("stream", 1.5))]
    found = read(tmp_path, HEAD + TABLES + begin(1, 2, 1, CPU_OP, *parts) + end(2, 2))
    assert found.events["cpu_ops"].bytes.tolist() == [12]
