"""Two paths: Overview, Kernels, Parallelism and Steps show the numbers of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from explorers import Settle, Start, listed, pane_text

import ccltui
from ccltui.demo import Spec, write_job
from ccltui.demo.spec import Straggler
from ccltui.tui.app import Explorer
from ccltui.tui.engine.analysis import Analyst
from ccltui.tui.engine.loader import run_load
from ccltui.tui.export import rows_of
from ccltui.tui.panes.kernels import KERNELS
from ccltui.tui.state.compared import Compared, parsed
from ccltui.tui.state.pane import compared

SHAPE: dict[str, Any] = {"tp": 2, "pp": 1, "gpus_per_node": 2, "steps": 6, "layers": 2}

SLOW = Straggler(rank=1, cause="data_loading", extra_ns=5_000_000, steps=(3,))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A job without a straggler, and the same job with one."""
    root = tmp_path_factory.mktemp("pair")
    write_job(root / "before", Spec(**SHAPE, stragglers=()))
    write_job(root / "after", Spec(**{**SHAPE, "steps": 5}, stragglers=(SLOW,)))
    return root / "before", root / "after"


async def both(app: Explorer, pilot: Any) -> Compared:
    """The numbers of both paths, once they are there."""
    for _ in range(4):
        await listed(pilot)
        found = compared(app.scene)
        if found is not None and found.document is not None:
            return found
        await pilot.pause(0.2)
    raise AssertionError("the comparison never came")


async def test_every_pane_has_the_numbers_of_the_second_path(
    start: Start, settle: Settle, pair: tuple[Path, Path]
) -> None:
    a, b = (ccltui.open(str(path)) for path in pair)
    app = start(run_load, "256", str(pair[0]), against=str(pair[1]), analyst=Analyst)
    async with app.run_test(size=(200, 50)) as pilot:
        await settle(pilot)
        found = await both(app, pilot)
        for name in ("iter_time", "exposed_communication", "coll_call_num"):
            row = found.metrics[name]
            assert row.a == pytest.approx(a.metric(name).value)
            assert row.b == pytest.approx(b.metric(name).value)
        await pilot.press("M")
        await pilot.pause()
        assert "B - A" in pane_text(app)
        written = next(row for row in rows_of(app.scene) if row["metric"] == "iter_time")
        assert written["B"] == pytest.approx(b.metric("iter_time").value)

        await pilot.press("asterisk")
        await both(app, pilot)
        kernels = b.metric("kernels").details
        record = next(iter(rows_of(app.scene)))
        other = next(row for row in kernels["kernels"] if row["name"] == record["name"])
        assert record["B_ms"] == pytest.approx(other["total_ms"] / (5 * 4))
        assert "of a rank in a step" in "\n".join(screen_rows(app))
        while KERNELS.sorting(app.scene).column != "B - A":
            await pilot.press("o")
        sizes = [abs(float(row["B - A_ms"] or 0)) for row in rows_of(app.scene)]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] > 0

        await pilot.press("percent_sign")
        await both(app, pilot)
        tp = next(row for row in rows_of(app.scene) if row["dim"] == "tp" and not row["group"])
        own = next(
            row for row in b.metric("parallelism").details["dimensions"] if row["dim"] == "tp"
        )
        assert tp["B exposed_ms"] == pytest.approx(own["exposed_ms"] / 5)
        assert tp["B hidden_ratio"] == pytest.approx(own["hidden_ratio"])

        await pilot.press("6")
        await both(app, pilot)
        assert "A → B, means: step time" in pane_text(app)


def screen_rows(app: Explorer) -> list[str]:
    from explorers import screen

    return screen(app)


def document(verdict: str, why: str) -> bytes:
    time = {"a_ms": 10.0, "b_ms": 5.0, "delta_ms": -5.0, "half_width_ms": 1.0}
    return msgspec.json.encode(
        {
            "kind": "jobs",
            "unit": "ms per step",
            "verdict": verdict,
            "why": why,
            "step_time": {**time, "direction": "shorter"},
        }
    )


@pytest.mark.parametrize(
    ("verdict", "doubt"),
    [("not comparable", "not comparable"), ("unknown", "comparability unknown")],
)
def test_jobs_that_are_not_comparable_have_a_standing_and_no_verdict(
    verdict: str, doubt: str
) -> None:
    found = parsed(document(verdict, "model is a in A and b in B"), b"")

    assert found.standing == f"{doubt}: model is a in A and b in B"
    assert found.document is not None
    assert found.document.step_time.verdict == "shorter"  # of the time, not of the job


def test_jobs_that_are_comparable_have_no_doubt() -> None:
    assert parsed(document("better", ""), b"").standing == ""


def test_what_is_no_comparison_of_traces_is_a_problem() -> None:
    assert parsed(b"", b"ccltui diff: b: no such file").problem == "ccltui diff: b: no such file"
    assert "not traces" in parsed(b'{"kind": "runs"}', b"").problem
