"""A file that crashes its reader is reported; the other ranks give their numbers."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from nsys_exports import Export
from shell import CCLTUI
from warm_shell import run

EVENT = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5, "dur": 3}
NEXT = {**EVENT, "ts": 10}
"""Work at another time: an exact copy of an event counts once, and metrics say so."""
METRICS = ("--metric", "gpu_busy", "--metric", "coll_call_num")


def rank(number: int, *events: dict[str, Any], size: int = 9) -> bytes:
    info = {"backend": "nccl", "rank": number, "world_size": size}
    return json.dumps({"distributedInfo": info, "traceEvents": [EVENT, *events]}).encode()


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    """Eight good ranks of nine."""
    folder = tmp_path / "job"
    folder.mkdir()
    for number in range(8):
        (folder / f"rank{number}.json").write_bytes(rank(number))
    return folder


def results(folder: Path, *options: str) -> tuple[int, list[dict[str, Any]], str]:
    done = run(CCLTUI, folder, *METRICS, "--format", "json", "--no-cache", *options)
    return done.returncode, json.loads(done.stdout)["results"], done.stderr


KERNEL = {"Collective name": "send", "In msg nelems": 8, "dtype": "Float"}
ODD: dict[str, list[dict[str, Any]]] = {
    "categories": [{**EVENT, "cat": f"c{n}"} for n in range(400)],
    "occupancy": [{**NEXT, "args": {"est. achieved occupancy %": 10**400}}],
    "blocks": [{**NEXT, "args": {"blocks per SM": 10**400}}],
    "communicator": [{**NEXT, "args": {**KERNEL, "Comms Id": "9" * 5000}}],
    "peer": [
        {
            **EVENT,
            "cat": "cpu_op",
            "name": "c10d::send",
            "args": {"Concrete Inputs": ["", "", "9" * 5000]},
        }
    ],
    "shapes": [{**EVENT, "cat": "cpu_op", "name": "aten::mm", "args": {"Input Dims": ["@"]}}],
}
"""Events of one rank each; the sign becomes a byte that is no UTF-8."""


@pytest.mark.parametrize("accelerated", ["0", "1"])
def test_odd_values_cost_nothing(
    ranks: Path, accelerated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCLTUI_ACCEL", accelerated)
    events = [*([] for _ in range(8)), *ODD.values()]
    for number, odd in enumerate(events):
        text = rank(number, *odd, size=len(events)).replace(b"@", b"\xff")
        (ranks / f"rank{number}.json").write_bytes(text)

    status, (busy, _), told = results(ranks)

    # what a value costs would be told with the name of its file
    assert (status, busy["status"], told) == (0, "ok", "")
    assert len(busy["details"]["per_rank"]) == len(events)


@pytest.mark.parametrize("accelerated", ["0", "1"])
def test_work_whose_times_do_not_fit_is_said_to_be_missing(
    ranks: Path, accelerated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCLTUI_ACCEL", accelerated)
    late = ({"ts": 2**53, "dur": 2**53}, {"ts": 2**53 + 1, "dur": 1})
    (ranks / "rank8.json").write_bytes(rank(8, *({**EVENT, **times} for times in late)))

    status, (busy, _), told = results(ranks)

    assert (status, busy["status"]) == (0, "partial")
    assert told.count("\n") == 1
    assert "rank8.json: events without a readable ts and dur are dropped (2×" in told


BREAKS = """
import ccltui.parsers.kineto.rank_builder as builder

before = builder.Builder.finish

def finish(self, *arguments):
    if self._counts.get(("X", "break me")) or any(
        text == "break me" for text in self.rows.strings._texts
    ):
        raise {error}
    return before(self, *arguments)

builder.Builder.finish = finish
"""


@pytest.mark.parametrize("jobs", ["inline", "workers"])
@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        ("ZeroDivisionError('a\\nb')", 1, "internal error: ZeroDivisionError: a b; please"),
        ("MemoryError()", 1, "cannot be read (not enough memory)"),
    ],
)
def test_a_defect_of_the_reader_is_one_line(
    ranks: Path, tmp_path: Path, error: str, status: int, line: str, jobs: str
) -> None:
    (ranks / "rank8.json").write_bytes(rank(8, {**EVENT, "cat": "break me"}))
    if jobs == "workers":
        large = {**NEXT, "args": {"x": " " * (9 << 20)}}
        (ranks / "rank0.json").write_bytes(rank(0, large))
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text(BREAKS.format(error=error))
    env = {"PYTHONPATH": str(tmp_path / "path")}

    done = run(CCLTUI, ranks, *METRICS, "--format", "json", "--no-cache", env=env)
    document = json.loads(done.stdout)

    assert (done.returncode, document["results"][0]["status"]) == (status, "partial")
    assert document["trace"]["ranks"] == 8
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"ccltui: rank8.json: {line}")
    if line.startswith("internal error"):
        loud = run(CCLTUI, ranks, *METRICS, "--no-cache", "--debug", env=env).stderr
        assert "ZeroDivisionError" in loud
        assert "in finish" in loud


def test_a_defect_of_discovery_is_one_line(ranks: Path, tmp_path: Path) -> None:
    (ranks / "rank8.json").write_bytes(rank(8))
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text(
        "import ccltui.parsers.discovery.sniff as sniff\n"
        "before = sniff._classify\n"
        "def classify(path, name, head):\n"
        "    assert name != 'rank8.json', 'on purpose'\n"
        "    return before(path, name, head)\n"
        "sniff._classify = classify\n"
    )

    done = run(CCLTUI, "doctor", ranks, "--files-only", env={"PYTHONPATH": str(tmp_path / "path")})

    assert done.returncode == 0
    assert "internal error: AssertionError: on purpose; please report it" in done.stdout
    assert "rank7.json" in done.stdout


@pytest.mark.parametrize(
    "size",
    ["9" * 10_000, "0x" + "f" * 10_000, "9" * 400],
    ids=["decimal", "hexadecimal", "beyond a float"],
)
def test_a_card_of_huge_numbers(ranks: Path, size: str) -> None:
    (ranks / "rank8.json").write_bytes(rank(8))
    card = f"workload:\n  data:\n    batch_size: {size}\n    seq_len: 8\n"
    (ranks / "workload_card.yaml").write_text(card)

    done = run(CCLTUI, ranks, *METRICS, "--metric", "throughput_tokens", "--no-cache")
    checked = run(CCLTUI, "doctor", ranks)

    assert done.returncode == 3
    assert "internal error" not in done.stderr
    assert "gpu_busy" in done.stdout
    assert checked.returncode == 0


def wal(path: Path) -> None:
    """Rows that are only in the write-ahead log, as a profiler that still writes leaves them."""
    copies = path.with_name("open")
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA wal_autocheckpoint = 0")
        with database:
            database.execute(f"INSERT INTO {TABLE} SELECT * FROM {TABLE}")
        copies.mkdir()
        for beside in path.parent.glob(path.name + "*"):
            shutil.copy(beside, copies)
    for beside in copies.iterdir():
        shutil.copy(beside, path.parent)
    shutil.rmtree(copies)


def journal(path: Path) -> None:
    """A change that was broken off."""
    beside = path.with_name(path.name + "-journal")
    beside.write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(504))


TABLE = "CUPTI_ACTIVITY_KIND_KERNEL"


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    """Exports of nine ranks."""
    folder = tmp_path / "nsys"
    folder.mkdir()
    for number in range(9):
        export = Export()
        process = export.process(100 + number)
        process.nccl(number, 9)
        process.kernel("gemm", 10, 40)
        process.collective("ncclAllReduce", 20, 40, size=8)
        export.write(folder / f"rank{number}.sqlite")
    return folder


@pytest.mark.parametrize(("leave", "word"), [(wal, "-wal"), (journal, "-journal")])
def test_an_export_of_which_a_part_is_elsewhere_is_refused(
    exports: Path, leave: Callable[[Path], None], word: str, tmp_path: Path
) -> None:
    cache = ("--cache-dir", str(tmp_path / "cache"))
    run(CCLTUI, exports, *METRICS, *cache)
    leave(exports / "rank8.sqlite")
    before = sorted(path.name for path in exports.iterdir())

    done = run(CCLTUI, exports, *METRICS, "--format", "json", *cache)
    document = json.loads(done.stdout)
    checked = run(CCLTUI, "doctor", exports, "--files-only")
    printed = run(CCLTUI, "stats", exports / "rank8.sqlite")

    assert (done.returncode, document["results"][0]["status"]) == (0, "partial")
    assert document["trace"]["ranks"] == 8
    assert done.stderr.count("\n") == 1
    for text in (done.stderr, checked.stdout, printed.stderr):
        assert f"{word} file beside it" in text
        assert "sqlite3 FILE" in text
    assert printed.returncode == 1
    assert before == sorted(path.name for path in exports.iterdir())


def test_an_empty_log_is_fine(exports: Path) -> None:
    with closing(sqlite3.connect(exports / "rank8.sqlite")) as database:
        database.execute("PRAGMA journal_mode = WAL")
    for word in ("-wal", "-journal"):
        (exports / f"rank8.sqlite{word}").write_bytes(b"")

    status, (busy, _), told = results(exports)

    assert (status, busy["status"], told) == (0, "ok", "")


def test_names_in_a_database_that_are_no_text(exports: Path) -> None:
    with closing(sqlite3.connect(exports / "rank8.sqlite")) as database, database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute(
            "UPDATE sqlite_master SET sql = CAST(x'435245415445ff' AS TEXT), "
            "name = CAST(x'ff' AS TEXT) WHERE name = ?",
            (TABLE,),
        )

    checked = run(CCLTUI, "doctor", exports, "--files-only")
    status, (busy, _), told = results(exports)

    assert checked.returncode == 0
    assert "names in it are not UTF-8" in checked.stdout
    assert (status, busy["status"]) == (0, "partial")
    assert told.count("\n") == 1
