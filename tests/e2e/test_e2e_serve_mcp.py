"""``ccltui serve-mcp``: the client of the official SDK, the installed command, every tool."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hostile_names import CONTROLS, write_hostile_job
from mcp_client import Call, answers, converse
from shell import CCLTUI
from warm_shell import run

ROOT = Path(__file__).parents[2]
_NUMBERS = ("straggler_lag", "temporal_breakdown", "iter_time", "exposed_communication", "verdict")


def printed(job: Path, *arguments: str) -> Any:
    done = run(CCLTUI, *arguments[:1], job, *arguments[1:], "--format", "json")
    assert done.returncode in (0, 3), done.stderr
    return json.loads(done.stdout)


def cells(job: Path, metric: str) -> dict[str, str]:
    """Cells of a metric as the command prints them, by key."""
    done = run(CCLTUI, job, "--metric", metric, "--detail", "--format", "csv")
    return {row["key"]: row["value"] for row in csv.DictReader(io.StringIO(done.stdout))}


def test_numbers_are_those_of_the_commands(job: Path) -> None:
    calls: list[Call] = [("metric", {"path": str(job), "name": name}) for name in _NUMBERS]
    *metrics, explained, compared, event = answers(
        job.parent,
        [
            *calls,
            ("explain", {"path": str(job)}),
            ("compare", {"a": str(job), "a_steps": "10", "b_steps": "11", "section": "kernels"}),
            ("kernel", {"path": str(job), "rank": "1", "name": "nccl", "nth": 2}),
        ],
    )

    for name, found in zip(_NUMBERS, metrics, strict=True):
        shown = cells(job, name)
        assert found["next_cursor"] is None
        assert found["columns"] == ["key", "value", "unit"]
        one_cell = {key: value for key, value, _ in found["rows"] if not isinstance(value, list)}
        assert len(one_cell) > 2
        for key, value in one_cell.items():
            assert shown[key] == _cell(value), (name, key)
        assert _cell(found["value"]) == shown[found["headline"]]
    assert explained == printed(job, "explain")
    diff = run(CCLTUI, "diff", job, "--a", "steps=10", "--b", "steps=11", "--format", "json")
    kernels = json.loads(diff.stdout)["kernels"]
    assert len(kernels) > 2
    assert [dict(zip(compared["columns"], row, strict=True)) for row in compared["rows"]] == kernels
    inspected = run(
        *(CCLTUI, "inspect", job, "--rank", "1", "--name", "nccl", "--nth", "2", "--format", "json")
    )
    assert event["facts"] == json.loads(inspected.stdout)["facts"]


def _cell(value: object) -> str:
    from ccltui.report.result_rows import cell_text

    return cell_text(value)


def test_tables_continue_filter_and_sort(job: Path) -> None:
    import ccltui

    where = {"group": "gpu", "rank": "1", "dur_ns": "1000.."}
    call = {"path": str(job), "table": "events", "where": where, "sort": "-dur_ns", "limit": 40}
    first, listed, part = answers(
        job.parent,
        [
            ("table", call),
            ("collective", {"path": str(job)}),
            ("window", {"path": str(job), "steps": "11"}),
        ],
    )
    second, one = answers(
        job.parent,
        [
            ("table", {**call, "cursor": first["next_cursor"]}),
            (
                "collective",
                {
                    "path": str(job),
                    "communicator": listed["rows"][0][0],
                    "instance": listed["rows"][0][1],
                },
            ),
        ],
    )

    kernels = ccltui.open(job).ranks[1].kernels
    longest = sorted((n for n in kernels["dur_ns"].tolist() if n >= 1000), reverse=True)
    place = first["columns"].index("dur_ns")
    assert [row[place] for row in first["rows"] + second["rows"]] == longest[:80]
    assert first["num_rows"] == len(longest)
    lags = [row[listed["columns"].index("lag_ns")] for row in listed["rows"]]
    assert lags == sorted(lags, reverse=True)
    waits = [row[one["columns"].index("wait_ns")] for row in one["rows"]]
    assert one["lag_us"] * 1000 == pytest.approx(max(waits)) == pytest.approx(lags[0])
    assert one["why"]
    assert {found["metric"] for found in part["metrics"]} >= {"temporal_breakdown"}
    assert part["num_rows"] > 0


def test_every_answer_is_bounded(job: Path) -> None:
    calls: list[Call] = [
        ("open", {"path": str(job)}),
        ("metric", {"path": str(job), "name": "kernels"}),
        ("table", {"path": str(job), "table": "events"}),
        ("table", {"path": str(job), "table": "metrics"}),
        ("collective", {"path": str(job)}),
        ("window", {"path": str(job), "window": "/1s"}),
    ]
    for (name, _), (refused, text) in zip(calls, converse(job.parent, calls), strict=True):
        assert not refused, text
        assert len(text) < 20_000, name


def test_a_path_outside_is_refused_in_one_line_and_the_server_goes_on(job: Path) -> None:
    wrong = [("open", {"path": path}) for path in ("/", "/etc/passwd", "..", "a\0b", "~")]
    *refused, (is_error, last) = converse(job.parent, [*wrong, ("open", {"path": str(job)})])

    assert all(bad and "\n" not in text for bad, text in refused)
    assert not is_error
    assert json.loads(last)["ranks"] > 0


def test_names_of_files_and_events_are_escaped(tmp_path: Path) -> None:
    write_hostile_job(tmp_path / "job")
    path = {"path": "job"}
    calls: list[Call] = [
        ("open", path),
        ("explain", path),
        ("table", {**path, "table": "events"}),
        ("collective", path),
        ("kernel", path),
        ("open", {"path": f"job{CONTROLS}"}),
    ]
    for refused, text in converse(tmp_path, calls):
        assert not [one for one in set(text) & set(CONTROLS) if not one.isprintable()]
        assert refused is ("no such file" in text)


def test_the_command_line() -> None:
    assert run(CCLTUI, "serve-mcp").returncode == 2
    missing = run(CCLTUI, "serve-mcp", "--root", "/no/such/folder")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == "ccltui: /no/such/folder: no such directory\n"


def test_without_the_extra_one_line_names_it(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['mcp'] = None; sys.argv = ['ccltui', 'serve-mcp', '--root', "
        f"{str(tmp_path)!r}]; from ccltui.__main__ import main; sys.exit(main())"
    )
    done = run((sys.executable, "-c", program), cwd=ROOT)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ccltui: mcp: serve-mcp needs mcp: pip install 'ccltui[mcp]'\n"
