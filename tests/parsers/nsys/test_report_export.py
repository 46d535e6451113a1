"""Test the export of reports with a stub of nsys that records its arguments."""

from __future__ import annotations

import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from nsys_exports import Export

from ccltui.parsers.errors import CancelledError, TraceError
from ccltui.parsers.job import open_job
from ccltui.parsers.nsys.report_export import export_report, read_report

RAW = b"\x00\x01\x02 raw report"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "rank3.nsys-rep"
    path.parent.mkdir()
    path.write_bytes(RAW)
    return path


@pytest.fixture(autouse=True)
def empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a PATH with the programs that a shell script needs, without nsys."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("CCLTUI_NSYS", raising=False)
    return folder


def stub(folder: Path, body: str, name: str = "nsys") -> Path:
    """Write an nsys that records its arguments, one per line, and runs ``body`` ($out: target)."""
    program = folder / name
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {folder}/arguments\n'
        'while [ "$1" != "-o" ]; do shift; done; out="$2"\n' + body + "\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def fixture(tmp_path: Path) -> Path:
    export = Export()
    export.process(100).kernel("gemm", 10, 20)
    return export.write(tmp_path / "fixture.sqlite")


def test_report_is_exported_by_nsys_and_read(
    tmp_path: Path, report: Path, empty_path: Path
) -> None:
    stub(empty_path, f'cp "{fixture(tmp_path)}" "$out"')
    seen: list[int] = []

    (trace,) = read_report(
        report, shown="rank3.nsys-rep", scratch=(tmp_path / "cache",), progress=seen.append
    )

    arguments = (empty_path / "arguments").read_text().splitlines()
    assert arguments[:8] == ["export", "-t", "sqlite", "-q", "true", "-f", "true", "-o"]
    assert Path(arguments[8]).is_relative_to(tmp_path / "cache")
    assert arguments[9:] == [str(report)]
    assert len(trace.group("gpu")) == 1
    assert (trace.source.path, trace.source.size_bytes) == ("rank3.nsys-rep", len(RAW))
    assert seen[-1] == len(RAW)
    assert list((tmp_path / "cache").iterdir()) == []
    assert [f.name for f in report.parent.iterdir()] == ["rank3.nsys-rep"]


def test_the_program_that_was_named_is_used(
    tmp_path: Path, report: Path, empty_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub(empty_path, "exit 9")
    mine = stub(tmp_path / "data", f'cp "{fixture(tmp_path)}" "$out"', "my-nsys")
    monkeypatch.setenv("CCLTUI_NSYS", str(mine))

    assert len(read_report(report, shown="r.nsys-rep")) == 1


def refused(report: Path) -> str:
    with pytest.raises(TraceError) as caught:
        read_report(report, shown="r.nsys-rep")
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_error_without_nsys_names_the_solution(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused(report) == (
        "r.nsys-rep: a report that only nsys reads, and there is none on PATH: give one with "
        "--nsys, or run `nsys export -t sqlite` where it is, and open the .sqlite file"
    )
    monkeypatch.setenv("CCLTUI_NSYS", "/nowhere/nsys")
    assert "/nowhere/nsys is no program" in refused(report)


def test_error_of_an_old_nsys_is_reported(report: Path, empty_path: Path) -> None:
    stub(empty_path, "echo 'Exportation error: Version number is invalid: 99' >&2; exit 1")

    assert refused(report) == (
        "r.nsys-rep: nsys could not export it (exit status 1) with this output: Exportation error: "
        "Version number is invalid: 99; a report needs an nsys at least as new as the one that "
        "recorded it"
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("exit 0", "with this output: nothing"),
        ("printf '\\033[31mred\\007' >&2; exit 3", "(exit status 3)"),
        ("kill -9 $$", "(exit status -9)"),
        ("echo no database > $out", "cannot be read as an nsys export"),
    ],
)
def test_every_other_failure_is_one_line(
    report: Path, empty_path: Path, body: str, words: str
) -> None:
    stub(empty_path, body)

    line = refused(report)
    assert words in line
    assert "\033" not in line


def test_an_export_without_events_is_no_result(
    tmp_path: Path, report: Path, empty_path: Path
) -> None:
    export = Export()
    export.add("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2020.4.3.7")
    empty = export.write(tmp_path / "empty.sqlite")
    stub(empty_path, f'cp "{empty}" "$out"')

    assert "nsys exported no event of it" in refused(report)


def test_nsys_is_killed_on_cancellation(tmp_path: Path, report: Path, empty_path: Path) -> None:
    stub(empty_path, "exec sleep 60")
    asked = iter([False, False, True])

    with pytest.raises(CancelledError):
        export_report(
            report,
            tmp_path / "x.sqlite",
            shown="r",
            cancelled=lambda: next(asked),
        )


@pytest.mark.parametrize("has_nsys", [True, False])
def test_the_rest_of_the_directory_opens(
    tmp_path: Path, report: Path, empty_path: Path, has_nsys: bool
) -> None:
    export = Export()
    export.process(200).kernel("gemm", 10, 20)
    export.write(report.parent / "rank4.sqlite")
    if has_nsys:
        stub(empty_path, f'cp "{fixture(tmp_path)}" "$out"')

    job = open_job(report.parent)

    assert [t.rank for t in job.ranks] == ([3, 4] if has_nsys else [4])
    assert len(job.failures) == (0 if has_nsys else 1)


def test_report_with_its_export_is_read_once(tmp_path: Path, report: Path) -> None:
    export = Export()
    export.process(200).kernel("gemm", 10, 20)
    export.write(report.with_suffix(".sqlite"))

    job = open_job(report.parent)

    assert [t.source.path for t in job.ranks] == ["rank3.sqlite"]
    found = {file.path: file.duplicate_of for file in job.discovery.files}
    assert found == {"rank3.nsys-rep": "rank3.sqlite", "rank3.sqlite": None}
    assert job.failures == ()


def test_the_second_opening_needs_no_nsys(tmp_path: Path, report: Path, empty_path: Path) -> None:
    program = stub(empty_path, f'cp "{fixture(tmp_path)}" "$out"')
    first = open_job(report)
    program.unlink()

    second = open_job(report)

    assert [t.rank for t in second.ranks] == [t.rank for t in first.ranks] == [3]


def test_nsys_ends_with_the_process_that_started_it(
    tmp_path: Path, report: Path, empty_path: Path
) -> None:
    """Killed, that process can end nothing itself; what nsys has started ends too."""
    pids = tmp_path / "pids"
    stub(empty_path, f"sleep 60 &\necho $$ $! > {pids}.new; mv {pids}.new {pids}\nsleep 60")
    code = (
        "import sys; from pathlib import Path; "
        "from ccltui.parsers.nsys.report_export import export_report; "
        "export_report(Path(sys.argv[1]), Path(sys.argv[2]), shown='a')"
    )
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", code, str(report), str(tmp_path / "a.sqlite")]
    )
    try:
        deadline = time.monotonic() + 30
        while not pids.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        parent.kill()
        parent.wait()

    for pid in map(int, pids.read_text().split()):
        while is_running(pid):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
