"""A format that the parsers do not know is added by one object: found, opened and measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from ccltui.metrics.registry import find
from ccltui.parsers import formats, open_job
from ccltui.parsers.columns import CollectiveArgs, Events, RankTrace, SourceFile, Strings, Track
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.format import Format, Match, Priority, RankInfo, Report, Rule
from ccltui.parsers.text.file_sample import FileSample

HEADER = "plain trace, rank "


def is_plain(sample: FileSample) -> Match | None:
    if sample.text is None or not sample.text.startswith(HEADER):
        return None
    first, _, _ = sample.text.partition("\n")
    return Match(info=RankInfo(rank=int(first.removeprefix(HEADER))))


def read_plain(
    path: Path,
    *,
    shown: str,
    scratch: Sequence[Path] = (),
    progress: Report | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Sequence[RankTrace]:
    """Read lines of category, name, start and end in microseconds."""
    first, *lines = path.read_text().splitlines()
    rows = [line.split() for line in lines]
    texts = list(dict.fromkeys(text for category, name, *_ in rows for text in (category, name)))
    start = np.array([int(begin) * 1000 for *_, begin, _ in rows], np.int64)
    end = np.array([int(end) * 1000 for *_, end in rows], np.int64)
    absent = np.full(len(rows), -1, np.int64)
    events = Events(
        start_ns=start,
        dur_ns=end - start,
        name=np.array([texts.index(name) for _, name, *_ in rows], np.int32),
        category=np.array([texts.index(category) for category, *_ in rows], np.int32),
        track=np.zeros(len(rows), np.int32),
        correlation=absent,
        external_id=absent,
        args=absent.astype(np.int32),
        bytes=absent,
    )
    stat = path.stat()
    source = SourceFile(shown, str(path), stat.st_size, stat.st_mtime_ns, format="plain")
    rank = int(first.removeprefix(HEADER))
    trace = RankTrace(
        source=source,
        rank=rank,
        rank_source="file name",
        strings=Strings.of(texts),
        events={"gpu": events},
        collective_args=CollectiveArgs.empty(),
        tracks=(Track("stream", "0", "7", device=rank, stream=7),),
    )
    return (trace,)


PLAIN = Format(
    kind="plain_trace",
    description="one line for each kernel",
    sniff=(Rule(Priority.TEXT_CONTENT, is_plain),),
    source="torch",
    read=read_plain,
    version=1,
    family="plain",
    rank_in_name=True,
)

KERNELS = """kernel gemm {} {}
kernel ncclDevKernel_AllReduce_Sum_f32_RING_LL {} 300
kernel gemm 300 350
kernel ncclDevKernel_AllReduce_Sum_f32_RING_LL 350 400
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, PLAIN))
    folder = tmp_path / "job"
    folder.mkdir()
    for rank, late in ((0, 100), (1, 200)):
        text = f"{HEADER}{rank}\n" + KERNELS.format(0, late, late)
        (folder / f"{'ab'[rank]}.txt").write_text(text)
    return folder


def test_its_files_are_recognised_and_form_a_capture(directory: Path) -> None:
    discovery = discover(directory)

    assert [(file.kind, file.rank) for file in discovery.files] == [
        ("plain_trace", 0),
        ("plain_trace", 1),
    ]
    assert discovery.files[0].format is PLAIN
    assert [capture.ranks for capture in discovery.captures] == [(0, 1)]


def test_its_columns_are_read_and_stored(directory: Path, tmp_path: Path) -> None:
    first = open_job(directory, cache_dir=tmp_path / "cache")
    second = open_job(directory, cache_dir=tmp_path / "cache")

    assert not first.failures
    for job in (first, second):
        assert [trace.rank for trace in job.ranks] == [0, 1]
        assert job.ranks[1].group("gpu").dur_ns.tolist() == [200_000, 100_000, 50_000, 50_000]


def test_metrics_are_computed_of_it(directory: Path) -> None:
    details = find("coll_call_num").document_of(directory)

    assert details["calls_by_type"] == {
        **dict.fromkeys(details["calls_by_type"], 0),
        "AllReduce": 4,
    }


def test_without_its_line_its_files_are_no_traces(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "FORMATS", formats.FORMATS[:-1])

    assert [file.kind for file in discover(directory).files] == ["text", "text"]


def test_kinds_are_unique_and_readers_have_a_version() -> None:
    kinds = [one.kind for one in formats.FORMATS]

    assert len(set(kinds)) == len(kinds)
    assert all(one.description and one.sniff for one in formats.FORMATS)
    assert all(one.version and one.family and one.source for one in formats.FORMATS if one.read)


def test_the_package_offers_what_opens_a_job() -> None:
    from ccltui import parsers
    from ccltui.parsers.job import Job

    assert parsers.open_job is open_job
    assert parsers.Job is Job
    assert parsers.RankTrace is RankTrace
    with pytest.raises(AttributeError, match="open_jobs"):
        _ = parsers.open_jobs
    done = subprocess.run(
        [sys.executable, "-c", "import sys, ccltui.parsers; print('numpy' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"
