"""Content decides what a file is; its name is only a hint."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import sqlite3
import tarfile
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard
from found_files import by_path, put, trace_text

from ccltui.parsers.discovery.discover import FoundFile, discover

TRACE = trace_text(0, 1)
CARD = "workload:\n  model: {phase: training}\nmetric_source:\n  traces: [json]\n"


def only(root: Path, name: str, content: bytes | str) -> FoundFile:
    (root / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (found,) = discover(root).files
    return found


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.json", TRACE, "kineto"),
        ("no_suffix", TRACE, "kineto"),
        ("looks_like.log", TRACE, "kineto"),
        ("memory_snapshot_summary_metadata.json", TRACE, "kineto"),
        ("a.json", b"\xef\xbb\xbf" + TRACE, "kineto"),
        ("a.json", b"\n\n " + TRACE, "kineto"),
        ("a.json", b'[\n\n {"ph":"X","name":"a","ts":0,"dur":1,"pid":0,"tid":0}\n]', "kineto"),
        ("a.json", b'[{"name":"a","cat":"init","ts":0,"args":{"x":[1,{}]}}]', "kineto"),
        ("a.json", b'{"traceEvents":[', "kineto"),
        ("a.json", b'{"schemaVersion":1,"deviceProperties":[{"id":0', "kineto"),
        ("a.json", b'{"x":NaN,"traceEvents":[]}', "kineto"),
        ("a.json", b'{"metadata":{"traceEvents":5,"s":"}"},"traceEvents":[]}', "kineto"),
        (
            "a.pt.trace.json",
            b'{"schema":"1.1.1-chakra.0.0.4","pid":1,"nodes":[]}',
            "execution_trace",
        ),
        ("torch_et_0.json", b'{"schema": "1.0.1", "pid": 7, "start_ts": 1,', "execution_trace"),
        ("card.yaml", CARD, "workload_card"),
        ("x.yml", "metric_source:\n  traces: [nsys]\n", "workload_card"),
        ("workload_card.yaml", "description: X: y\n", "workload_card"),
        ("b.yaml", "timestamp: 2025\nhostname: n1\nresults:\n  CPU:\n", "cluster_benchmark"),
        ("t.json", '{"schema_version": "2.0", "epochs": []}', "training_metrics"),
        ("training_metrics.json", '{"world_size": 2, "losses": [1]}', "training_metrics"),
        ("t.json", '{"train_time_per_epoch": [1.0]}', "training_metrics"),
        ("training_metrics.json", '{"schema_version": "2.0", "epo', "training_metrics"),
        ("s.jsonl", '{"step": 1, "loss": 2.0, "step_time_sec": 0.1}\n{"st', "step_log"),
        ("training_steps.jsonl", '{"step": 1}\n', "step_log"),
        ("l.json", '{"rank0_host": "a", "slurm": {}}', "launcher_metadata"),
        ("launcher_metadata.json", '{"host": "vm"}', "launcher_metadata"),
        (
            "RUN_COMPLETE.txt",
            "[Rank 0] RUN_COMPLETE checkpoint_path=/c world_size=8 tokens_per_sec=1.5",
            "run_complete",
        ),
        ("RUN_COMPLETE.txt", "world_size=2\ntokens_per_sec=1.5\n", "run_complete"),
        (  # a short log that ends with the same line
            "train.log",
            "step: 2  loss: 5.5\n[Rank 0] RUN_COMPLETE checkpoint_path=/c world_size=8\n",
            "training_log",
        ),
        ("topo.txt", "\x1b[4mGPU0\x1b[0m\tGPU1\n", "gpu_topology"),
        ("t", "\t\x1b[4mGPU0\tGPU1\x1b[0m\nGPU0\t X \tNV2\nGPU1\tNV2\t X \n", "gpu_topology"),
        ("topo.txt", "nothing to see", "gpu_topology"),
        ("gpu_count.txt", "4\n", "run_metadata"),
        ("ib", "CA 'mlx5_0'\n\tCA type: MT4119\n", "ib_status"),
        ("nccl_topo.xml", '<system version="1">\n', "nccl_topology"),
        ("x", '<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY b "c">]><system>', "nccl_topology"),
        ("o.txt", "#       size         count      type   redop    root\n", "nccl_tests"),
        ("o.txt", "# nccl-tests version 2.17.6 nccl-headers=22501\n", "nccl_tests"),
        ("out", "[rank0]:\x1b[31mstep:  1  loss: 12.2\x1b[0m\n", "training_log"),
        ("out", " iteration       10/    1000 | consumed samples: 1 |\n", "training_log"),
        ("p.json", '{"hosts": [], "nvtx_top5": []}', "profile_summary"),
        ("bench.jsonl", '{"median_ttft_ms": 1.0}\n', "serving_results"),
        ("q.latency.json", '{"avg_latency": 1, "latencies": [1]}', "serving_results"),
        ("gate_logs_1.json", '{"expert_loads": [[1, 2]]}', "expert_stats"),
        ("moe_stats_rank3.json", '{"model.layers.0.mlp": {}}', "expert_stats"),
        ("timing_stats_0.json", '{"iteration_times": [0.5]}', "timing_stats"),
        ("train.log", "the job begins\n", "log"),
        ("x.err", "anything\n", "log"),
        ("slurm-17.txt", "hello\n", "log"),
        ("stdout.txt", "hello\n", "log"),
        ("a.txt", "2026-01-02 03:04:05 begin\n", "log"),
        ("a.txt", "hello\nTraceback (most recent call last):\n", "log"),
        ("a.txt", "epoch 3: loss=0.25\n", "log"),
        ("requirements.txt", "# since 2.6\ntorch>=2.6\nnumpy\n", "text"),
        ("LICENSE.txt", "Permission is hereby granted, free of charge\n", "text"),
        ("hosts.txt", "node1\nnode2\n", "text"),
        ("weird_name", "n1:12:15 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB\n", "nccl_log"),
        ("s.txt", "Processing [a.sqlite] with [/opt/cuda_gpu_sum.py]... \n", "nsys_text"),
        ("s.log", "[3/7] Executing 'osrt_sum' stats report\n", "nsys_text"),
        ("s.txt", " ** CUDA API Summary (cuda_api_sum):\n", "nsys_text"),
        ("s.csv", "Time (%),Total Time (ns),Instances,Avg (ns),Name\n1,2,3,4,k\n", "nsys_text"),
        ("s.tsv", "Start (ns)\tDuration (ns)\tCorrId\tGrdX\n", "nsys_text"),
        ("t.csv", "Start (ns),Duration (ns),CorrId,Device,Strm,Name\n", "nsys_text_trace"),
        (
            "t.json",
            '[{"Start (us)": 1.0, "Duration (us)": 5, "Device": "A (0)", "Strm": 7, "Name": "k"}]',
            "nsys_text_trace",
        ),
        (
            "s.txt",
            " Time(%)  Total Time (ns)  Instances  Average\n -------  --\n",
            "nsys_text",
        ),
        ("s.json", '[{"Time (%)": 1.0, "Total Time (ns)": 5, "Name": "k"}]', "nsys_text"),
        ("gui.csv", "\ufeffTime,Total Time,Instances\n".encode("utf-16-le"), "nsys_text"),
        ("s.txt", "ERROR: Report 'gpu-kern-summary' could not be found.\n", "nsys_text"),
    ],
)
def test_what_is_of_use(tmp_path: Path, name: str, content: bytes | str, kind: str) -> None:
    found = only(tmp_path, name, content)

    assert (found.kind, found.problem) == (kind, None)


@pytest.mark.parametrize(
    ("name", "content", "kind", "problem"),
    [
        ("a.json", b"", "unknown", "an empty file"),
        ("a.json", b" \n\t\n", "unknown", "nothing but blanks"),
        ("a.json", b"[]", "unknown", "an empty JSON list"),
        ("a.json", b"[[0, 0], [[1, 2]]]", "unknown", "list of lists"),
        ("a.json", b"[1, 2]", "unknown", "not of trace events"),
        ("a.json", b'[{"a": 1}]', "unknown", "not of trace events"),
        ("a.json", b'{"traceEvents": 5}', "unknown", "its traceEvents is not a list"),
        ("a.json", b'{"b": 1, "a": {}}', "unknown", "its keys: b and a"),
        ("a.json", b"{}", "unknown", "its keys: none"),
        ("a.json", b'{"a": 1 "b": 2}', "unknown", "its keys: a and b"),
        ("a.json", b'{"a"; 1}', "unknown", "not valid JSON: it breaks at byte 4"),
        ("a.json", "<!DOCTYPE html><html>404</html>", "unknown", "an HTML page"),
        ("a.json", "version https://git-lfs.github.com/spec/v1\n", "unknown", "git lfs pull"),
        ("readme.md", "# Hello\n", "unknown", "text in no format known here"),
        ("x.yaml", "a: 1\n", "unknown", "not a workload card"),
        ("a.bin", b"\x00\x01\x02\x00", "unknown", "binary data"),
        ("a.nsys-rep", b"\x00\x01\x02\x00", "nsys_report", "nsys export -t sqlite"),
        ("a.qdrep", b"\x00\x01\x02\x00", "nsys_report", "nsys export -t sqlite"),
        ("x.xplane.pb", b"\x0a\x00\x02\x00", "xla_trace", "an XLA profile"),
        ("a.png", b"\x89PNG\r\n\x1a\n\0", "unknown", "an image"),
        ("a.parquet", b"PAR1\0\0", "unknown", "Parquet"),
        ("a.sqlite", b"SQLite format 3\0 damaged", "unknown", "SQLite file that cannot be read"),
        (
            "a.json.gz",
            gzip.compress(gzip.compress(TRACE, mtime=0), mtime=0),
            "archive",
            "compressed twice",
        ),
        ("a.json.gz", b"\x1f\x8b", "unknown", "gzip data ends in the middle"),
        ("a.json.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\3\xff\xff", "unknown", "gzip data is damaged"),
        ("a.json.bz2", bz2.compress(TRACE), "archive", "bzip2"),
        ("a.json.xz", lzma.compress(TRACE), "archive", "xz"),
    ],
)
def test_what_is_not_is_listed_with_the_reason(
    tmp_path: Path, name: str, content: bytes | str, kind: str, problem: str
) -> None:
    found = only(tmp_path, name, content)

    assert found.kind == kind
    assert found.problem is not None
    assert problem in found.problem


def test_compression_by_magic_bytes_not_by_suffix(tmp_path: Path) -> None:
    (tmp_path / "plain.json.gz").write_bytes(TRACE)
    (tmp_path / "zipped.json").write_bytes(gzip.compress(trace_text(1, 4)))
    (tmp_path / "z.json").write_bytes(zstandard.compress(trace_text(2, 4)))
    halves = trace_text(3, 4)
    members = gzip.compress(halves[:40]) + gzip.compress(halves[40:])
    (tmp_path / "members.json.gz").write_bytes(members)

    found = by_path(discover(tmp_path))

    assert {name: (f.compression, f.rank) for name, f in found.items()} == {
        "plain.json.gz": ("none", 0),
        "zipped.json": ("gzip", 1),
        "z.json": ("zstd", 2),
        "members.json.gz": ("gzip", 3),
    }
    assert {f.kind for f in found.values()} == {"kineto"}


def test_a_cut_gzip_file_is_still_a_trace(tmp_path: Path) -> None:
    whole = gzip.compress(trace_text(5, 8) + b" " * 1000)

    found = only(tmp_path, "a.json.gz", whole[:-12])

    assert (found.kind, found.rank, found.problem) == ("kineto", 5, None)


def test_a_long_header_before_the_events(tmp_path: Path) -> None:
    metadata = b'{"metadata": {"note": "' + b"x" * 200_000 + b'"}, '

    found = only(tmp_path, "a.json", metadata + trace_text(3, 4)[1:])

    assert (found.kind, found.rank) == ("kineto", 3)


def nsys_database(path: Path, tables: list[str]) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for table in tables:
            connection.execute(f'CREATE TABLE "{table}" (id INTEGER, value TEXT)')
        connection.commit()


def test_sqlite_is_nsys_by_its_tables(tmp_path: Path) -> None:
    nsys_database(tmp_path / "old 100%?#.sqlite", ["StringIds", "CUPTI_ACTIVITY_KIND_KERNEL"])
    nsys_database(tmp_path / "new.db", ["StringIds", "META_DATA_EXPORT"])
    nsys_database(tmp_path / "other.sqlite", ["StringIds", "users"])
    before = sorted(path.name for path in tmp_path.iterdir())

    found = by_path(discover(tmp_path))

    assert found["old 100%?#.sqlite"].kind == "nsys_sqlite"
    assert found["new.db"].kind == "nsys_sqlite"
    assert found["other.sqlite"].problem == (
        "an SQLite file without the tables of an nsys export or of rocprofv3"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == before  # no journal, no lock


def test_nothing_but_table_names_is_read_from_sqlite(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        connection.execute("CREATE TABLE NVTX_EVENTS (text TEXT)")
        connection.execute("INSERT INTO StringIds VALUES (1, 'API_TOKEN=planted-secret')")
        connection.commit()

    assert "planted-secret" not in repr(discover(tmp_path))


def test_archives_are_listed_never_unpacked(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "traces.tar.gz", "w:gz") as archive:
        for name in ("rank0.json", "../../etc/evil\x1b[2J", "notes.txt"):
            info = tarfile.TarInfo(name)
            info.size = 5
            archive.addfile(info, io.BytesIO(b"hello"))
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as checkpoint:
        checkpoint.writestr("data.pkl", b"x")

    found = by_path(discover(tmp_path))

    assert found["traces.tar.gz"].kind == "archive"
    assert found["traces.tar.gz"].problem == (
        "an archive of 3 files (rank0.json, ../../etc/evil\\x1b[2J and notes.txt): unpack it first"
    )
    assert found["model.pt"].kind == "archive"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pt", "traces.tar.gz"]


def test_a_long_archive_is_listed_in_part(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "big.tar.gz", "w:gz") as archive:
        for name in ("a.json", "b.json"):
            info = tarfile.TarInfo(name)
            info.size = 40 << 20
            archive.addfile(info, io.BytesIO(b"\0" * info.size))

    (found,) = discover(tmp_path).files

    assert found.problem == "an archive of at least 1 file (a.json): unpack it first"


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str, ...]]:
            return Path.touch, (Path(tmp_path / "ran"),)  # type: ignore[return-value]

    (tmp_path / "rank3_memory_snapshot.pickle").write_bytes(pickle.dumps(Trap()))

    (found,) = discover(tmp_path).files

    assert (found.kind, found.rank) == ("memory_snapshot", 3)
    assert "never loaded" in (found.problem or "")
    assert not (tmp_path / "ran").exists()


def test_a_dump_of_the_flight_recorder_is_named(tmp_path: Path) -> None:
    dump = {"version": "2.10", "pg_config": {"0": {"ranks": "[]"}}, "pg_status": {}, "entries": []}
    (tmp_path / "rank_3").write_bytes(pickle.dumps(dump, protocol=2))

    (found,) = discover(tmp_path).files

    assert (found.kind, found.rank) == ("flight_record", 3)
    assert found.problem is None


@pytest.mark.parametrize(
    ("name", "dump"),
    [
        ("_dump_7", {"version": "2.10", "pg_config": {}, "pg_status": {}}),
        ("_dump_7.pkl", [{"pg_id": 0, "seq_id": 1, "profiling_name": "nccl:all_reduce"}]),
        (
            "nccl_trace_rank_7",
            {"entries": [{"profiling_name": "nccl:x"}], "version": "1.4", "pg_config": {0: [0]}},
        ),
        ("comm_lib_trace_rank_7", {"version": "2.1", "pg_config": {"0": {"ranks": "[0]"}}}),
    ],
)
@pytest.mark.parametrize("form", ["pickle", "json"])
def test_dumps_of_every_version(tmp_path: Path, name: str, dump: Any, form: str) -> None:
    if form == "json" and isinstance(dump, list):
        dump = {"entries": dump, "version": "2.4", "pg_config": {}}
    data = pickle.dumps(dump, protocol=2) if form == "pickle" else json.dumps(dump).encode()
    (tmp_path / name).write_bytes(data)

    (found,) = discover(tmp_path).files

    assert (found.kind, found.rank, found.problem) == ("flight_record", 7, None)


@pytest.mark.parametrize("as_list", [True, False])
def test_a_dump_whose_first_entry_has_a_deep_stack(tmp_path: Path, as_list: bool) -> None:
    stack = [{"name": f"f{n}", "filename": "/a/long/path/" * 20, "line": n} for n in range(100)]
    entries = [{"frames": stack, "pg_id": 0, "seq_id": 1, "profiling_name": "nccl:all_reduce"}]
    dump = entries if as_list else {"entries": entries, "version": "1.4", "pg_config": {0: [0]}}
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(dump, protocol=2))

    (found,) = discover(tmp_path).files

    assert (found.kind, found.rank) == ("flight_record", 0)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({"segments": [], "device_traces": []}, "memory_snapshot"),
        ([{"device": 0, "segment_type": "large", "allocated_size": 1}], "memory_snapshot"),
        ({"weights": [1, 2, 3]}, "pickle"),
    ],
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_other_pickles_have_their_own_names(
    tmp_path: Path, content: Any, kind: str, protocol: int
) -> None:
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(content, protocol=protocol))

    (found,) = discover(tmp_path).files

    assert found.kind == kind
    assert ("never loaded" in (found.problem or "")) == (kind == "pickle")


def test_a_single_file_is_a_directory_of_one(tmp_path: Path) -> None:
    put(tmp_path, "iteration_5/rank2_trace.json.gz", trace_text(None))
    put(tmp_path, "iteration_5/rank3_trace.json.gz", trace_text(3))

    discovery = discover(tmp_path / "iteration_5" / "rank2_trace.json.gz")

    (found,) = discovery.files
    assert (found.path, found.rank, found.rank_source) == ("rank2_trace.json.gz", 2, "file name")
    (capture,) = discovery.captures
    assert (capture.name, capture.ranks, capture.complete) == ("", (2,), True)
