"""``ccltui report``: a page about a job."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from shell import CCLTUI
from warm_shell import run

REPORT = (*CCLTUI, "report")


def test_a_page_under_the_name_of_the_job(job: Path, tmp_path: Path) -> None:
    done = run(REPORT, job, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "ccltui: wrote small-report.html\n"
    (page,) = tmp_path.iterdir()
    assert page.read_text().startswith("<!DOCTYPE html>")
    again = run(REPORT, job, "-o", "-")
    assert again.stdout == page.read_text()


def test_markdown_on_standard_output(job: Path) -> None:
    done = run(REPORT, job, "--format", "md", "-o", "-", "--ranks", "0-1")

    assert done.returncode == 0
    assert done.stdout.startswith("# ")
    assert "- Selected ranks: 0-1\n" in done.stdout
    assert "<svg" not in done.stdout


def test_an_existing_file_stays_as_it_is(job: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("mine")

    done = run(REPORT, job, "-o", target)

    assert done.returncode == 1
    assert "exists and is not replaced" in done.stderr
    assert target.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [target]


def test_absent_sections_are_no_failure(one_rank: Path) -> None:
    done = run(REPORT, one_rank, "-o", "-")

    assert done.returncode == 0
    assert '<p class="absent">Absent: ' in done.stdout


def test_a_folder_of_totals_has_a_page_of_reasons(tmp_path: Path) -> None:
    text = (
        " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n"
        " Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  "
        "StdDev (ns)  Name\n"
        " --------  ---------------  ---------  --------  --------  --------  --------  "
        "-----------  ----\n"
        "    100.0             1000          1    1000.0    1000.0      1000      1000  "
        "        0.0  gemm\n\n"
    )
    (tmp_path / "stats.txt").write_text(text)

    done = run(REPORT, tmp_path, "-o", "-")

    assert done.returncode == 1
    assert done.stderr.startswith("ccltui: ")
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout.count('<p class="absent">') >= 7
    assert "no start of any kernel" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--format", "pdf"), 2, "invalid choice"),
        (("-o", "no/such/folder/x.html"), 2, "does not exist"),
        (("--set", "nonsense=1"), 2, "no field of a workload card"),
    ],
)
def test_what_cannot_be_written(
    job: Path, arguments: tuple[str, ...], status: int, message: str
) -> None:
    done = run(REPORT, job, *arguments)

    assert done.returncode == status
    assert message in done.stderr


def test_other_commands_do_not_import_the_template_engine(job: Path) -> None:
    code = (
        "import sys; from ccltui import cli; "
        f"cli.run([{str(job)!r}, '--metric', 'iter_time', '--jobs', '1']); "
        "sys.exit('jinja2' in sys.modules)"
    )
    assert run((sys.executable, "-c", code)).returncode == 0
