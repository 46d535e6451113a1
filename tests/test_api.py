"""The Python interface gives what the commands print, and starts as lightly."""

from __future__ import annotations

import html
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from found_files import put, trace_text

import ccltui
from ccltui.demo import Spec, write_job
from ccltui.metrics.registry import UnknownMetricError
from ccltui.parsers.errors import TraceError

ROOT = Path(__file__).parents[1]
Opened: Any = ccltui.open  # for calls that a type checker refuses as well


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("api") / "job"
    write_job(path, Spec(tp=2, steps=3, layers=2, gpus_per_node=2))
    return path


@pytest.fixture(scope="module")
def job(directory: Path) -> ccltui.Job:
    return ccltui.open(directory)


def test_metrics_and_explanation_equal_those_of_the_commands(
    job: ccltui.Job, directory: Path
) -> None:
    command = [sys.executable, "-m", "ccltui"]
    arguments = (str(directory), "--metric", "straggler_lag", "--format", "json")
    printed = subprocess.run([*command, *arguments], capture_output=True, check=True, cwd=ROOT)
    explained = subprocess.run(
        [*command, "explain", str(directory), "--format", "json"],
        capture_output=True,
        check=True,
        cwd=ROOT,
    )

    (result,) = json.loads(printed.stdout)["results"]
    assert job.metric("straggler_lag").value == result["value"]
    assert job.explain().to_json() == explained.stdout
    assert job.explain().headline in json.loads(explained.stdout)["headline"]
    assert str(job.explain()).startswith("# ")


def test_kernels_of_a_rank_are_numpy_arrays(job: ccltui.Job) -> None:
    kernels = job.ranks[1].kernels

    assert {values.dtype.kind for values in (kernels["start_ns"], kernels["dur_ns"])} == {"i"}
    assert len(kernels["name"]) == kernels.num_rows > 0
    assert set(kernels["rank"]) == {"1"}
    assert (kernels["stream"] >= 0).all()
    with pytest.raises(KeyError):
        kernels["nothing"]


def test_a_window_steps_and_ranks_restrict_everything(job: ccltui.Job) -> None:
    first, *_, last = sorted(set(job.steps["step"].tolist()))[:2]
    part = job.select(ranks=[0, 2], steps=(first, last))

    assert [rank.label for rank in part.ranks] == ["0", "2"]
    assert part.steps["step"].tolist() == [first, last, first, last]
    assert job.select(ranks=[0], steps=(777, 778)).steps["step"].dtype == np.int64
    early = job.window(0, 5_000_000).ranks[0].kernels["start_ns"]
    assert early.max() < 5_000_000
    assert len(early) < job.ranks[0].kernels.num_rows


def test_other_libraries_get_nulls_where_nothing_is_recorded(job: ccltui.Job) -> None:
    pytest.importorskip("pyarrow")
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    operators = job.ranks[0].events("cpu_ops")

    assert operators.to_arrow().num_rows == operators.num_rows
    assert operators.to_polars()["stream"].null_count() == operators.num_rows
    frame = operators.to_pandas()
    assert frame["stream"].isna().all()
    assert frame["start_ns"].dtype == pandas.Int64Dtype()
    assert np.array_equal(frame["start_ns"].to_numpy(np.int64), operators["start_ns"])
    assert job.collectives.to_polars().filter(polars.col("lag_ns") > 0).height


def test_errors_name_what_is_wrong(job: ccltui.Job, tmp_path: Path) -> None:
    with pytest.raises(UnknownMetricError, match="straggler_lag"):
        job.metric("stragler_lag")
    with pytest.raises(ValueError, match="cpu_ops"):
        job.ranks[0].events("nothing")  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ccltui.nothing  # type: ignore[attr-defined]
    with pytest.raises(Exception, match=r"no such|does not exist"):
        ccltui.open(tmp_path / "absent")


def test_unrelated_recordings_are_refused_until_one_is_chosen(tmp_path: Path) -> None:
    for number, day in enumerate((0, 40)):
        ts = 1_700_000_000_000_000 + day * 86_400_000_000
        put(tmp_path, f"model{number}.json", trace_text(None, None, ts=ts))

    with pytest.raises(
        TraceError, match=r"2 recordings that are not ranks of one job.*model0\.json"
    ):
        ccltui.open(tmp_path)

    assert len(ccltui.open(tmp_path, capture="model1.json").ranks) == 1


def test_a_script_without_a_main_check_reads_with_workers(directory: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import ccltui\n"
        f"print(ccltui.open({str(directory)!r}, jobs=2).metric('coll_call_num').value)\n"
    )

    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.count("\n") == 1


def test_the_package_imports_no_numpy() -> None:
    code = "import sys, ccltui; print('numpy' in sys.modules, ccltui.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", ccltui.__version__]


def test_the_example_of_the_page_runs(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("polars")
    page = (ROOT / "docs" / "python.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]

    exec(code.replace("/scratch/run-0421", str(directory)), {})

    assert len(capsys.readouterr().out.splitlines()) >= 4


@pytest.mark.parametrize("kind", [str, Path])
def test_paths_are_text_or_paths(
    directory: Path, tmp_path: Path, kind: Callable[[Path], object]
) -> None:
    found = Opened(kind(directory), cache_dir=kind(tmp_path / "x"))

    assert len(found.ranks) > 1
    assert (tmp_path / "x").is_dir()
    assert isinstance(found.path, str)


def test_ranks_of_files_are_given_by_path_or_text(tmp_path: Path) -> None:
    put(tmp_path, "a.json", trace_text(rank=None))
    put(tmp_path, "b.json", trace_text(rank=None, ts=2))
    for name in (str, Path):
        ranks: Any = {name("a.json"): np.int64(3), name("b.json"): 4}
        assert [r.rank for r in ccltui.open(tmp_path, rank_map=ranks).ranks] == [3, 4]


@pytest.mark.parametrize("number", [1, np.int32(1), np.uint8(1), True])
def test_numbers_are_those_of_python_or_numpy(
    job: ccltui.Job, directory: Path, number: Any
) -> None:
    assert len(ccltui.open(directory, jobs=number).ranks) == len(job.ranks)
    assert [r.rank for r in job.select(ranks=number).ranks] == [1]
    assert str(job.explain(budget=np.int64(2000)))


@pytest.mark.parametrize(
    "ranks", [[0, 1], (1, 0), {0, 1}, range(2), np.arange(2), iter([0, 1]), np.array([1, 0, 1])]
)
def test_ranks_are_any_collection(job: ccltui.Job, ranks: Any) -> None:
    assert [rank.rank for rank in job.select(ranks=ranks).ranks] == [0, 1]


@pytest.mark.parametrize("steps", [(11, 12), [11, 12], range(11, 13), np.array([11, 12])])
def test_steps_are_a_first_and_a_last(job: ccltui.Job, steps: Any) -> None:
    expected = job.select(steps=(11, 12)).metric("iter_time").value
    assert expected is not None
    assert job.select(steps=steps).metric("iter_time").value == expected
    assert job.select(steps=11).metric("iter_time").value == (
        job.select(steps=(11, 11)).metric("iter_time").value
    )


def test_times_are_whole_numbers_however_they_are_written(job: ccltui.Job) -> None:
    values = [
        job.window(start, end).metric("idle_ratio").value
        for start, end in ((0, 2_000_000), (0.0, 2e6), (np.int64(0), np.float64(2e6)), (None, 2e6))
    ]
    assert len(set(values)) == 1


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ValueError, lambda _, path: Opened(path, profile_mode="kineto")),
        (ValueError, lambda _, path: Opened(path, jobs=0)),
        (TypeError, lambda _, path: Opened(path, jobs="2")),
        (TypeError, lambda _, path: Opened(path, iteration="x")),
        (TypeError, lambda _, path: Opened(path, rank_map={"a": "b"})),
        (TypeError, lambda _, path: Opened(3)),
        (TypeError, lambda job, _: job.select(ranks="0-1")),
        (ValueError, lambda job, _: job.select(steps=(12, 11))),
        (ValueError, lambda job, _: job.select(steps=(1, 2, 3))),
        (ValueError, lambda job, _: job.select(steps=[])),
        (ValueError, lambda job, _: job.window(2, 1)),
        (ValueError, lambda job, _: job.window(0.5)),
        (TypeError, lambda job, _: job.window("1ms")),
    ],
)
def test_what_is_no_possible_value_is_refused(
    job: ccltui.Job, directory: Path, error: type[Exception], call: Callable[..., object]
) -> None:
    with pytest.raises(error):
        call(job, directory)


def test_a_notebook_shows_a_finding_and_runs_nothing_of_it(job: ccltui.Job) -> None:
    from ccltui.report.explanation_writers import finding_html

    first = job.findings[0]
    shown = first._repr_html_()
    assert html.escape(first.headline) in shown
    assert repr(first) == f"Finding({first.headline!r})"
    assert job.findings._repr_html_() == "".join(one._repr_html_() for one in job.findings)
    for name in ("share", "cost", "sure"):
        assert f">{name}</th>" in shown

    hostile = "<script>alert(1)</script>\x1b[2J"
    row = {**first.details, "text": hostile, "more": hostile, "do": hostile, "share": 7.0}
    shown = finding_html(row)
    assert "<script" not in shown
    assert "\x1b" not in shown
    assert "width:100.0%" in shown
    assert ">cost</th>" not in finding_html({**row, "cost_ms": None, "share": None})
