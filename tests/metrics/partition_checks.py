"""What holds of the partition of rank time in every job."""

from __future__ import annotations

import pytest

from ccltui.metrics.findings.rank_time.partition import partition
from ccltui.metrics.findings.rank_time.step_parts import step_parts
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View


def check(view: View) -> None:
    """The parts of each rank sum to its span, and metrics of device time agree on it."""
    found = partition(view)
    for label, span_ns in found.span_ns.items():
        assert sum(part.by_rank.get(label, 0) for part in found.parts) == span_ns
    ranks = len(found.span_ns)
    span_ms = sum(found.span_ns.values()) / ranks / 1e6
    idle_ms = sum(part.total_ns for part in found.parts if part.kind == "idle") / ranks / 1e6
    details = {
        name: find(name).run(view).details
        for name in (
            "temporal_breakdown",
            "idle_ratio",
            "gpu_busy",
            "idle_causes",
            "step_composition",
            "fix_first",
            "sm",
            "comm_comp_overlap",
            "findings",
        )
    }
    for name, one in details.items():
        if one.get("window_ms") is not None:
            assert one["window_ms"] == pytest.approx(span_ms, abs=1e-9), name
        if one.get("idle_ms") is not None:
            assert one["idle_ms"] == pytest.approx(idle_ms, abs=1e-9), name
    share = idle_ms / span_ms
    assert details["idle_ratio"]["idle_ratio"] == pytest.approx(share, abs=1e-9)
    assert details["temporal_breakdown"]["idle_ratio"] == pytest.approx(share, abs=1e-9)
    assert details["gpu_busy"]["gpu_busy_ratio"] == pytest.approx(1 - share, abs=1e-9)
    if details["step_composition"].get("parts") is not None:
        parts = details["step_composition"]["parts"]
        idle = [row["share"] for row in parts if row["kind"] == "idle"]
        assert sum(idle) == pytest.approx(share, abs=1e-9)
        assert sum(row["share"] for row in parts) == pytest.approx(1, abs=1e-9)
        shares = details["findings"]["shares"]
        for kind, share in shares.items():
            if kind != "other_groups":
                name = "communication" if kind == "transfer" else kind
                own = [row["share"] for row in parts if row["kind"] == name]
                assert sum(own) == pytest.approx(share, abs=1e-9), kind
                for label, row in details["step_composition"]["per_rank"].items():
                    assert row[name] == pytest.approx(
                        details["findings"]["per_rank"][label][kind], abs=1e-9
                    )
        losses = details["fix_first"]["losses"]
        assert sum(row["share"] for row in losses) + details["step_composition"][
            "compute_ratio"
        ] == pytest.approx(1, abs=1e-9)
    by_step = step_parts(view)
    if len(by_step) and all(rank.by_steps for rank in view.ranks if rank.facts.has_kernels):
        assert by_step.length_ns.sum() / ranks / 1e6 == pytest.approx(span_ms, abs=1e-9)
        assert by_step.parts_ns[-1].sum() / ranks / 1e6 == pytest.approx(idle_ms, abs=1e-9)
