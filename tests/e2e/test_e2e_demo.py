"""``ccltui demo`` writes a job that the other commands read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from shell import CCLTUI, MODULE
from warm_shell import run

from ccltui import cli
from ccltui.commands import demo_command
from ccltui.metrics.registry import SEED_ORDER


def test_the_demo_is_written_and_its_truth_recovered(tmp_path: Path) -> None:
    written = run(CCLTUI, "demo", tmp_path / "job", "--no-open")
    assert (written.returncode, written.stderr) == (0, "")
    assert written.stdout == f"{tmp_path}/job\n"

    names = [word for name in SEED_ORDER for word in ("--metric", name)]
    measured = run(CCLTUI, tmp_path / "job", *names, "--format", "json")
    assert measured.returncode == 0, measured.stderr
    results = {entry["metric"]: entry for entry in json.loads(measured.stdout)["results"]}
    assert {entry["status"] for entry in results.values()} == {"ok"}
    lag = results["straggler_lag"]["details"]
    assert (lag["num_ranks"], lag["stragglers"]) == (8, [1, 6])
    offsets = [lag["clock"][str(rank)]["offset_us"] for rank in range(8)]
    assert offsets == pytest.approx([0.0] * 4 + [5000.0] * 4, abs=10)


def test_it_may_be_written_again_but_not_over_anything_else(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    assert run(CCLTUI, "demo", directory, "--no-open").returncode == 0
    before = (directory / "kineto_trace_0.json.gz").read_bytes()

    assert run(CCLTUI, "demo", directory, "--no-open", "--seed", "3").returncode == 0
    assert (directory / "kineto_trace_0.json.gz").read_bytes() != before

    (directory / "thesis.tex").write_text("years of work")
    refused = run(CCLTUI, "demo", directory, "--no-open")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "thesis.tex" in refused.stderr
    assert (directory / "thesis.tex").read_text() == "years of work"


def test_without_a_directory_it_goes_beside_the_cache(tmp_path: Path) -> None:
    env = {"CCLTUI_CACHE_DIR": None, "XDG_CACHE_HOME": str(tmp_path)}

    done = run(CCLTUI, "demo", env=env)

    assert done.returncode == 0
    assert done.stdout == f"{tmp_path}/ccltui-demo\n"
    assert done.stderr == (
        "ccltui: the explorer needs a terminal; "
        f"without one: ccltui explain {tmp_path}/ccltui-demo\n"
    )
    assert (tmp_path / "ccltui-demo" / "workload_card.yaml").exists()


def test_where_the_cache_cannot_be_written_it_goes_to_a_temporary_folder(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    env = {"CCLTUI_CACHE_DIR": str(blocked / "cache"), "TMPDIR": str(tmp_path)}

    done = run(MODULE, "demo", "--no-open", env=env)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{tmp_path}/ccltui-demo-")


def test_a_job_with_a_fault_of_choice_is_written_with_its_answer_beside_it(tmp_path: Path) -> None:
    options = ("--fault", "slow_worker", "--family", "dp", "--ranks", "4", "--seed", "2")

    written = run(CCLTUI, "demo", tmp_path / "job", "--no-open", *options)

    assert (written.returncode, written.stderr) == (0, "")
    names = sorted(path.name for path in (tmp_path / "job").iterdir())
    assert names == [f"kineto_trace_{rank}.json" for rank in range(4)]
    answer = json.loads((tmp_path / "job.answer.json").read_text())
    assert answer["faults"][0]["verdict"] == "slow_worker"
    assert answer["cost_ms"] > 0


def test_a_job_that_cannot_be_is_refused(tmp_path: Path) -> None:
    options = ("--fault", "heavy_stage", "--family", "dp")

    refused = run(CCLTUI, "demo", tmp_path / "job", "--no-open", *options)

    assert (refused.returncode, refused.stdout) == (2, "")
    assert "no layout of dp" in refused.stderr
    assert not (tmp_path / "job").exists()


def test_keys_are_printed_and_nothing_is_written(tmp_path: Path) -> None:
    done = run(CCLTUI, "demo", tmp_path / "job", "--keys")

    assert (done.returncode, done.stdout) == (0, run(CCLTUI, "--keys").stdout)
    assert not (tmp_path / "job").exists()


def test_a_browser_opens_the_job_that_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[tuple[int, list[str]]] = []

    def serve(arguments: Sequence[str], port: int) -> int:
        served.append((port, list(arguments)))
        return 0

    monkeypatch.setattr("ccltui.tui.serve.serve", serve)
    words = ["--serve", "8999", "--fault", "slow_worker", "--theme", "light", "--no-mouse"]
    assert demo_command.run([str(tmp_path / "job"), *words, "--store-limit", "5G"]) == 0

    opened = [str(tmp_path / "job"), "--theme", "light", "--no-mouse", "--store-limit", "5G"]
    assert served == [(8999, opened)]
    options = cli.parser().parse_args(opened)
    assert (options.trace, options.theme, options.mouse) == (opened[0], "light", False)
    assert list((tmp_path / "job").iterdir())
