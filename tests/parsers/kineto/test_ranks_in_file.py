"""A merged file is taken apart into its ranks; what cannot be is refused and says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.errors import TraceError
from ccltui.parsers.kineto.kineto_reader import SEVERAL_DEVICES, read_kineto, read_ranks
from tests.merged_traces import (
    WORLD,
    Event,
    Rename,
    document,
    merged,
    rank_events,
    renamed,
    with_offset,
    write,
)


def with_unique_launches(event: Event, rank: int) -> None:
    """Rename as TraceFusion does: process and launch numbers, and the rank in the arguments."""
    with_offset(event, rank)
    event["args"]["rank"] = rank
    if "correlation" in event["args"]:
        event["args"]["correlation"] += 10_000 * rank


def on_device_0(event: Event, rank: int) -> None:
    """Rename processes of ranks that each used device 0 of a host."""
    with_unique_launches(event, rank)
    if "device" in event["args"]:
        event["args"]["device"] = 0


def unchanged(_event: Event, _rank: int) -> None:
    pass


MERGES: dict[str, Rename] = {
    "offset": with_offset,
    "unique launches": with_unique_launches,
    "one device each": on_device_0,
    "unchanged": unchanged,
    "sglang": renamed(lambda pid, rank: f"[TP0{rank}-DP00-PP00-EP00] {pid}"),
    "rank before": renamed(lambda pid, rank: f"rank{rank}_{pid}"),
    "rank behind": renamed(lambda pid, rank: f"{pid}_rank{rank}"),
    "number before": renamed(lambda pid, rank: f"{rank}:{pid}"),
    "number behind": renamed(lambda pid, rank: f"{pid}_{rank}"),
    "rank only": renamed(lambda _pid, rank: rank),
}


def alike(part: RankTrace, whole: RankTrace) -> bool:
    """Whether two traces have the same events, by name, start, duration and stream."""
    for group in ("gpu", "runtime", "cpu_ops", "annotations"):
        one, two = part.group(group), whole.group(group)
        rows = [
            [
                (int(s), int(d), trace.text(int(n)), trace.tracks[int(t)].stream)
                for s, d, n, t in zip(
                    events.start_ns, events.dur_ns, events.name, events.track, strict=True
                )
            ]
            for trace, events in ((part, one), (whole, two))
        ]
        if rows[0] != rows[1] or not rows[0]:
            return False
    return True


@pytest.mark.parametrize("name", MERGES)
def test_a_merge_is_split_into_the_ranks_that_it_holds(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "all.json", merged(MERGES[name]))

    parts = read_ranks(path)

    assert [part.rank for part in parts] == list(range(WORLD))
    assert [part.source.part for part in parts] == list(range(WORLD))
    assert {part.source.parts for part in parts} == {WORLD}
    for rank, part in enumerate(parts):
        whole = read_kineto(write(tmp_path / "one.json", document(rank_events(rank))))
        assert alike(part, whole)
        gpu = part.group("gpu")
        calls = [row for row in gpu.args.tolist() if row >= 0]
        assert len(calls) == len(gpu) // 2  # each all-reduce has the metadata of its own call


def test_events_in_order_of_time_are_told_apart_as_well(tmp_path: Path) -> None:
    content = merged(with_offset)
    content["traceEvents"].sort(key=lambda event: event.get("ts", 0))

    assert [part.rank for part in read_ranks(write(tmp_path / "a.json", content))] == [0, 1, 2, 3]


def test_a_rank_stated_for_the_file_is_not_that_of_each_of_its_ranks(tmp_path: Path) -> None:
    path = write(tmp_path / "all.json", merged(with_offset, rank=0))

    assert [part.rank for part in read_ranks(path)] == [0, 1, 2, 3]


def test_ranks_of_a_second_host_are_numbered_by_their_groups(tmp_path: Path) -> None:
    events = []
    for number in range(WORLD):
        for event in rank_events(number, members=range(4, 8)):
            with_offset(event, number)
            events.append(event)

    parts = read_ranks(write(tmp_path / "host1.json", document(events)))

    assert [part.rank for part in parts] == [4, 5, 6, 7]


def test_some_ranks_of_a_job_keep_the_numbers_of_their_devices(tmp_path: Path) -> None:
    parts = read_ranks(write(tmp_path / "two.json", merged(with_offset, (1, 2))))

    assert [part.rank for part in parts] == [1, 2]


def test_one_process_with_several_devices_is_one_rank_and_says_so(tmp_path: Path) -> None:
    events = []
    for number in range(2):
        for event in rank_events(number):
            if "correlation" in event["args"]:
                event["args"]["correlation"] += 1000 * number
            if event["pid"] >= 4000:
                event["pid"], event["tid"] = 4000, 4000 + number
            if not (number and event["name"].startswith("ProfilerStep")):
                events.append(event)

    (only,) = read_ranks(write(tmp_path / "dp.json", document(events)))

    assert [note.code for note in only.notes] == [SEVERAL_DEVICES]
    assert "devices 0 and 1" in only.notes[0].message
    assert len(only.group("gpu")) == 12


def test_streams_of_one_device_are_joined_whatever_pid_their_rows_have(tmp_path: Path) -> None:
    events = rank_events(0)
    for number, event in enumerate(e for e in events if e.get("cat") == "kernel"):
        event["pid"] = f"row {number}"

    (only,) = read_ranks(write(tmp_path / "odd.json", document(events)))

    assert [t.stream for t in only.tracks if t.kind == "stream"] == [7, 8]


def test_a_process_without_work_does_not_make_a_file_a_merge(tmp_path: Path) -> None:
    events = rank_events(0)
    marks = [e for e in events if e.get("cat") == "user_annotation"]
    for event in marks:
        event["pid"] = 9000

    (only,) = read_ranks(write(tmp_path / "steps.json", document(events, 3)))

    assert (only.rank, len(only.group("annotations"))) == (3, len(marks))


def one_process_number(event: Event, rank: int) -> None:
    """Give the hosts of all ranks the number 83, as in containers."""
    if event["pid"] >= 4000:
        event["pid"] = event["tid"] = 83


def one_device(event: Event, rank: int) -> None:
    """Let ranks of several hosts keep device 0."""
    if event["pid"] < 4000:
        event["pid"] = 0
    if "device" in event["args"]:
        event["args"]["device"] = 0


@pytest.mark.parametrize(
    ("rename", "text"),
    [
        (one_process_number, "under one process number"),
        (one_device, "not known which of them used device 0"),
    ],
)
def test_ranks_that_cannot_be_told_apart_are_refused(
    rename: Rename, text: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "all.json", merged(rename))

    with pytest.raises(TraceError, match=text):
        read_ranks(path)


@pytest.mark.parametrize("block", [64, 300, 1000, 4096, 8192])
@pytest.mark.parametrize("appends", [True, False])
def test_two_processes_that_wrote_into_one_file_are_refused(
    block: int, appends: bool, tmp_path: Path
) -> None:
    texts = [json.dumps(document(rank_events(rank, steps=8), rank), indent=1) for rank in (0, 1)]
    pieces = []
    for number, at in enumerate(range(0, max(map(len, texts)), block)):
        both = [text[at : at + block] for text in texts]
        pieces += both if appends else [both[number % 2]]
    path = tmp_path / "trace.json"
    path.write_text("".join(pieces))

    with pytest.raises(TraceError, match=r"ranks wrote into this file.*one file per rank"):
        read_ranks(path)


def test_whole_documents_one_after_the_other_are_ranks(tmp_path: Path) -> None:
    path = tmp_path / "appended.json"
    path.write_text("\n".join(json.dumps(document(rank_events(r), r)) for r in (2, 0)))

    parts = read_ranks(path)

    assert [part.rank for part in parts] == [2, 0]
    assert not any(part.notes for part in parts)


def test_a_document_of_the_same_rank_behind_another_is_no_second_rank(tmp_path: Path) -> None:
    path = tmp_path / "appended.json"
    path.write_text(2 * json.dumps(document(rank_events(1), 1)))

    (only,) = read_ranks(path)

    assert [note.code for note in only.notes] == ["trailing_data"]


def test_a_merge_that_is_cut_off_keeps_the_ranks_before_the_cut(tmp_path: Path) -> None:
    text = json.dumps(merged(with_offset))
    path = tmp_path / "cut.json"
    path.write_text(text[: len(text) * 6 // 10])

    parts = read_ranks(path)

    assert [part.rank for part in parts] == [0, 1, 2]
    assert all(part.truncated for part in parts)
