"""``ccltui doctor`` as users run it."""

from __future__ import annotations

import json
from pathlib import Path

from shell import CCLTUI, run


def test_a_table_of_files_checks_and_notes(job: Path) -> None:
    done = run(CCLTUI, "doctor", job)

    assert (done.returncode, done.stderr) == (0, "")
    files, checks = done.stdout.split("\n\n")
    header, *lines = files.splitlines()
    assert header.split() == [
        *("path", "kind", "rank", "rank", "source", "capture", "size", "problem")
    ]
    assert lines[0].split()[:4] == ["kineto_trace_0.json.gz", "kineto", "0", "distributedInfo"]
    assert lines[4].split()[:2] == ["workload_card.yaml", "workload_card"]
    assert checks.splitlines()[0].split() == ["check", "state", "finding"]
    assert "ranks                ok     all 4 ranks" in checks


def test_what_to_do_stands_below_the_checks(one_rank: Path) -> None:
    done = run(CCLTUI, "doctor", one_rank)
    written = json.loads(run(CCLTUI, "doctor", one_rank, "--format", "json").stdout)

    header, *lines = done.stdout.split("\n\n")[2].splitlines()
    fixes = {check["check"]: check["fix"] for check in written["checks"] if check["fix"]}
    assert header.split() == ["check", "what", "to", "do"]
    assert [line.split("  ")[0] for line in lines] == list(fixes)
    assert fixes["ranks"].startswith("copy their files here")


def test_json_says_the_same(job: Path, tmp_path: Path) -> None:
    target = tmp_path / "doctor.json"

    done = run(CCLTUI, "doctor", job, "--format", "json", "-o", target)

    document = json.loads(target.read_text())
    assert (done.returncode, done.stdout) == (0, "")
    assert document["schema_version"] == 1
    assert [file["rank"] for file in document["files"]] == [0, 1, 2, 3, None]
    assert {check["state"] for check in document["checks"]} == {"ok"}
    assert document["notes"] == []


def test_duplicates_strangers_and_captures_are_listed(job: Path, tmp_path: Path) -> None:
    for iteration, names in ((5, "0123"), (10, "01")):
        folder = tmp_path / f"iteration_{iteration}"
        folder.mkdir()
        for rank in names:
            name = f"kineto_trace_{rank}.json.gz"
            (folder / f"rank{rank}_trace.json.gz").symlink_to(job / name)
            if iteration == 10:  # another file, so that it is not a repetition
                (folder / f"rank{rank}_trace.json.gz").unlink()
                content = (job / name).read_bytes()
                (folder / f"rank{rank}_trace.json.gz").write_bytes(content + b"\n")
    (tmp_path / "kineto_trace_0.json.gz").symlink_to("iteration_5/rank0_trace.json.gz")
    (tmp_path / "evil\x1b[2J.bin").write_bytes(b"\x00\x01")

    done = run(CCLTUI, "doctor", tmp_path, "--files-only")

    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert r"evil\x1b[2J.bin" in done.stdout
    assert "repeats " in done.stdout
    captures = done.stdout.split("\n\n")[1].splitlines()
    assert captures[0].split() == ["capture", "files", "ranks", "complete", "opened"]
    assert [line.split() for line in captures[1:]] == [
        ["iteration_5", "4", "4", "yes", "yes"],
        ["iteration_10", "2", "2", "no", "no"],
    ]


def test_nothing_to_look_at(tmp_path: Path) -> None:
    absent = run(CCLTUI, "doctor", tmp_path / "absent")
    assert (absent.returncode, absent.stdout) == (1, "")
    assert absent.stderr == f"ccltui: {tmp_path}/absent: no such file or directory\n"

    (tmp_path / "notes.txt").write_text("x")
    empty = run(CCLTUI, "doctor", tmp_path)
    assert empty.returncode == 1
    assert "notes.txt" in empty.stdout
    assert "files  problem  no trace that can be opened" in empty.stdout
    assert "let training reach the first window of its profiler" in empty.stdout
    assert empty.stderr.startswith(f"ccltui: no Kineto trace in {tmp_path}; found notes.txt: ")


def test_a_directory_that_answers_without_traces_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "gate_logs_0.json").write_text('{"expert_loads": [[1, 2], [3, 4]]}')

    checks = json.loads(run(CCLTUI, "doctor", tmp_path, "--format", "json").stdout)["checks"]

    assert [(check["check"], check["state"]) for check in checks] == [("files", "warning")]


def test_notes_say_how_often_and_where(tmp_path: Path) -> None:
    text = '{"traceEvents":[{"ph":"X","ts":1,"dur":1,"name":"a","pid":1,"tid":1},{"ph":"X","name'
    (tmp_path / "rank0.json").write_text(text)

    shown = run(CCLTUI, "doctor", tmp_path).stdout
    written = json.loads(run(CCLTUI, "doctor", tmp_path, "--format", "json").stdout)

    header, *lines = shown.split("\n\n")[-1].splitlines()
    line = lines[-1]
    assert header.split() == ["note", "where", "count", "byte", "message"]
    assert line.split()[:3] == ["truncated_trace", "rank0.json", "1"]
    note = written["notes"][-1]
    assert (note["code"], note["where"], note["count"]) == ("truncated_trace", "rank0.json", 1)
    assert line.split()[3] == str(note["offset"])
    assert note["message"].endswith("1 events kept")


def test_a_directory_is_missing_on_the_command_line() -> None:
    done = run(CCLTUI, "doctor")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ccltui: no trace directory given: ccltui doctor DIR, or ")
