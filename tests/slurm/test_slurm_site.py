"""A site with modules, and nsys on chosen nodes: what only shows on nodes of their own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cluster import Cluster
from cluster_files import ACCOUNT, OTHER_ACCOUNT, OTHER_PARTITION, PARTITION
from jobs import script, submit, wait_for_end, wait_for_state

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


def refused(log: str) -> str:
    """The one line on what sbatch lacked."""
    (line,) = [one for one in log.splitlines() if "error: " in one]
    assert "so nothing was run" in line
    assert "would run" not in log
    return line


def jobs_of(cluster: Cluster) -> set[str]:
    return set(cluster.run("squeue", "-h", "-t", "all", "-o", "%i").stdout.split())


def test_a_plain_sbatch_without_what_its_site_needs_fails_and_says_it(
    accounting: Cluster, chosen_site: dict[str, str], tmp_path: Path
) -> None:
    before = jobs_of(accounting)
    options = (*PLAIN, "--nodes=2", "--time=00:07:00", "--mem=20", "--comment=mine")

    done = accounting.run(*options, FSDP, "--n-layer", "2", cwd=tmp_path, env=chosen_site)

    job = done.stdout.strip()
    ended = wait_for_end(accounting, job)
    line = refused((tmp_path / "logs" / f"train_{job}.err").read_text())
    assert (ended.state, ended.exit_code) == ("FAILED", 1), line
    missing = f"--account={OTHER_ACCOUNT} --partition={OTHER_PARTITION}"
    given = "--parsable --nodes=1 --gpus-per-node=2 --cpus-per-task=2 --nodes=2 --time=00:07:00"
    assert line.endswith(
        f": submit it with: sbatch {missing} {given} --mem=20 --comment=mine {FSDP} --n-layer 2"
    )
    assert jobs_of(accounting) - before == {job}


def test_who_waits_for_the_job_hears_of_the_failure(
    accounting: Cluster, chosen_site: dict[str, str], tmp_path: Path
) -> None:
    waiting = accounting.run(*PLAIN, "--wait", FSDP, cwd=tmp_path, env=chosen_site)
    failed = waiting.stdout.strip()
    after = (f"--dependency=afterok:{failed}", "--account=m1234")
    later = submit(accounting, *after, script(tmp_path, "true"), cwd=tmp_path)

    assert waiting.returncode == 1
    assert wait_for_state(accounting, later, "DependencyNeverSatisfied").state == "PENDING"
    accounting.run("scancel", later)


@pytest.mark.parametrize("way", ["options", "variables", "lines"])
def test_what_was_given_to_sbatch_wins_over_the_site(
    accounting: Cluster, chosen_site: dict[str, str], tmp_path: Path, way: str
) -> None:
    batch, environment = FSDP, dict(chosen_site)
    given: tuple[str, ...] = ()
    if way == "options":
        given = ("-A", ACCOUNT, f"--part={PARTITION}")
    elif way == "variables":
        environment |= {"SBATCH_ACCOUNT": ACCOUNT, "SBATCH_PARTITION": PARTITION}
    else:
        batch = tmp_path / "submit.sh"
        lines = f"\n#SBATCH --account={ACCOUNT}\n#SBATCH -p {PARTITION}\n"
        batch.write_text(FSDP.read_text().replace("\n", lines, 1))

    done = accounting.run(*PLAIN, *given, batch, cwd=tmp_path, env=environment)

    job = done.stdout.strip()
    state = wait_for_end(accounting, job).state
    log = (tmp_path / "logs" / f"train_{job}.err").read_text()
    assert state == "COMPLETED", log
    assert "would run on each of 1 nodes" in log
    found = described(accounting, job)
    assert (found["Account"], found["Partition"]) == (ACCOUNT, PARTITION)


def test_the_command_that_is_printed_is_right(
    accounting: Cluster, chosen_site: dict[str, str], tmp_path: Path
) -> None:
    first = accounting.run(*PLAIN, FSDP, "--n-layer", "2", cwd=tmp_path, env=chosen_site)
    job = first.stdout.strip()
    wait_for_end(accounting, job)
    line = refused((tmp_path / "logs" / f"train_{job}.err").read_text())

    again = accounting.run(
        *line.partition("submit it with: ")[2].split(), cwd=tmp_path, env=chosen_site
    )

    second = again.stdout.strip()
    assert wait_for_end(accounting, second).state == "COMPLETED"
    found = described(accounting, second)
    assert (found["Account"], found["Partition"]) == (OTHER_ACCOUNT, OTHER_PARTITION)
    log = (tmp_path / "logs" / f"train_{second}.err").read_text()
    assert "--n-layer 2" in log


def test_a_workload_submitted_plainly_needs_what_its_site_needs_too(
    accounting: Cluster, chosen_site: dict[str, str], tmp_path: Path
) -> None:
    workload = tiny_workload(tmp_path)
    environment = {**workload.environment, **chosen_site, "VENV_DIR": str(tmp_path / "absent")}
    del environment["SITE_ACCOUNT"], environment["CCLTUI_SBATCH"]
    (workload.folder / "CCLTUI_SBATCH").write_text(f"{ROOT}/sbatch\n")
    batch = workload.folder / "run.sbatch"
    # As for any other cluster than Perlmutter: the default account may not use its qos.
    batch.write_text(batch.read_text().replace("#SBATCH --qos=regular\n", ""))
    words = (*PLAIN, f"--output={tmp_path}/out_%j.log", batch)

    done = accounting.run(*words, cwd=Path("/"), env=environment)

    job = done.stdout.strip()
    assert wait_for_end(accounting, job).exit_code == 1
    line = refused((tmp_path / f"out_{job}.log").read_text())
    assert f"sbatch was not given --account={OTHER_ACCOUNT} --partition={OTHER_PARTITION}" in line

    for name in ("ACCOUNT", "PARTITION"):
        environment[f"SBATCH_{name}"] = {"ACCOUNT": OTHER_ACCOUNT, "PARTITION": OTHER_PARTITION}[
            name
        ]
    done = accounting.run(*words, cwd=Path("/"), env=environment)

    job = done.stdout.strip()
    assert wait_for_end(accounting, job).exit_code == 1
    log = (tmp_path / f"out_{job}.log").read_text()
    assert f"error: no Python environment in {tmp_path}/absent" in log


GPT2 = ROOT / "sbatch" / "gpt2_deepspeed" / "run_2node_8gpu.sbatch"


@pytest.mark.parametrize("export", ["ALL", "NONE"])
@pytest.mark.parametrize("batch", [FSDP, FSDP.parent / "benchmark_only.sh", GPT2])
def test_scripts_work_from_any_folder_and_make_their_logs(
    cluster: Cluster, torch_installed: None, tmp_path: Path, batch: Path, export: str
) -> None:
    """Slurm's own log included, which it opens before the script can make a folder."""
    variables = {**on_processors(tmp_path), "DRY_RUN": "yes", "RUN_DIR": str(tmp_path / "run")}
    for name in ("train_small.bin", "val_small.bin"):
        (tmp_path / name).write_bytes(b"")
    given = ",".join([export, *(f"{name}={value}" for name, value in variables.items())])

    done = cluster.run(*(*PLAIN, "--account=m1234", f"--export={given}", batch), cwd=tmp_path)

    job = done.stdout.strip()
    state = wait_for_end(cluster, job).state
    logs = {path.name: path.read_text() for path in tmp_path.rglob(f"*_{job}.*")}
    assert state == "COMPLETED", (done.stderr, logs)
    kind = {"slurm_submit.sh": "train", "benchmark_only.sh": "benchmark"}.get(batch.name)
    if kind is not None:
        assert {path.name for path in (tmp_path / "logs").iterdir()} == {
            f"{kind}_{job}.out",
            f"{kind}_{job}.err",
        }
        assert not list(tmp_path.glob(f"*_{job}.*"))
    assert any("would run on each of 1 nodes" in text for text in logs.values())


def test_steps_of_a_job_have_its_variables_however_it_was_exported(
    cluster: Cluster, tmp_path: Path
) -> None:
    text = (
        f"source {ROOT}/sbatch/lib/distributed.sh; SITE_SRUN_OPTIONS=(); export NODES=2 MINE=here\n"
        "on_every_node bash -c 'echo $MINE'"
    )
    batch = script(tmp_path, text, "--nodes=2", "--export=NONE", "--output=out.log")

    job = submit(cluster, batch, cwd=tmp_path)

    assert wait_for_end(cluster, job).state == "COMPLETED"
    assert (tmp_path / "out.log").read_text().split() == ["here", "here"]


def test_tasks_of_an_array_are_runs_of_their_own(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "python").write_text("")
    environment = {
        **on_processors(tmp_path),
        **{"DRY_RUN": "yes", "RUN_DIR": str(tmp_path / "runs"), "DATA_DIR": str(tmp_path)},
    }
    for name in ("train_small.bin", "val_small.bin"):
        (tmp_path / name).write_bytes(b"")

    done = cluster.run(
        *(*PLAIN, "--account=m1234", "--array=1-2", GPT2), cwd=tmp_path, env=environment
    )

    job = done.stdout.strip()
    for task in (1, 2):
        wait_for_end(cluster, f"{job}_{task}")
    told = "".join(path.read_text() for path in tmp_path.glob("gpt2_*.out"))
    assert f"--run_dir {tmp_path}/runs/1 " in told
    assert f"--run_dir {tmp_path}/runs/2 " in told
