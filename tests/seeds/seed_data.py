"""Data for the commands of the seed documents: made by our own demo, trainers and recordings.

Nothing is downloaded. Public traces are read where they are: in the folder of CCLTUI_SHARED.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import runs_by_hand
from nsys_exports import Export

from ccltui.demo import DEMO, Spec, write_job

ROOT: Final = Path(__file__).resolve().parents[2]
SBATCH: Final = ROOT / "sbatch"
GROUP: Final = {
    "llama3.1-8b-torchtitan-tp-perlmutter-16": Spec.quiet(tp=4, pp=1, dp_shard=1, steps=4),
    "deepseek-v2-lite-torchtitan-dp+tp-perlmutter-16": Spec.quiet(tp=2, pp=1, dp_shard=2, steps=4),
    "qwen3-32b-torchtitan-dp+pp-perlmutter-16": Spec.quiet(tp=1, pp=2, dp_shard=2, steps=4),
}
"""Workloads of the documents, and the shape of the synthetic job that stands for each."""
_SECOND: Final = 1_000_000_000
_MILLISECOND: Final = 1_000_000


def has_torch() -> bool:
    """Whether trainers can run here."""
    return find_spec("torch") is not None


def environment(folder: Path) -> dict[str, str]:
    """Variables that the commands use, and the small environment that they run in."""
    scratch = folder / "scratch"
    traces = scratch / "ccl-bench-traces"
    llama, deepseek, qwen = (str(traces / name) for name in GROUP)
    kept = {name: os.environ[name] for name in ("LANG", "TERM") if name in os.environ}
    public = Path(os.environ.get("CCLTUI_SHARED", ROOT.parent / "shared"))
    if (public / "traces").is_dir():
        kept["PUBLIC"] = str(public)
    return {
        **kept,
        "HOME": str(folder / "home"),
        "USER": "me",
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "CCLTUI_CACHE_DIR": str(folder / "cache"),
        "VENV_DIR": sys.prefix,
        "NERSC_HOST": "perlmutter",  # the site that scripts choose unless CCLTUI_SITE names one
        "REPO": str(ROOT),
        "SBATCH": str(SBATCH),
        "SCRATCH": str(scratch),
        "TRACES": str(traces),
        "LLAMA": llama,
        "DEEPSEEK": deepseek,
        "QWEN": qwen,
        "FLAT": str(folder / "flat"),
        "DEMO": str(folder / "demo"),
        "ONE": str(folder / "one_rank"),
        "PLAIN": str(folder / "without_metadata"),
        "SIDE": str(folder / "side"),
        "NSYS_DATA": str(folder / "data"),
        "RUN": str(traces / "tiny-torchtitan-cpu-4"),
        "TINY": str(folder / "tiny-torchtitan-cpu-4"),
        "GPT2": str(folder / "gpt2" / "run"),
        "FSDP": str(folder / "fsdp"),
        "ARTIFACTS": str(folder / "artifacts"),
        "CARDED": str(folder / "titan022_llama_tp2"),
    }


def on_cpus() -> dict[str, str]:
    """Variables with which jobs on the private Slurm train our tiny model, as its only user."""
    return {
        "CCLTUI_SITE": "generic",
        "SITE_DEVICE": "cpu",
        "SITE_ACCOUNT": "m1234",
        "SITE_CONSTRAINT": "gpu",
        "SITE_CPUS_PER_TASK": "2",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "CCLTUI_SBATCH": str(SBATCH),
        "CCLTUI_TRAIN_PROGRAM": str(ROOT / "tests" / "slurm" / "tiny_train.py"),
        "NERSC_HOST": "",
        "USER": "root",
    }


def make(folder: Path, *, trainers: bool) -> None:
    """Write all data below a folder; those of trainers only if they are asked for."""
    names = environment(folder)
    for name in ("HOME", "SCRATCH", "TRACES", "NSYS_DATA", "SIDE", "ARTIFACTS"):
        Path(names[name]).mkdir(parents=True, exist_ok=True)
    write_job(Path(names["DEMO"]), DEMO)
    for name, spec in GROUP.items():
        write_job(Path(names["TRACES"]) / name, spec)
    write_job(Path(names["PLAIN"]), Spec(steps=3, metadata="names_only", stragglers=()))
    _flat(Path(names["LLAMA"]), Path(names["FLAT"]))
    one = Path(names["ONE"])
    one.mkdir(exist_ok=True)
    shutil.copy(Path(names["LLAMA"]) / "kineto_trace_0.json.gz", one)
    _side(Path(names["SIDE"]))
    _reports(Path(names["NSYS_DATA"]))
    _artifacts(Path(names["ARTIFACTS"]), names)
    if "PUBLIC" in names:
        _carded(Path(names["PUBLIC"]), Path(names["CARDED"]))
    if trainers:
        _train(folder, names)


def _carded(public: Path, folder: Path) -> None:
    """A public job of torchtitan with the card that it lacks: its traces look up 2 x 64 tokens."""
    folder.mkdir()
    (folder / "profile_trace").symlink_to(public / "recorded" / folder.name / "profile_trace")
    (folder / "workload_card.yaml").write_text(
        "workload:\n  data: {batch_size: 2, batch_size_scope: global, seq_len: 64}\n"
        "Model-executor:\n  model_plan_parallelization: {tp: 2}\n"
    )


def _flat(job: Path, folder: Path) -> None:
    """The layout of the documents: ``profile_trace/*rankN*.json``, without links."""
    (folder / "profile_trace").mkdir(parents=True)
    for path in job.glob("kineto_trace_*.json.gz"):
        rank = path.name.split(".")[0].rpartition("_")[2]
        shutil.copy(path, folder / "profile_trace" / f"trace_rank{rank}.json.gz")


def _side(folder: Path) -> None:
    """Results of a serving benchmark, and loads of experts."""
    served = {"backend": "vllm", "completed": 3, "ttfts": [0.01, 0.02, 0.03]}
    served |= {"itls": [[0.001] * 4] * 3, "output_lens": [5, 5, 5], "mean_ttft_ms": 20.0}
    (folder / "vllm_result.json").write_text(json.dumps(served))
    for rank in range(2):
        load = {"rank": rank, "token_counts": [10 + rank, 30 - rank]}
        (folder / f"moe_assignments_rank{rank}.json").write_text(json.dumps(load))
    export = Export()
    export.process(100).kernel("void gemm<float>(float*)", 0, _SECOND)
    export.add("TARGET_INFO_GPU_METRICS", typeId=0, metricId=4, metricName="SM Active")
    for at in range(10):
        export.add("GPU_METRICS", timestamp=at * _SECOND // 10, typeId=0, metricId=4, value=50 + at)
    (folder / "sm").mkdir()
    export.write(folder / "sm" / "counters.sqlite")


def _reports(folder: Path) -> None:
    """Exports of the three recordings of the documents, with an exchange every half second."""
    for name, devices, seconds in (
        ("single_1x8_350M", 8, 40),
        ("multi_8x4_1.3B", 4, 15),
        ("multi_8x4_350M", 4, 15),
    ):
        export = Export(host=name)
        processes = [export.process(100 + device) for device in range(devices)]
        for at in range(0, seconds * _SECOND, _SECOND // 2):
            for device, process in enumerate(processes):
                late = (7 * device + at // _SECOND) % devices * _MILLISECOND
                process.kernel("void gemm<float>(float*)", at, at + _MILLISECOND, device=device)
                process.kernel(
                    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)",
                    at + 2 * _MILLISECOND + late,
                    at + 30 * _MILLISECOND,
                    device=device,
                    stream=20,
                )
        export.write(folder / f"{name}.sqlite")


def _artifacts(folder: Path, names: Mapping[str, str]) -> None:
    """The folders of two runs with their texts of ``nsys stats``, as they would be checked in."""
    first, second = runs_by_hand.pair(folder)
    shapes = ((first, 40, 539, 408, 30), (second, 4, 539, 168, 13))
    for run, window, backward, reduction, calls in shapes:
        export = Export(host="gn-0011")
        process = export.process(100)
        process.domain(1, "NCCL")
        for at in range(window):
            begin = at * _SECOND
            process.range(
                "DeepSpeedEngine.backward", begin, begin + backward * _MILLISECOND, domain=0
            )
            process.range(
                "DeepSpeedEngine.allreduce_gradients",
                begin + _MILLISECOND,
                begin + reduction * _MILLISECOND,
            )
            for step in range(calls):
                start = begin + (2 + step) * _MILLISECOND
                process.range("ncclAllReduce", start, start + _MILLISECOND // 2, domain=1)
            process.os_call("poll", begin, begin + _SECOND // 2)
            process.kernel("void gemm<float>(float*)", begin, begin + _MILLISECOND, launched=begin)
        (run / "profiles").mkdir()
        database = export.write(folder.parent / f"{run.name}.sqlite")
        reports = "nvtx_sum,osrt_sum,cuda_api_sum"
        text = _output([*_ccltui(), "stats", str(database), "--report", reports], names)
        (run / "profiles" / "nsys_stats_gn-0011.txt").write_text(text)
    (first / "nccl_rank_gn-0011_100.log").write_text(
        "gn-0011:100:100 [0] NCCL INFO NCCL version 2.27.5+cuda12.8\n"
        "gn-0011:100:101 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:10.0.0.1<0>\n"
        "gn-0011:100:101 [0] NCCL INFO Using network IB\n"
    )


def _train(folder: Path, names: Mapping[str, str]) -> None:
    """Train three models of a few thousand parameters on CPUs through our own scripts."""
    workload = folder / "tiny-torchtitan-cpu-4"
    shutil.copytree(ROOT / "tests" / "slurm" / "tiny_workload", workload)
    template = SBATCH / "workloads" / "llama3.1-8b-torchtitan-tp-perlmutter-16"
    for name in ("run.sbatch", "run.sh"):
        shutil.copy(template / name, workload)
    cpus = {
        "CCLTUI_SITE": "generic",
        "SITE_DEVICE": "cpu",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "CCLTUI_SBATCH": str(SBATCH),
    }
    program = str(ROOT / "tests" / "slurm" / "tiny_train.py")
    _output(
        [
            *("bash", str(SBATCH / "lib" / "submit.sh"), str(workload), "--local"),
            *("--train-program", program),
        ],
        {**names, **cpus, "SITE_GPUS_PER_NODE": "4"},
        check=False,  # traces of CPUs have no device events, which its check reports
    )
    gpt2 = folder / "gpt2"
    gpt2.mkdir()
    texts = ("--train", str(ROOT / "README.md"), "--val", str(ROOT / "LICENSE"))
    prepare = str(SBATCH / "gpt2_deepspeed" / "scripts" / "preprocess_small.py")
    _output([sys.executable, prepare, *texts, "--output", str(gpt2)], names)
    tiny = "--plain_ddp --n_layer 2 --n_head 2 --n_embd 16 --seq_len 32"
    _output(
        ["bash", str(SBATCH / "gpt2_deepspeed" / "run_2node_8gpu.sbatch")],
        {
            **names,
            **cpus,
            "RUN_DIR": names["GPT2"],
            "DATA_DIR": str(gpt2),
            "GPUS_PER_NODE": "2",
            "GPT2_EXTRA_ARGS": f"{tiny} --profile_mode --max_train_steps 6 --max_val_steps 2",
        },
    )
    (Path(names["FSDP"]) / "logs").mkdir(parents=True)
    sizes = "--n-embd 16 --n-layer 2 --n-head 2 --seq-length 16 --max-steps 4 --profile-steps 1"
    log = _output(
        [
            *("bash", str(SBATCH / "fsdp_benchmark" / "slurm_submit.sh")),
            *("--text", str(ROOT / "LICENSE"), *sizes.split()),
        ],
        {
            **names,
            **cpus,
            "GPUS_PER_NODE": "2",
            "BENCHMARK_ARGUMENTS": "--message-mib 1 --storage-mib 8 --storage-workers 2",
        },
        cwd=Path(names["FSDP"]),
    )
    (Path(names["FSDP"]) / "logs" / "train_local.out").write_text(log)  # Slurm's work


def _ccltui() -> tuple[str, ...]:
    return (sys.executable, "-P", "-m", "ccltui")


def _output(
    command: list[str], env: Mapping[str, str], *, cwd: Path | None = None, check: bool = True
) -> str:
    done = subprocess.run(
        command,
        check=False,
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout
