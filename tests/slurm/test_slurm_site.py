"""A site with modules, and nsys on chosen nodes: what only shows on nodes of their own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cluster import Cluster
from cluster_files import ACCOUNT, OTHER_ACCOUNT, OTHER_PARTITION, PARTITION
from jobs import script, submit, wait_for_end

from workloads import (
    ANALYSE,
    ROOT,
    log_of,
    on_processors,
    stand_in_nsys,
    submitted,
    tiny_workload,
)


@pytest.mark.parametrize(
    ("scribe", "reports"),
    [
        ("1", {"r_node1_node2.nsys-rep": "node2 after 3 s"}),
        (
            "all",
            {
                "r_node0_node1.nsys-rep": "node1 after 3 s",
                "r_node1_node2.nsys-rep": "node2 after 3 s",
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
    left = {path.name: path.read_text() for path in tmp_path.glob("*.nsys-rep")}
    assert {name: text.splitlines()[-1] for name, text in left.items()} == reports
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


@pytest.fixture
def chosen_site(accounting: Cluster, tmp_path: Path) -> dict[str, str]:
    """A site with an account and a partition that are not the cluster's defaults."""
    site = tmp_path / "mine.sh"
    text = (ROOT / "sbatch" / "sites" / "generic.sh").read_text()
    for name, value in (("ACCOUNT", OTHER_ACCOUNT), ("PARTITION", OTHER_PARTITION)):
        assert f"SITE_{name}:=}}" in text
        text = text.replace(f"SITE_{name}:=}}", f"SITE_{name}:={value}}}")
    site.write_text(text)
    (tmp_path / "logs").mkdir()
    return {
        **on_processors(tmp_path),
        **{"CCLTUI_SITE": str(site), "CCLTUI_SBATCH": str(ROOT / "sbatch"), "DRY_RUN": "yes"},
    }


def described(cluster: Cluster, job: str) -> dict[str, str]:
    told = cluster.run("scontrol", "show", "job", "-o", job).stdout
    return dict(re.findall(r"(\w+)=(\S*)", told))


FSDP = ROOT / "sbatch" / "fsdp_benchmark" / "slurm_submit.sh"
PLAIN = ("sbatch", "--parsable", "--nodes=1", "--gpus-per-node=2", "--cpus-per-task=2")


def test_a_plain_sbatch_gets_account_and_partition_of_the_site(
    accounting: Cluster, chosen_site: dict[str, str], tmp_path: Path
) -> None:
    options = (*PLAIN, "--nodes=2", "--time=00:07:00")
    done = accounting.run(*options, FSDP, "--n-layer", "2", cwd=tmp_path, env=chosen_site)

    first = done.stdout.strip()
    assert wait_for_end(accounting, first).state == "COMPLETED", done.stderr
    said = (tmp_path / "logs" / f"train_{first}.err").read_text()
    (second,) = re.findall(r"submitted again as job (\d+) with --account=", said)
    assert wait_for_end(accounting, second).state == "COMPLETED"
    found = described(accounting, second)
    assert (found["Account"], found["Partition"]) == (OTHER_ACCOUNT, OTHER_PARTITION)
    assert (found["NumNodes"], found["TimeLimit"]) == ("2", "00:07:00")
    assert found["WorkDir"] == str(tmp_path)
    log = (tmp_path / "logs" / f"train_{second}.err").read_text()
    assert "would run on each of 2 nodes: torchrun " in log
    assert "--n-layer 2" in log


def test_an_account_given_to_sbatch_is_kept(
    accounting: Cluster, chosen_site: dict[str, str], tmp_path: Path
) -> None:
    given = (f"--account={ACCOUNT}", f"--partition={PARTITION}")
    done = accounting.run(*PLAIN, *given, FSDP, cwd=tmp_path, env=chosen_site)

    job = done.stdout.strip()
    assert wait_for_end(accounting, job).state == "COMPLETED", done.stderr
    log = (tmp_path / "logs" / f"train_{job}.err").read_text()
    assert "submitted again" not in log
    assert "would run on each of 1 nodes" in log


def test_a_workload_submitted_plainly_follows_its_site_too(
    accounting: Cluster, chosen_site: dict[str, str], tmp_path: Path
) -> None:
    workload = tiny_workload(tmp_path)
    environment = {**workload.environment, **chosen_site, "VENV_DIR": str(tmp_path / "absent")}
    del environment["SITE_ACCOUNT"], environment["CCLTUI_SBATCH"]
    (workload.folder / "CCLTUI_SBATCH").write_text(f"{ROOT}/sbatch\n")
    out = f"--output={tmp_path}/out_%j.log"

    done = accounting.run(
        *PLAIN, out, workload.folder / "run.sbatch", cwd=Path("/"), env=environment
    )

    first = done.stdout.strip()
    assert wait_for_end(accounting, first).state == "COMPLETED", done.stderr
    said = (tmp_path / f"out_{first}.log").read_text()
    (second,) = re.findall(r"submitted again as job (\d+) with --account=", said)
    assert wait_for_end(accounting, second).exit_code == 1
    found = described(accounting, second)
    assert (found["Account"], found["Partition"]) == (OTHER_ACCOUNT, OTHER_PARTITION)
    log = (tmp_path / f"out_{second}.log").read_text()
    assert f"error: no Python environment in {tmp_path}/absent" in log
