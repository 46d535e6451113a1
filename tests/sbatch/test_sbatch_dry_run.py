"""``--dry-run`` of every script: what it would do, to the letter, and that it does nothing.

The expected texts are under golden/; CCLTUI_WRITE_GOLDEN=yes writes them anew, to be read before
they are committed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from sbatch_scripts import SBATCH, Done, environment_with, path_with, script, stand_in

GOLDEN = Path(__file__).parent / "golden"
LLAMA = "workloads/llama3.1-8b-torchtitan-tp-perlmutter-16/run.sh"
CASES: Mapping[str, tuple[str, ...]] = {
    "run_tp": (LLAMA, "--account", "m1234"),
    "run_options": (
        *(LLAMA, "--account=m1234", "--profile", "both", "--quick", "--constraint", "gpu&hbm80g"),
        *(
            "--dependency",
            "afterok:7",
            "--output",
            "/scratch/mine",
            "--",
            "--metrics.log_freq",
            "5",
        ),
    ),
    "run_two_nodes": (
        *("workloads/deepseek-v2-lite-torchtitan-dp+tp-perlmutter-16/run.sh", "--site", "generic"),
        *("--gpus-per-node", "2", "--time", "00:20:00", "--train-program", "my.trainer"),
    ),
    "run_larger_nodes": (
        *("workloads/qwen3-32b-torchtitan-3d-perlmutter-16/run.sh", "--account", "m1234"),
    ),
    "submit_all": (
        *("perlmutter/submit_all.sh", "--only", "llama*", "--only", "qwen*dp+pp*"),
        *("--chain", "afterany", "--account", "m1234"),
    ),
    "setup_env": ("perlmutter/setup_env.sh", "--with-models"),
    "setup_env_newer": ("setup_env.sh", "--site", "generic"),
    "nsys_profile": ("nsys/profile.sh", "--scribe", "1,3", "--output", "/t/r", "--", "train", "it"),
    "nsys_range": (
        "nsys/profile.sh",
        "--capture-range=cudaProfilerApi",
        "--trace=cuda",
        "--",
        "a b",
    ),
    "nsys_stats": ("nsys/stats.sh", "--report", "cuda_gpu_trace,nvtx_sum,um_sum", "REPORT"),
    "nsys_stats_csv": (
        *("nsys/stats.sh", "--format", "csv", "--filter-time=4s420ms/35s390ms", "--timeunit"),
        *("msec", "--output", "/t", "REPORT"),
    ),
}
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "setup_env_newer": {"TORCHTITAN_VERSION": "0.3.0", "TORCH_VERSION": "2.9.1"},
    "nsys_profile": {"SLURM_PROCID": "3", "SLURM_NODEID": "3", "SLURMD_NODENAME": "nid3"},
    "nsys_range": {"SLURMD_NODENAME": "nid0"},
    "nsys_stats": {"NSYS_IS": "2022.4.2.1-df9881f"},
}


def dry_run(name: str, folder: Path) -> Done:
    """Output with the places of this machine taken out."""
    report = folder / "my report.nsys-rep"
    report.touch()
    tools = folder / "bin"
    stand_in(tools, "nsys", 'echo "NVIDIA Nsight Systems version ${NSYS_IS:-2024.5.1.113-0}"')
    stand_in(tools, "sbatch", "echo sbatch was called >&2; exit 9")
    stand_in(tools, "uv", "echo uv was called >&2; exit 9")
    environment_with(folder / "venv")
    words = [str(report) if word == "REPORT" else word for word in CASES[name]]
    where = {
        **{"PATH": path_with(tools), "SCRATCH": str(folder), "VENV_DIR": str(folder / "venv")},
        **({"CCLTUI_SITE": "perlmutter"} if "run.sh" in words[0] else {}),
        **SETTINGS.get(name, {}),
    }
    if name.startswith("setup_env"):
        where["VENV_DIR"] = str(folder / "new")
    done = script(words[0], "--dry-run", *words[1:], env=where)
    assert sorted(path.name for path in folder.iterdir()) == ["bin", report.name, "venv"]
    return Done(done.status, clean(done.out, folder), clean(done.talk, folder))


def clean(text: str, folder: Path) -> str:
    # A path that a shell has to quote is compared without its quotes.
    quoted = re.escape(str(SBATCH.parent).replace("'", "'\\''"))
    text = re.sub(rf"'{quoted}(/[^' ]*)?'", lambda found: f"{SBATCH.parent}{found[1] or ''}", text)
    places = {str(folder): "$SCRATCH", f"{SBATCH}/": "sbatch/", str(SBATCH): "sbatch"}
    for place, name in {**places, str(SBATCH.parent): "."}.items():
        text = text.replace(place, name)
    # What the card's check says in detail is its own affair.
    return "".join(line for line in text.splitlines(keepends=True) if "card.yaml:" not in line)


@pytest.mark.parametrize("name", CASES)
def test_it_prints_what_it_would_do(name: str, tmp_path: Path) -> None:
    done = dry_run(name, tmp_path)
    text = f"{done.out}--- talk\n{done.talk}--- status {done.status}\n"
    golden = GOLDEN / f"{name}.txt"

    if os.environ.get("CCLTUI_WRITE_GOLDEN") == "yes":
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("recorder", ["FR", "INSPECTOR", "RAS"])
def test_a_job_with_recorders_is_warned_before_its_time_is_over(
    recorder: str, tmp_path: Path
) -> None:
    where = {
        **{"PATH": path_with(tmp_path), "SCRATCH": str(tmp_path), "CCLTUI_SITE": "generic"},
        **{"VENV_DIR": str(environment_with(tmp_path / "venv"))},
    }

    plain = script(LLAMA, "--dry-run", env=where)
    recorded = script(LLAMA, "--dry-run", env={**where, recorder: "1"})
    refused = script(LLAMA, "--dry-run", env={**where, recorder: "on"})

    assert "--signal=" not in plain.out
    assert " --signal=B:TERM@180 " in recorded.out
    assert (refused.status, f"{recorder} is 'on'" in refused.talk) == (2, True)


def test_every_script_with_a_dry_run_is_among_them() -> None:
    able = {
        str(path.relative_to(SBATCH))
        for path in SBATCH.rglob("*.sh")
        if "--dry-run" in path.read_text() and path.parent.name in {"nsys", "sbatch"}
    }

    assert able <= {words[0] for words in CASES.values()} | {"submit_all.sh"}
