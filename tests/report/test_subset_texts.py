"""What outputs state about a job of which only some ranks are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs

from ccltui import cli
from ccltui.demo.large_job import large_spec, write_large
from ccltui.metrics.registry import metrics
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import Job, LoadSettings, load_job, start_job
from ccltui.parsers.sample_ranks import sampled_job
from ccltui.report.json_document import TraceSummary
from ccltui.report.page.make_page import trust_section
from ccltui.tui.state.answers import Findings
from ccltui.tui.state.notes import trust
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session

HERE = (0, 1, 2, 3, 9)
MISSING = "4-8, 10-15"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "job"
    write_large(folder, large_spec(16, megabytes=0.1, family="tp", faults=()))
    return folder


@pytest.fixture(scope="module")
def part(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("part") / "job"
    folder.mkdir()
    for rank in HERE:
        name = f"kineto_trace_{rank}.json"
        (folder / name).write_bytes((whole / name).read_bytes())
    return folder


def printed(capfd: pytest.CaptureFixture[str], store: Path, *words: str) -> str:
    cli.run([*words, "--store", str(store)])
    return capfd.readouterr().out


def test_json_names_the_part_and_the_missing_ranks(
    part: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = printed(capfd, tmp_path, str(part), "--metric", "all", "--format", "json")

    found = [one for one in json.loads(out)["results"] if one["value"] is not None]
    assert len(found) > 20
    for result in found:
        texts = [reason["message"] for reason in result["reasons"]]
        assert f"5 of 16 ranks found; missing {MISSING}" in texts, result["metric"]
        assert result["status"] == "partial"


def test_json_of_a_sample_names_the_ranks_that_are_not_read(
    whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = (str(whole), "--sample-ranks", "8", "--metric", "all", "--format", "json")
    out = printed(capfd, tmp_path, *words)

    found = [one for one in json.loads(out)["results"] if one["value"] is not None]
    assert len(found) > 20
    for result in found:
        texts = [reason["message"] for reason in result["reasons"]]
        assert any("8 of 16 ranks are read, not 8-15;" in text for text in texts), result["metric"]
        assert result["status"] == "partial"


def test_the_explanation_names_missing_ranks(
    part: Path, whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    of_part = printed(capfd, tmp_path, "explain", str(part))
    of_sample = printed(capfd, tmp_path, "explain", str(whole), "--sample-ranks", "8")

    assert f"5 of 16 ranks are recorded; missing {MISSING}." in of_part
    assert "8 of 16 ranks are read, a sample, not 8-15:" in of_sample


def test_the_line_of_trust_in_overview_names_missing_ranks(
    part: Path, whole: Path, tmp_path: Path
) -> None:
    settings = LoadSettings(tmp_path, 1, inline=True)
    of_part = load_job(start_job(part), settings)
    of_sample = load_job(sampled_job(start_job(whole), 8, tmp_path), settings)

    assert trusted(of_part).startswith(f"5 of 16 ranks, missing {MISSING}")
    assert trusted(of_sample).startswith("8 of 16 ranks, a sample without 8-15")
    unstated = tuple(structs.replace(one, world_size=None) for one in of_sample.ranks)
    assert trusted(structs.replace(of_sample, ranks=unstated)).startswith("8 of 16 ranks")


def trusted(job: Job) -> str:
    result = metrics()["coll_call_num"].run(View(job))
    findings = Findings(results={"coll_call_num": result})
    return trust(Scene(Session("x", job=job), findings=findings)).text


def test_the_report_names_missing_ranks_by_ranges(part: Path, tmp_path: Path) -> None:
    job = load_job(start_job(part), LoadSettings(tmp_path, 1, inline=True))

    section = trust_section(TraceSummary.of(job), {})

    assert ("ranks without a file", MISSING) in section.blocks[0].rows  # type: ignore[union-attr]
