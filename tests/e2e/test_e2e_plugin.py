"""The example of a plug-in, installed by pip into a directory, and plug-ins that are broken."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from plugged import EXAMPLE, distribution
from shell import CCLTUI
from terminal import session
from warm_shell import run

LIST = "kernels of rank {rank}\ngemm 0 {late}\nncclDevKernel_AllReduce_Sum_f32_RING_LL {late} 300\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Environment in which the example is installed."""
    root = tmp_path_factory.mktemp("example")
    shutil.copytree(EXAMPLE, root / "source")  # a build leaves files beside the sources
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--no-compile")
    command = (sys.executable, "-m", "pip", "install", *options)
    subprocess.run([*command, "--target", root / "site", root / "source"], check=True)
    return {"PYTHONPATH": str(root / "site")}


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of the example's format."""
    folder = tmp_path_factory.mktemp("lists")
    for rank, late in ((0, 100), (1, 200)):
        (folder / f"part{rank}.txt").write_text(LIST.format(rank=rank, late=late))
    return folder


def test_its_metric_is_computed_and_its_writer_prints_it(
    site: Mapping[str, str], job: Path
) -> None:
    done = run(CCLTUI, job, "--metric", "event_rate", "--format", "json", env=site)
    table = run(CCLTUI, job, "--metric", "event_rate", "--format", "markdown", env=site)

    assert (done.returncode, done.stderr) == (table.returncode, table.stderr) == (0, "")
    (result,) = json.loads(done.stdout)["results"]
    assert result["status"] == "ok"
    assert result["value"] > 0
    assert table.stdout.splitlines()[2] == f"| event_rate | {result['value']:g} | 1/ms | ok |"


def test_its_format_is_opened(site: Mapping[str, str], lists: Path) -> None:
    done = run(
        CCLTUI, lists, "--metric", "coll_call_num", "--format", "json", "--no-cache", env=site
    )
    without = run(CCLTUI, lists, "--metric", "coll_call_num", "--no-cache")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"][0]["value"] == 2
    assert without.returncode == 1
    assert "found 2 text files" in without.stderr


def test_its_pane_is_shown_on_files_of_its_format(site: Mapping[str, str], job: Path) -> None:
    with session(*CCLTUI, job, "--no-cache", env=site) as explorer:
        explorer.wait_for("& Hosts")
        explorer.press("&")
        explorer.wait_for("host 0: ranks 0")


def test_it_is_listed(site: Mapping[str, str]) -> None:
    contents = "metric event_rate; format kernel_list; pane hosts; writer markdown"

    version = run(CCLTUI, "--version", env=site)
    checked = run(CCLTUI, "doctor", "--environment", "--format", "json", env=site)
    keys = run(CCLTUI, "--keys", env=site)
    wrong = run(CCLTUI, "x", "--metric", "iter_time", "--format", "xml", env=site)

    assert version.stdout.splitlines()[1:] == [f"plug-in ccltui-example 1.0: {contents}"]
    rows = {one["check"]: one for one in json.loads(checked.stdout)["environment"]}
    found = rows["plug-in ccltui-example 1.0"]
    assert (found["state"], found["message"]) == ("ok", contents)
    assert any(line.startswith("pane.hosts ") for line in keys.stdout.splitlines())
    assert "is none of table, json, jsonl, csv, openmetrics, markdown" in wrong.stderr


BROKEN = {
    "ccltui.metrics": {"iter_time": "no_such:M", "gone": "no_such:M"},
    "ccltui.formats": {"odd": "broken_things:NUMBER"},
    "ccltui.panes": {"odd": "broken_things:NUMBER"},
    "ccltui.writers": {
        "number": "broken_things:NUMBER",
        "text": "broken_things:text",
        "fails": "broken_things:fails",
    },
}
THINGS = "NUMBER = 7\ndef text(report): return 'x'\ndef fails(report): raise KeyError('a\\nb')\n"


@pytest.fixture
def broken(tmp_path: Path) -> Mapping[str, str]:
    """Environment with plug-ins that cannot be used."""
    site = distribution(tmp_path / "site", "broken-things", BROKEN, {"broken_things": THINGS})
    return {"PYTHONPATH": str(site)}


def test_broken_plug_ins_are_lines_and_the_job_is_measured(
    broken: Mapping[str, str], job: Path
) -> None:
    done = run(CCLTUI, job, "--metric", "iter_time", "--no-cache", env=broken)
    every = run(CCLTUI, job, "--metric", "all", "--format", "json", env=broken)

    assert done.returncode == 0
    assert done.stderr == (
        "ccltui: format plug-in odd of broken-things 1.0 is skipped: "
        "broken_things:NUMBER is a int, not a Format\n"
    )
    assert every.returncode == 0
    for name in ("gone", "iter_time"):
        line = f"ccltui: metric plug-in {name} of broken-things 1.0 is skipped: "
        assert every.stderr.count(line) == 1
    assert "Traceback" not in every.stderr


def test_asking_for_a_broken_plug_in_states_why_it_is_broken(
    broken: Mapping[str, str], job: Path
) -> None:
    metric = run(CCLTUI, job, "--metric", "gone", env=broken)
    writers = {
        name: run(CCLTUI, job, "--metric", "iter_time", "--format", name, env=broken)
        for name in ("number", "text", "fails")
    }

    assert metric.returncode == 2
    assert metric.stderr == (
        "ccltui: metric plug-in gone of broken-things 1.0 is skipped: "
        "no_such:M: ModuleNotFoundError: No module named 'no_such'\n"
    )
    for name, why in (
        ("number", "is skipped: broken_things:NUMBER is a int, not a function"),
        ("text", "failed: TypeError: it returned a str, not bytes"),
        ("fails", "failed: KeyError: 'a\\nb'"),
    ):
        done = writers[name]
        assert (done.returncode, done.stdout) == (1, "")
        line = f"ccltui: the writer plug-in {name} of broken-things 1.0 failed: "
        start = line.replace("the ", "").replace("failed: ", "") if name == "number" else line
        assert done.stderr.splitlines()[-1] == start + why.removeprefix("failed: ")


def test_doctor_names_what_is_broken(broken: Mapping[str, str]) -> None:
    done = run(CCLTUI, "doctor", "--environment", "--format", "json", env=broken)

    rows = {one["check"]: one for one in json.loads(done.stdout)["environment"]}
    found = rows["plug-in broken-things 1.0"]
    assert found["state"] == "problem"
    for part in ("metric plug-in gone", "format plug-in odd", "writer plug-in number"):
        assert f"{part} of broken-things 1.0 is skipped" in found["message"]
    assert "pip uninstall broken-things" in found["fix"]


def test_openmetrics_is_printed_for_prometheus(job: Path) -> None:
    pytest.importorskip("prometheus_client")
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    done = run(CCLTUI, job, "--metric", "all", "--format", "openmetrics", "--detail")

    found = {one.name: one for one in text_string_to_metric_families(done.stdout)}
    assert found["ccltui_iter_time_avg_iter_time_seconds"].unit == "seconds"
    assert len(found["ccltui_gpu_busy_by_rank_ratio"].samples) == 4
