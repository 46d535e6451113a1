"""Ranks handed to another process: the same columns, from the same file."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.ingest.load import Loaded, attach_columns, detach_columns, keep_open, load
from ccltui.parsers.job import Job, start_job
from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.store.column_store import Store
from ccltui.parsers.store.stored_columns import map_columns

TRACE = (
    '{"traceEvents":[{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":5,"dur":2},'
    '{"ph":"X","cat":"kernel","name":"copy","pid":0,"tid":7,"ts":9,"dur":1}],'
    '"distributedInfo":{"rank":3,"world_size":8}}'
)


@pytest.fixture
def stored(tmp_path: Path) -> RankTrace:
    """A rank whose columns are mapped from a store."""
    source = tmp_path / "rank3.json"
    source.write_text(TRACE)
    store = Store(tmp_path / "store")
    key = store.key(source, 1)
    assert store.save(key, read_kineto(source))
    trace = store.load(key)
    assert trace is not None
    return structs.replace(trace, label="3")


def test_the_other_process_has_the_same_rank(stored: RankTrace) -> None:
    handed = detach_columns(stored)
    assert handed is not None
    sent = pickle.loads(pickle.dumps(handed))

    taken = attach_columns(sent, map_columns(sent.place))

    assert taken.group("gpu").start_ns.tolist() == [5000, 9000]
    assert [taken.text(name) for name in taken.group("gpu").name.tolist()] == ["gemm", "copy"]
    assert (taken.rank, taken.label, taken.world_size) == (3, "3", 8)
    assert taken.place == stored.place


def test_no_column_travels(stored: RankTrace) -> None:
    handed = detach_columns(stored)

    assert handed is not None
    assert handed.facts.events == {}
    assert len(handed.facts.strings) == 0


def test_a_base_time_that_others_told_is_added_again(stored: RankTrace) -> None:
    gpu = stored.events["gpu"]
    moved = structs.replace(
        stored,
        events={"gpu": gpu.with_columns(start_ns=gpu.start_ns + 7)},
        base_ns=7,
        added_ns=7,
    )

    handed = detach_columns(moved)
    assert handed is not None
    taken = attach_columns(handed, map_columns(handed.place))

    assert taken.group("gpu").start_ns.tolist() == [5007, 9007]
    assert taken.added_ns == 7


def test_columns_in_no_file_cannot_be_handed_over(tmp_path: Path) -> None:
    source = tmp_path / "rank3.json"
    source.write_text(TRACE)

    assert detach_columns(read_kineto(source)) is None
    assert keep_open(read_kineto(source)).place is None


def test_a_file_that_is_held_open_can_be_mapped_when_its_name_is_gone(stored: RankTrace) -> None:
    kept = keep_open(stored)
    assert kept.place is not None
    assert kept.place.kept is not None
    shutil.rmtree(kept.place.path.parent)
    handed = detach_columns(kept)
    assert handed is not None

    taken = attach_columns(handed, map_columns(handed.place, kept.place.kept.descriptor))

    assert taken.group("gpu").dur_ns.tolist() == [2000, 1000]
    with pytest.raises(FileNotFoundError):
        map_columns(handed.place)


def test_a_descriptor_is_closed_with_the_rank_that_holds_it(stored: RankTrace) -> None:
    kept = keep_open(stored)
    assert kept.place is not None
    assert kept.place.kept is not None
    descriptor = kept.place.kept.descriptor
    os.fstat(descriptor)

    del kept

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_file_that_has_changed_is_not_mapped(stored: RankTrace) -> None:
    assert stored.place is not None
    with stored.place.path.open("ab") as file:
        file.write(b"more")

    with pytest.raises(ValueError, match="columns"):
        map_columns(stored.place)


def test_columns_that_the_cache_cannot_take_are_held_open(tmp_path: Path) -> None:
    """They were written to a scratch folder, which is gone once everything is loaded."""
    for rank in (0, 1):
        text = TRACE.replace('"rank":3', f'"rank":{rank}')
        (tmp_path / f"rank{rank}.json").write_text(text)
    blocked = tmp_path / "cache"
    blocked.write_text("a file where the cache should be")
    capture = start_job(tmp_path).capture

    events = list(load(capture, cache_dir=blocked, jobs=1))

    traces = [event.trace for event in events if isinstance(event, Loaded)]
    assert len(traces) == 2
    for trace in traces:
        assert trace.place is not None
        assert trace.place.kept is not None
        assert not trace.place.path.exists()
        columns = map_columns(trace.place, trace.place.kept.descriptor)
        np.testing.assert_array_equal(columns.events["gpu"].start_ns, [5000, 9000])


def test_a_job_in_which_a_rank_lost_its_base_hands_over_corrected_times(tmp_path: Path) -> None:
    """The shift that `ccltui.parsers.job` makes is told with the rank."""
    base = 1_700_000_000_000_000_000
    whole = TRACE[:-1] + f',"baseTimeNanoseconds":{base}}}'
    (tmp_path / "rank0.json").write_text(whole.replace('"rank":3', '"rank":0'))
    (tmp_path / "rank3.json").write_text(TRACE.partition('],"distributedInfo"')[0])
    capture = discover(tmp_path).choose()
    job = Job(str(tmp_path), discover(tmp_path), capture)
    store = tmp_path / "store"
    for _ in range(2):  # the second time from the store
        job = Job(str(tmp_path), discover(tmp_path), capture)
        for event in load(capture, cache_dir=store, inline=True):
            job = job.with_event(event)

    cut = next(trace for trace in job.ranks if trace.truncated)
    handed = detach_columns(cut)
    assert handed is not None
    taken = attach_columns(handed, map_columns(handed.place))

    assert cut.added_ns == base
    assert taken.group("gpu").start_ns.tolist() == [base + 5000, base + 9000]
