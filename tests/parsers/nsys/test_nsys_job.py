"""Test nsys files as a job: parts, ranks, captures of two profilers, the column store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nsys_exports import COMMUNICATOR, SECRET, Export

from ccltui.parsers.errors import NotFoundError
from ccltui.parsers.ingest.load import Failed, Loaded, load
from ccltui.parsers.job import Job, open_job, start_job

UTC = 1_700_000_000_000_000_000


def node(path: Path, *, first_rank: int | None, start_utc_ns: int = UTC, world: int = 4) -> Path:
    """Write two processes with a device each; without ranks if ``first_rank`` is None."""
    path.parent.mkdir(parents=True, exist_ok=True)
    export = Export(start_utc_ns=start_utc_ns, host=path.stem)
    for index in (0, 1):
        process = export.process(100 + index)
        process.kernel("gemm", 10, 20, device=index)
        if first_rank is not None:
            process.nccl(first_rank + index, world)
    return export.write(path)


def kineto(path: Path, rank: int, *, with_device: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    category = "kernel" if with_device else "cpu_op"
    event = {"ph": "X", "cat": category, "name": "gemm", "pid": 0, "tid": 7, "ts": 1, "dur": 1}
    info = {"rank": rank, "world_size": 2}
    path.write_text(json.dumps({"traceEvents": [event], "distributedInfo": info}))
    return path


def ranks(job: Job) -> list[tuple[str, int | None, str]]:
    return [(t.label, t.rank, t.rank_source) for t in job.ranks]


def sources(job: Job) -> list[str]:
    return [f"{t.source.path} {t.source.part}" for t in job.ranks]


def test_files_of_several_nodes_are_one_job(tmp_path: Path) -> None:
    node(tmp_path / "node1.sqlite", first_rank=2, start_utc_ns=UTC + 500)
    node(tmp_path / "node0.sqlite", first_rank=0)

    job = open_job(tmp_path)

    assert ranks(job) == [(str(r), r, "NCCL payload") for r in range(4)]
    assert sources(job) == ["node0.sqlite 0", "node0.sqlite 1", "node1.sqlite 0", "node1.sqlite 1"]
    assert (job.world_size, tuple(job.missing_ranks)) == (4, ())
    assert [t.host for t in job.ranks] == ["node0", "node0", "node1", "node1"]
    # Every process created its communicator at 0 of its session: on one axis, by UTC.
    assert [t.first_ns for t in job.ranks] == [UTC, UTC, UTC + 500, UTC + 500]
    assert {t.process_groups[0].name for t in job.ranks} == {hex(COMMUNICATOR)}


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "workers"])
def test_all_parts_are_restored_from_the_cache(tmp_path: Path, inline: bool) -> None:
    node(tmp_path / "a" / "node0.sqlite", first_rank=0, world=2)
    capture = start_job(tmp_path / "a").capture

    passes = [
        [e for e in load(capture, cache_dir=tmp_path / "c", inline=inline) if isinstance(e, Loaded)]
        for _ in range(2)
    ]

    assert [[e.cached for e in events] for events in passes] == [[False] * 2, [True] * 2]
    assert [[e.trace.rank for e in events] for events in passes] == [[0, 1], [0, 1]]
    assert [e.trace.source.part_name for e in passes[1]] == ["GPU 0", "GPU 1"]
    stored = b"".join(f.read_bytes() for f in (tmp_path / "c").rglob("*") if f.is_file())
    assert SECRET.encode() not in stored


def test_a_lost_part_is_read_again(tmp_path: Path) -> None:
    node(tmp_path / "a" / "node0.sqlite", first_rank=0, world=2)
    cache = tmp_path / "c"
    open_job(tmp_path / "a", cache_dir=cache)
    (lost,) = cache.glob("*-1")
    for file in lost.iterdir():
        file.unlink()
    lost.rmdir()

    job = open_job(tmp_path / "a", cache_dir=cache)

    assert [t.rank for t in job.ranks] == [0, 1]
    assert lost.is_dir()


def test_devices_of_the_only_file_are_ranks_in_their_order_as_a_guess(tmp_path: Path) -> None:
    path = node(tmp_path / "a" / "run.sqlite", first_rank=None)

    assert ranks(open_job(path)) == [
        ("0", 0, "order of devices"),
        ("1", 1, "order of devices"),
    ]


def test_devices_of_several_files_without_ranks_have_none(tmp_path: Path) -> None:
    node(tmp_path / "after.sqlite", first_rank=None)
    node(tmp_path / "before.sqlite", first_rank=None)

    assert ranks(open_job(tmp_path)) == [
        ("after.sqlite GPU 0", None, "none"),
        ("after.sqlite GPU 1", None, "none"),
        ("before.sqlite GPU 0", None, "none"),
        ("before.sqlite GPU 1", None, "none"),
    ]


def test_the_name_of_a_file_names_the_rank_of_its_only_device(tmp_path: Path) -> None:
    for rank in (0, 1):
        export = Export()
        export.process(100).kernel("gemm", 10, 20)
        export.write(tmp_path / f"report_rank{rank}.sqlite")

    assert ranks(open_job(tmp_path)) == [("0", 0, "file name"), ("1", 1, "file name")]
    mapped = open_job(tmp_path, rank_map={"report_rank0.sqlite": 7})
    assert ("7", 7, "rank map") in ranks(mapped)


def test_kineto_is_preferred_where_it_recorded_the_device(tmp_path: Path) -> None:
    node(tmp_path / "node0.sqlite", first_rank=0, world=2)
    kineto(tmp_path / "rank0_trace.json", 0)
    kineto(tmp_path / "rank1_trace.json", 1)

    auto, torch, nsys = (open_job(tmp_path, profile_mode=m) for m in ("auto", "torch", "nsys"))

    assert [t.source.format for t in auto.ranks] == ["kineto"] * 2
    assert [t.source.format for t in torch.ranks] == ["kineto"] * 2
    assert [t.source.format for t in nsys.ranks] == ["nsys"] * 2
    (note,) = [note for note in auto.notes if note.code == "two_profilers"]
    assert "the Kineto traces answer" in note.message
    (note,) = [note for note in nsys.notes if note.code == "two_profilers"]
    assert "the files of nsys answer" in note.message


def test_nsys_is_preferred_where_kineto_recorded_only_the_host(tmp_path: Path) -> None:
    node(tmp_path / "node0.sqlite", first_rank=0, world=2)
    kineto(tmp_path / "rank0_trace.json", 0, with_device=False)

    assert [t.source.format for t in open_job(tmp_path).ranks] == ["nsys"] * 2
    torch = open_job(tmp_path, profile_mode="torch")
    assert [t.source.format for t in torch.ranks] == ["kineto"]


def test_a_mode_without_files_is_an_empty_job_and_a_name_is_an_error(tmp_path: Path) -> None:
    kineto(tmp_path / "rank0_trace.json", 0)

    job = open_job(tmp_path, profile_mode="nsys")

    assert (job.ranks, job.failures, job.capture.source) == ((), (), "nsys")
    with pytest.raises(NotFoundError):
        open_job(tmp_path, profile_mode="nsys", capture="x")


def test_damaged_export_does_not_affect_the_others(tmp_path: Path) -> None:
    node(tmp_path / "node0.sqlite", first_rank=0)
    bad = node(tmp_path / "node1.sqlite", first_rank=2)
    page, data = 4096, bad.read_bytes()
    bad.write_bytes(data[: 4 * page] + b"\xff" * (len(data) - 4 * page))

    job = open_job(tmp_path)

    assert [t.rank for t in job.ranks] == [0, 1]
    (failure,) = job.failures
    assert isinstance(failure, Failed)
    assert failure.error == (
        "node1.sqlite: cannot be read as an nsys export (database disk image is malformed)"
    )


def test_a_job_of_iterations_keeps_them_apart(tmp_path: Path) -> None:
    for iteration in (5, 6):
        node(tmp_path / f"iteration_{iteration}" / "node0.sqlite", first_rank=0, world=2)

    job = start_job(tmp_path)

    assert [(c.name, c.source) for c in job.discovery.captures] == [
        ("iteration_5", "nsys"),
        ("iteration_6", "nsys"),
    ]
    assert job.capture.name == "iteration_6"
