"""``ccltui doctor`` as users run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell import CCLTUI
from warm_shell import run

from ccltui.doctor.trace_checks import SHOWN_BY
from ccltui.parsers.formats import FORMATS


def test_a_table_of_files_checks_and_notes(job: Path) -> None:
    done = run(CCLTUI, "doctor", job)

    assert (done.returncode, done.stderr) == (0, "")
    files, checks, viewers = done.stdout.split("\n\n")
    header, *lines = files.splitlines()
    assert header.split() == [
        *("path", "kind", "rank", "rank", "source", "capture", "size", "problem")
    ]
    assert lines[0].split()[:4] == ["kineto_trace_0.json.gz", "kineto", "0", "distributedInfo"]
    assert lines[4].split()[:2] == ["workload_card.yaml", "workload_card"]
    assert checks.splitlines()[0].split() == ["check", "state", "finding"]
    assert "ranks                ok     all 4 ranks" in checks
    assert viewers.splitlines()[0].split("  ")[0] == "your viewer"


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
    for verb in ("doctor", "explain"):
        absent = run(CCLTUI, verb, tmp_path / "absent")
        assert (absent.returncode, absent.stdout) == (1, "")
        assert absent.stderr == f"ccltui: {tmp_path}/absent: no such file or directory\n"

    (tmp_path / "notes.txt").write_text("x")
    empty = run(CCLTUI, "doctor", tmp_path)
    assert empty.returncode == 1
    assert "notes.txt" in empty.stdout
    assert "files  problem  no trace that can be opened" in empty.stdout
    assert "let training reach the first window of its profiler" in empty.stdout
    assert empty.stderr.startswith(f"ccltui: no Kineto trace in {tmp_path}; found notes.txt: ")


def test_an_empty_folder_says_where_to_begin(tmp_path: Path) -> None:
    done = run(CCLTUI, "doctor", tmp_path)

    assert done.returncode == 1
    assert "check the path; docs/collect.md shows how to record a job" in done.stdout
    advice = run(CCLTUI, "explain", tmp_path).stdout
    assert "- Look at the files: ccltui doctor DIR lists what each is" in advice


def test_where_nothing_is_selected_explain_ends_with_3(job: Path) -> None:
    done = run(CCLTUI, "explain", job, "--steps", "99")

    assert done.returncode == 3
    assert "**Nothing is left: no step 99; " in done.stdout


@pytest.mark.parametrize("options", [(), ("--steps", "3"), ("--ranks", "0")])
def test_a_damaged_file_ends_with_the_same_status_whatever_is_selected(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "rank0.json").write_text('{"traceEvents": [{"ph": "X", "ca')
    done = run(CCLTUI, "explain", tmp_path, *options)

    assert done.returncode == 0
    assert "**Nothing could be read: " in done.stdout
    assert "Select what is there" not in done.stdout


def test_many_files_that_are_no_trace_are_counted(tmp_path: Path) -> None:
    for number in range(1500):
        (tmp_path / f"note_{number}.txt").write_text("hello\n")

    done = run(CCLTUI, "doctor", tmp_path)

    assert done.stdout.count("note_") == 20
    assert "… 1,480 more  text" in done.stdout
    assert "found 1,500 text files" in done.stderr
    listed = json.loads(run(CCLTUI, "doctor", tmp_path, "--format", "json").stdout)
    assert len(listed["files"]) == 1500


TABLE = """\
 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Name
 --------  ---------------  ---------  ----
    100.0               10          2  gemm

"""


@pytest.mark.parametrize(
    ("name", "text", "checks", "advice"),
    [
        (
            "gate_logs_0.json",
            '{"expert_loads": [[1, 2], [3, 4]]}',
            ["files"],
            "--metric token_to_expert_assignment",
        ),
        (
            "benchmark_7.yaml",
            "hostname: a\ntotal_time: 1.00 seconds\nresults:\n  CPU:\n    Compression: 5.00 MB/s\n",
            ["files", "machines"],
            "--metric cluster_outliers",
        ),
        ("nsys_stats_a.txt", TABLE, ["files", "reports"], "ccltui stats DIR"),
    ],
)
def test_a_directory_that_answers_without_traces_is_no_problem(
    tmp_path: Path, name: str, text: str, checks: list[str], advice: str
) -> None:
    (tmp_path / name).write_text(text)

    done = run(CCLTUI, "doctor", tmp_path, "--format", "json")

    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)["checks"]
    assert [(check["check"], check["state"]) for check in found] == [(one, "ok") for one in checks]
    assert advice in found[0]["fix"]
    assert "profiler" not in found[0]["fix"]


def test_a_text_of_nsys_that_holds_no_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "nsys_stats_a.txt").write_text(TABLE)
    text = "ERROR: Report 'gpu-kern-summary' could not be found.\n"
    (tmp_path / "nsys_stats_b.txt").write_text(text)

    found = json.loads(run(CCLTUI, "doctor", tmp_path, "--format", "json").stdout)["checks"]

    assert (found[1]["check"], found[1]["state"]) == ("reports", "warning")
    assert found[1]["message"] == "tables: cuda_gpu_kern_sum (1); nsys_stats_b.txt: no table"


def test_every_file_that_answers_without_traces_has_its_advice() -> None:
    assert set(SHOWN_BY) == {one.kind for one in FORMATS if one.has_own_metrics}


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


def test_one_row_for_the_same_note_on_many_files(tmp_path: Path) -> None:
    event = '{"ph":"X","ts":1,"dur":1,"name":"a","pid":1,"tid":1},'
    for rank in range(5):
        text = '{"traceEvents":[' + event * (rank + 1) + '{"ph":"X","name'
        (tmp_path / f"rank{rank}.json").write_text(text)

    shown = run(CCLTUI, "doctor", tmp_path).stdout
    written = json.loads(run(CCLTUI, "doctor", tmp_path, "--format", "json").stdout)

    lines = shown.split("\n\n")[-1].splitlines()
    (line,) = [line for line in lines if line.startswith("truncated_trace")]
    assert "rank0.json, rank1.json, rank2.json and 2 more" in line
    assert line.split("and 2 more")[1].split()[0] == "5"
    assert "1 events kept (the first of several; their numbers differ)" in line
    codes = [note["code"] for note in written["notes"]]
    assert codes.count("truncated_trace") == 5  # a document has them by file
