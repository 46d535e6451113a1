"""Bus bandwidth measured by nccl-tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.cluster.cluster_files import cluster_answer, cluster_of
from ccltui.metrics.cluster.cluster_table import nccl_test_row, unread_parts
from ccltui.metrics.metric import metric
from ccltui.metrics.unavailable import refuse

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View


@metric(
    unit="GB/s",
    definition=(
        "Largest bus bandwidth in decimal GB/s over all sizes that nccl-tests printed for all- "
        "reduce (for the first test where there is no all-reduce), the better of out-of-place "
        "and in-place."
    ),
    needs=("output of nccl-tests",),
    keys=("max_busbw_GBps", "collective", "at_bytes", "num_wrong", "tests"),
    label="bus bandwidth (nccl-tests)",
    higher_is_better=True,
    needs_traces=False,
)
def nccl_tests_busbw(view: View) -> Result:
    """Largest bus bandwidth of every test; the value is that of the first all-reduce."""
    files = cluster_of(view, "tests", "output of nccl-tests")
    named = [(path, test) for path, test in files.tests if len(test)]
    rows = [nccl_test_row(path, test) for path, test in named]
    if not rows:
        problems = [test.problem for _, test in files.tests if test.problem]
        raise refuse(
            "no_side_file", f"no test printed a result: {'; '.join(problems) or 'all empty'}"
        )
    leading = next((row for row in rows if row["collective"] == "all_reduce"), rows[0])
    leads = next(test for (path, test), row in zip(named, rows, strict=True) if row is leading)
    wrong = [row for row in rows if row["num_wrong"]]
    details: dict[str, Any] = {
        "max_busbw_GBps": leading["max_busbw_GBps"],
        "collective": leading["collective"],
        "at_bytes": leading["at_bytes"],
        "num_wrong": sum(row["num_wrong"] or 0 for row in rows),
        "tests": rows,
    }
    warnings = [f"{row['file']}: {row['num_wrong']} wrong values: do not trust it" for row in wrong]
    warnings += [
        reason.message
        for path, test in named
        if test is not leads
        for reason in unread_parts(path, test)
    ]
    warnings += [f"{path}: {test.problem}" for path, test in files.tests if test.problem]
    return cluster_answer(
        nccl_tests_busbw,
        view,
        details,
        paths=[path for path, _ in files.tests],
        files=files,
        basis={"value": f"{leading['collective']}, better of out-of-place and in-place"},
        warnings=warnings,
        reasons=unread_parts(leading["file"], leads),
    )


metric_cal = nccl_tests_busbw.document_of
