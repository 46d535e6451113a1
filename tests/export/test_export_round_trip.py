"""An export for Perfetto that is read again gives every metric as the job that it was made from."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs, to_builtins

import ccltui
from ccltui.demo import Spec, Straggler, write_job
from ccltui.export.perfetto_trace import DEVICE_GROUPS, perfetto_trace
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.columns import GROUPS, UNTIMED, Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.formats import read_event_record
from ccltui.parsers.job import Job, open_job

LATE = Straggler(rank=1, cause="compute", extra_ns=3_000_000, steps=(1,))
SMALL: dict[str, Any] = {"steps": 3, "layers": 2, "stragglers": (LATE,), "gpus_per_node": 2}
JOBS = {
    "drifting clocks": Spec(**SMALL, clock_drifts_ppb=(0, 900)),
    "experts": Spec(**SMALL, experts=True, pp=1),
    "python frames": Spec(**SMALL, tp=1, dp_shard=4, pp=1, with_python=True, with_sync_rows=True),
    "old metadata": Spec(**SMALL, metadata="no_seq", tp=4, dp_shard=1, pp=1),
    "rccl": Spec(**SMALL, library="rccl", layout="one_line"),
}


def exported(job: Job, path: Path, **options: Any) -> Path:
    path.write_bytes(b"".join(perfetto_trace(View(job), **options)))
    return path


def answers(path: Path) -> dict[str, Any]:
    """All metrics, without the names of files that they were computed from."""
    found = {}
    for name, result in ccltui.open(path).metrics().items():
        document = to_builtins(result, enc_hook=str)
        document["inputs"] = {k: v for k, v in document["inputs"].items() if k != "files"}
        found[name] = document
    return found


@pytest.mark.parametrize("name", JOBS)
def test_every_metric_is_equal(name: str, tmp_path: Path) -> None:
    directory = tmp_path / "job"
    write_job(directory, JOBS[name])
    again = tmp_path / "again"
    again.mkdir()
    shutil.copy(directory / "workload_card.yaml", again)
    exported(open_job(directory), again / "job.pftrace")

    expected, found = answers(directory), answers(again)

    assert found.keys() == expected.keys()
    assert [one for one in found if found[one] != expected[one]] == []


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("round") / "job"
    write_job(directory, Spec(**SMALL, pp=1))
    return directory


def test_an_export_of_an_export_is_the_same_file(job: Path, tmp_path: Path) -> None:
    first = exported(open_job(job), tmp_path / "a.pftrace")
    second = exported(open_job(first), tmp_path / "b.pftrace")
    assert second.read_bytes() == first.read_bytes()


def test_an_export_beside_its_traces_is_left_out(job: Path) -> None:
    before = [(one.label, one.source.path) for one in open_job(job).ranks]
    path = exported(open_job(job), job / "all.pftrace")
    try:
        assert [(one.label, one.source.path) for one in open_job(job).ranks] == before
    finally:
        path.unlink()


def test_only_what_is_selected_is_in_it(job: Path, tmp_path: Path) -> None:
    options = ViewOptions(ranks=frozenset((1, 2)))
    path = tmp_path / "some.pftrace"
    path.write_bytes(b"".join(perfetto_trace(View(open_job(job), options))))
    assert [one.rank for one in open_job(path).ranks] == [1, 2]


def test_hosts_are_left_out_on_demand(job: Path, tmp_path: Path) -> None:
    path = exported(open_job(job), tmp_path / "device.pftrace", groups=DEVICE_GROUPS)
    groups = {group for one in open_job(path).ranks for group in one.events}
    assert groups <= {*DEVICE_GROUPS, "gpu_sync", UNTIMED}
    assert groups & set(GROUPS)


def test_single_events_have_no_record_of_all_that_was_stated(job: Path, tmp_path: Path) -> None:
    first = open_job(exported(open_job(job), tmp_path / "a.pftrace")).ranks[0]
    with pytest.raises(TraceError, match="no record of single events"):
        read_event_record(first, "gpu", 0)


def test_an_export_that_is_cut_gives_the_ranks_before(job: Path, tmp_path: Path) -> None:
    path = exported(open_job(job), tmp_path / "a.pftrace")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    found = open_job(path)
    labels = [one.label for one in found.ranks]
    assert labels == ["0", "1"]
    codes = {note.code for one in found.ranks for note in one.notes}
    assert {"malformed_packet", "truncated_trace"} & codes

    path.write_bytes(data[:400])
    failed = open_job(path)
    assert not failed.ranks
    assert "it ends before the columns of a rank" in str(failed.failures[0].error)


def test_damaged_columns_are_one_clear_line(job: Path, tmp_path: Path) -> None:
    path = exported(open_job(job), tmp_path / "a.pftrace")
    data = bytearray(path.read_bytes())
    at = data.index(b'"rank":3') + 9000  # inside the columns of that rank
    data[at] ^= 0x55
    path.write_bytes(data)
    found = open_job(path)
    assert [one.label for one in found.ranks] == ["0", "1", "2"]
    messages = {note.message for one in found.ranks for note in one.notes}
    assert "the columns of a rank in it are damaged: it is left out" in messages


def test_a_note_on_several_ranks_names_their_file_once(job: Path, tmp_path: Path) -> None:
    whole = open_job(job)
    noted = [
        structs.replace(trace, notes=(Note("assumed", f"{number} sizes were assumed"),))
        for number, trace in enumerate(whole.ranks, 1)
    ]
    path = exported(structs.replace(whole, ranks=tuple(noted)), tmp_path / "a.pftrace")
    warnings = ccltui.open(path).metric("coll_call_num").warnings
    assert [one.count("a.pftrace") for one in warnings if "sizes were assumed" in one] == [1]
