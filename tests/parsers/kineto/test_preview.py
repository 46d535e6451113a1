"""Test previews of large traces: events of the file, a share below 1, not stored."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.ingest.load import Failed, LoadEvent, Previewed, Progress, load
from ccltui.parsers.job import open_job, start_job
from ccltui.parsers.kineto.kineto_reader import read_kineto, read_preview
from ccltui.parsers.store.column_store import Store

PIECE = 8000
BASE_NS = 1_700_000_000_000_000_000


def event(category: str, number: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": category,
        "name": f"{category}{number % 5}",
        "pid": 0,
        "tid": 7,
        "ts": 10 * number,
        "dur": 1 + number % 3,
        "noise": hashlib.sha256(b"%d" % number).hexdigest(),
        "args": {"correlation": number + 1, "nested": [{"a": 1}, {"b": 2}]},
    }


def written(path: Path, events: Sequence[dict[str, Any]], rank: int = 3, **rest: Any) -> Path:
    document = {
        "distributedInfo": {"rank": rank, "world_size": 4},
        "traceEvents": events,
        "baseTimeNanoseconds": BASE_NS,
        **rest,
    }
    path.write_text(json.dumps(document))
    return path


def host_then_device(events: int = 2000) -> list[dict[str, Any]]:
    return [event(kind, n) for kind in ("cpu_op", "kernel") for n in range(events)]


def facts(trace: RankTrace) -> set[tuple[object, ...]]:
    return {
        (group, trace.text(name), start, duration, correlation)
        for group, rows in trace.events.items()
        for name, start, duration, correlation in zip(
            rows.name.tolist(),
            rows.start_ns.tolist(),
            rows.dur_ns.tolist(),
            rows.correlation.tolist(),
            strict=True,
        )
    }


def test_preview_has_host_and_device_events(tmp_path: Path, decoder: str) -> None:
    assert decoder
    path = written(tmp_path / "a.json", host_then_device())

    trace = read_preview(path, shown="a.json", piece_bytes=PIECE)

    assert trace is not None
    assert (trace.rank, trace.world_size, trace.base_ns) == (3, 4, BASE_NS)
    assert (trace.truncated, trace.notes) == (False, ())
    assert 0.01 < trace.read_share < 0.02
    assert trace.first_ns == BASE_NS
    assert trace.group("cpu_ops").start_ns[:3].tolist() == [BASE_NS + 10_000 * n for n in range(3)]
    assert len(trace.group("gpu")) > 10
    assert trace.group("gpu").start_ns[0] < BASE_NS + 10_000 * 10
    assert facts(trace) < facts(read_kineto(path))


@settings(max_examples=60, deadline=None)
@given(
    kinds=st.lists(
        st.sampled_from(["cpu_op", "kernel", "python_function"]), min_size=1, max_size=80
    ),
    piece=st.integers(1, 9000),
    indent=st.sampled_from([None, 1, 4]),
)
def test_events_of_a_preview_are_in_the_file(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str], piece: int, indent: int | None
) -> None:
    path = tmp_path_factory.mktemp("look") / "a.json"
    events = [event(kind, number) for number, kind in enumerate(kinds)]
    path.write_text(json.dumps({"traceEvents": events}, indent=indent))

    trace = read_preview(path, shown="a.json", piece_bytes=piece)

    assert trace is None or (trace.read_share < 1 and facts(trace) <= facts(read_kineto(path)))


def test_preview_of_a_compressed_file_is_its_head(tmp_path: Path) -> None:
    plain = written(tmp_path / "a.json", host_then_device(20_000))
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes(), 1))

    trace = read_preview(packed, shown="a.json.gz", piece_bytes=100_000)

    assert trace is not None
    assert trace.rank == 3
    assert 0 < trace.read_share < 0.9
    assert trace.notes == ()
    assert facts(trace) < {(*f[:2], f[2] - BASE_NS, *f[3:]) for f in facts(read_kineto(packed))}  # type: ignore[operator]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}" * 20_000,
        b"<html>" * 20_000,
        b"\xff\x00" * 40_000,
        b'{"traceEvents": "' + b"x" * 90_000 + b'"}',
        b'{"deviceProperties": [' + b"{}, " * 30_000,
        json.dumps({"traceEvents": [event("cpu_op", 1)]}).encode(),
    ],
)
def test_files_without_a_preview(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text)

    assert read_preview(path, shown="a.json", piece_bytes=PIECE) is None


# Through the processes that read


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    events = host_then_device(15_000)
    for rank in range(2):
        written(folder / f"rank{rank}.json", events, rank)
    return folder


@pytest.fixture
def job(two_ranks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("ccltui.parsers.ingest.load._LONG_BYTES", 1000)
    return shutil.copytree(two_ranks, tmp_path / "job")


def told(events: Sequence[LoadEvent]) -> list[str]:
    return [type(e).__name__ for e in events if not isinstance(e, Progress)]


def test_previews_come_first_and_whole_ranks_replace_them(job: Path, tmp_path: Path) -> None:
    now = start_job(job)
    events = list(load(now.capture, cache_dir=tmp_path / "cache", jobs=1, previews=True))

    assert told(events) == ["Previewed", "Previewed", "Loaded", "Loaded"]
    glimpse = next(e for e in events if isinstance(e, Previewed))
    assert 0 < glimpse.trace.read_share < 0.9
    assert not glimpse.trace.group("gpu").start_ns.flags.writeable  # mapped, not sent
    shares = []
    for one in events:
        now = now.with_event(one)
        shares.append([trace.read_share for trace in now.ranks])
    assert [trace.label for trace in now.ranks] == ["0", "1"]
    assert shares[-1] == [1.0, 1.0]
    assert any(share < 1 for share in shares[-2] + shares[0] + shares[1] + shares[2])
    again = list(load(now.capture, cache_dir=tmp_path / "cache", previews=True))
    assert told(again) == ["Loaded", "Loaded"]


def test_only_the_first_of_many_ranks_have_previews(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ccltui.parsers.ingest.load._MOST_PREVIEWS", 1)
    written(job / "rank1.json", host_then_device(16_000), 1)  # the largest is read first
    now = start_job(job)

    events = load(now.capture, cache_dir=tmp_path / "cache", jobs=1, previews=True)

    assert [(type(e).__name__, e.path) for e in events if not isinstance(e, Progress)] == [
        ("Previewed", "rank0.json"),
        ("Loaded", "rank1.json"),
        ("Loaded", "rank0.json"),
    ]


def test_other_callers_get_no_preview(job: Path, tmp_path: Path) -> None:
    events = list(load(start_job(job).capture, cache_dir=tmp_path / "other", jobs=1))
    ranks = open_job(job, cache_dir=tmp_path / "cache").ranks

    assert "Previewed" not in told(events)
    assert [trace.read_share for trace in ranks] == [1.0, 1.0]


def test_cancelling_after_a_preview_leaves_nothing_in_the_cache(job: Path, tmp_path: Path) -> None:
    stop = threading.Event()
    now = start_job(job)
    cache = tmp_path / "cache"

    for one in load(now.capture, cache_dir=cache, jobs=1, cancelled=stop.is_set, previews=True):
        now = now.with_event(one)
        if isinstance(one, Previewed):
            stop.set()

    assert [trace.read_share < 1 for trace in now.ranks] == [True]
    assert len(now.ranks[0].group("gpu")) > 10  # its file is gone, its columns are not
    for found in now.capture.files:
        path = Path(found.real_path)
        assert all(Store(cache).load(Store(cache).key(path, n)) is None for n in range(20))


def test_preview_of_an_unreadable_file_is_removed(job: Path) -> None:
    now = start_job(job)
    path = job / "rank0.json"
    trace = read_preview(path, shown="rank0.json", piece_bytes=PIECE)
    assert trace is not None

    begun = now.with_event(Previewed("rank0.json", trace))
    failed = begun.with_failure(Failed("rank0.json", "rank0.json: gone"))

    assert [rank.label for rank in begun.ranks] == ["0"]
    assert failed.ranks == ()
    assert begun.with_failure(Failed("rank1.json", "gone")).ranks == begun.ranks


def test_preview_without_a_base_time_takes_that_of_other_ranks(job: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.json.gz"
    bare.write_bytes(gzip.compress((job / "rank0.json").read_bytes(), 1))
    trace = read_preview(bare, shown="rank0.json", piece_bytes=100_000)
    assert trace is not None
    assert trace.base_ns == 0

    whole = read_kineto(job / "rank1.json", shown="rank1.json")
    ranks = start_job(job).with_rank(trace).with_rank(whole).ranks

    assert [rank.first_ns for rank in ranks] == [BASE_NS, BASE_NS]
