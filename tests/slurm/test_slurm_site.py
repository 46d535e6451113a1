"""A site with modules, and nsys on chosen nodes: what only shows on nodes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster import Cluster
from jobs import script, submit, wait_for_end

from workloads import ANALYSE, ROOT, log_of, stand_in_nsys, submitted, tiny_workload


@pytest.mark.parametrize(
    ("scribe", "reports"),
    [
        ("1", {"r_node1_node2.nsys-rep": "node2 after 3 s\n"}),
        (
            "all",
            {
                "r_node0_node1.nsys-rep": "node1 after 3 s\n",
                "r_node1_node2.nsys-rep": "node2 after 3 s\n",
            },
        ),
    ],
)
def test_nsys_records_on_the_nodes_that_were_chosen(
    cluster: Cluster, tmp_path: Path, scribe: str, reports: dict[str, str]
) -> None:
    stand_in_nsys(tmp_path / "bin")
    text = (
        f'PATH={tmp_path}/bin:$PATH srun --ntasks-per-node=1 bash "{ROOT}/sbatch/nsys/profile.sh" '
        f"--scribe {scribe} --delay 3 --output {tmp_path}/r -- hostname"
    )

    job = submit(cluster, script(tmp_path, text, "--nodes=2", "--output=out.log"), cwd=tmp_path)

    assert wait_for_end(cluster, job).state == "COMPLETED"
    assert {path.name: path.read_text() for path in tmp_path.glob("*.nsys-rep")} == reports
    log = (tmp_path / "out.log").read_text().split()
    assert {"node1", "node2"} <= set(log)


@pytest.fixture
def modules(cluster: Cluster, lmod: Path, tmp_path: Path) -> dict[str, str]:
    """Environment of a login shell whose module command knows python and cudatoolkit/12.9."""
    for name in ("python/3.11", "cudatoolkit/12.9"):
        path = tmp_path / "modules" / f"{name}.lua"
        path.parent.mkdir(parents=True)
        variable = name.partition("/")[0].upper() + "_MODULE"
        path.write_text(f'setenv("{variable}", "loaded")\n')
    return {
        "BASH_ENV": str(lmod),
        "MODULEPATH": str(tmp_path / "modules"),
        "CCLTUI_SITE": "perlmutter",
        "SITE_ANALYSIS_CONSTRAINT": "gpu",
        "SITE_ANALYSIS_QOS": "debug",
    }


def test_a_job_loads_the_modules_of_its_site(
    cluster: Cluster, modules: dict[str, str], demo: Path, tmp_path: Path
) -> None:
    workload = tiny_workload(tmp_path, **modules)

    job = submitted(cluster, workload, ANALYSE, demo, "--", "--metric", "coll_call_num")

    ended = wait_for_end(cluster, job, seconds=60)
    assert ended.state == "COMPLETED", log_of(workload, job)


def test_a_module_that_is_not_there_ends_the_job_with_what_to_do(
    cluster: Cluster, modules: dict[str, str], demo: Path, tmp_path: Path
) -> None:
    (tmp_path / "modules" / "cudatoolkit" / "12.9.lua").unlink()
    workload = tiny_workload(tmp_path, **modules)

    job = submitted(cluster, workload, ANALYSE, demo)

    ended = wait_for_end(cluster, job)
    log = log_of(workload, job)
    assert (ended.state, ended.exit_code) == ("FAILED", 1), log
    assert "error: module cudatoolkit/12.9 cannot be loaded\n    fix: " in log
    assert "module spider cudatoolkit" in log
