"""A run.sbatch as Slurm runs it, with stand-ins for srun, scontrol, nsys and torchrun."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec import Struct
from sbatch_scripts import SBATCH, Done, environment_with, path_with, script, stand_in

from ccltui.parsers.side.workload_card import read_card

REPORT = "NVIDIA Tegra Profiler Report 2025@3@1@90"
TORCHRUN = Path(__file__).parent / "fake_torchrun.sh"
NAME = "llama3.1-8b-torchtitan-tp-perlmutter-16"
WORKLOAD = SBATCH / "workloads" / NAME
LAUNCH = (
    "-P -m torch.distributed.run --nnodes=2 --nproc-per-node=2 --rdzv-id=7042.{profiler} "
    "--rdzv-backend=c10d --rdzv-endpoint=nid0:29542 --rdzv-conf=is_host={host} "
    f"--local-addr=nid{{node}} {SBATCH}/lib/train_with_traces.py torchtitan.train "
    "--job.config_file {traces}/train_config.toml --job.dump_folder {traces} "
    "--model.hf_assets_path {assets}/Llama-3.1-8B"
)


class Job(Struct, frozen=True):
    """Two nodes of two ranks, and what they leave in ``traces``."""

    folder: Path
    traces: Path

    @property
    def record(self) -> Path:
        return self.folder / "record"

    @property
    def assets(self) -> Path:
        return self.folder / "assets"

    def lines(self, name: str) -> list[str]:
        path = self.record / name
        return path.read_text().splitlines() if path.exists() else []

    def with_ccltui(self) -> Job:
        """The same job in an environment that can read what it left."""
        environment_with(self.folder / "venv", before=TORCHRUN.read_text())
        return self

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> Done:
        """The copy of the batch script that Slurm keeps, from where it was submitted."""
        spool = self.folder / "spool" / "slurm_script"
        spool.parent.mkdir(exist_ok=True)
        shutil.copy(WORKLOAD / "run.sbatch", spool)
        return script(spool, *words, env={**self.settings(), **(env or {})})

    def settings(self) -> dict[str, str]:
        return {
            **{"SLURM_JOB_ID": "7042", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "nid[0-1]"},
            **{"SLURM_GPUS_ON_NODE": "2", "SLURM_CPUS_PER_TASK": "16"},
            **{"SLURM_SUBMIT_DIR": str(WORKLOAD), "CCLTUI_SITE": "generic", "SITE_DEVICE": "cpu"},
            **{"VENV_DIR": str(self.folder / "venv"), "TRACE_BASE": str(self.folder / "base")},
            **{"SITE_SCRATCH": str(self.folder), "HF_ASSETS_ROOT": str(self.assets)},
            **{"TRACE_DIR": str(self.traces), "RECORD": str(self.record), "TRAINING": "well"},
            **{"PATH": path_with(self.folder / "bin"), "PYTHONPATH": str(self.folder / "packages")},
        }


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """All that a job needs; each test takes something away."""
    environment_with(tmp_path / "venv", before=TORCHRUN.read_text(), ccltui=False)
    tools = tmp_path / "bin"
    stand_in(tools, "scontrol", "printf '%s\\n' nid0 nid1")
    stand_in(tools, "squeue", "exit 1")
    stand_in(
        tools,
        "srun",
        'export BATCH=$PPID; printf "%s\\n" "$SRUN_CPUS_PER_TASK $*" >>"$RECORD/srun"\n'
        "while [[ $1 == -* ]]; do shift; done\n"
        "for node in 0 1; do\n"
        '    SLURM_NODEID=$node SLURM_PROCID=$node SLURMD_NODENAME=nid$node "$@" || exit\n'
        "done",
    )
    titan = tmp_path / "packages" / "torchtitan"
    titan.mkdir(parents=True)
    (titan / "__init__.py").touch()
    about = titan.parent / "torchtitan-0.2.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: torchtitan\nVersion: 0.2.2\n")
    made = Job(tmp_path, tmp_path / "traces")
    made.record.mkdir()
    (made.assets / "Llama-3.1-8B").mkdir(parents=True)
    (made.assets / "Llama-3.1-8B" / "tokenizer.json").write_text("{}")
    return made


def launch(job: Job, profiler: str, node: int) -> str:
    host = str(node == 0).lower()
    words = LAUNCH.format(
        profiler=profiler, node=node, host=host, traces=job.traces, assets=job.assets
    )
    return f"{profiler} {node} {words}"


def test_one_launcher_a_node_meets_at_the_first(job: Job) -> None:
    done = job.run("--training.steps", "40")

    assert done.status == 0, done.talk
    assert job.lines("srun") == [
        "16 --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=1 "
        f"bash {SBATCH}/lib/launch_node.sh --job.config_file {job.traces}/train_config.toml "
        f"--job.dump_folder {job.traces} --model.hf_assets_path {job.assets}/Llama-3.1-8B "
        "--training.steps 40"
    ]
    assert job.lines("launches") == [
        f"{launch(job, 'torch', 0)} --training.steps 40",
        f"{launch(job, 'torch', 1)} --training.steps 40",
    ]


def test_dumps_of_a_time_out_lie_beside_the_traces_and_missing_ones_are_named(job: Job) -> None:
    """The stand-in of srun ends with its first node, so that ranks 2 and 3 leave nothing."""
    env = {
        "TRAINING": "timed-out",
        "FR": "1",
        "RECORDS_WAIT_S": "1",
        "RECORDS_TMP": str(job.folder),
    }

    done = job.run(env=env)

    assert done.status == 1, done.talk
    records = job.traces / "records" / "torch"
    dumps = [records / f"nccl_trace_rank_{rank}" for rank in (0, 1)]
    assert [dump.read_bytes() for dump in dumps] == [b"\x80\x02}."] * 2
    assert "torch: dumps of 2 of 4 ranks" in done.talk
    assert "missing: dumps of ranks 2 3 of torch" in done.talk
    assert f"next: ccltui explain {job.traces}\n" in done.talk
    known = json.loads((job.traces / "launcher_metadata.json").read_text())
    assert known["switches"] == {"FR": "1"}
    told = dict(line.split("=", 1) for line in job.lines("recorders"))
    assert told["TORCH_FR_BUFFER_SIZE"] == told["TORCH_NCCL_TRACE_BUFFER_SIZE"] == "2000"


def test_recorders_leave_a_run_that_ends_well_as_it_is(job: Job) -> None:
    done = job.run(env={"FR": "1", "RECORDS_TMP": str(job.folder)})

    assert done.status == 0, done.talk
    assert len(job.lines("launches")) == 2
    assert "dumps of 0 of 4 ranks" in done.talk


def test_a_run_is_read_before_it_is_called_a_success(job: Job) -> None:
    done = job.with_ccltui().run()

    assert done.status == 0, done.talk
    assert "verify_traces: ranks: ok, all 4 ranks" in done.talk
    assert "verify_traces: all that profile mode torch promises is there" in done.talk


def test_what_a_run_that_ends_well_says_and_leaves(job: Job) -> None:
    done = job.run()

    assert done.status == 0, done.talk
    assert "not checked: what is in the files" in done.talk
    assert "the memory was not checked" not in done.talk  # it trains on the CPU
    assert "the card was not compared with the configuration" in done.talk
    for rank in range(4):  # links lead to the last capture of all ranks
        kineto = job.traces / f"kineto_trace_{rank}.json"
        execution = job.traces / f"torch_et_{rank}.json"
        assert str(kineto.readlink()) == f"profile_trace/iteration_20/rank{rank}_trace.json"
        assert str(execution.readlink()) == f"profile_trace/iteration_20/torch_et_{rank}.json"
        assert json.loads(kineto.read_text())["distributedInfo"]["rank"] == rank
    card, config = "workload_card.yaml", "train_config.toml"
    assert (job.traces / card).read_bytes() == (WORKLOAD / card).read_bytes()
    assert (job.traces / config).read_bytes() == (WORKLOAD / config).read_bytes()
    known = json.loads((job.traces / "launcher_metadata.json").read_text())
    assert known["world_size"] == 4
    assert known["rank0_host"] == "nid0"
    assert known["slurm"] == {
        "job_id": "7042",
        "nodelist": "nid[0-1]",
        "hosts": "nid0\nnid1",
    }
    assert known["env"] == {"MASTER_ADDR": "nid0", "MASTER_PORT": "29542"}
    assert len(list(job.traces.glob(f"{NAME}_*_torch.log"))) == 1
    mark = (job.traces / "RUN_COMPLETE.txt").read_text()
    assert re.fullmatch(
        r"RUN_COMPLETE world_size=4 total_wall_time_sec=\d+ timestamp_utc=\d{4}-\S+Z\n", mark
    )


@pytest.mark.parametrize(
    "words", [("--training.seq_len", "64"), ("--training.seq_len=64",), ("--training.seq-len=64",)]
)
def test_a_run_says_what_its_arguments_made_of_the_workload(
    job: Job, words: tuple[str, ...]
) -> None:
    done = job.run(*words)

    assert done.status == 0, done.talk
    assert "will not know" not in done.talk
    known = json.loads((job.traces / "launcher_metadata.json").read_text())
    assert known["train_arguments"] == list(words)
    assert known["train_config"]["training.seq_len"] == 64
    assert known["train_config"]["training.local_batch_size"] == 2
    assert known["train_config"]["parallelism.tensor_parallel_degree"] == 4
    before = (WORKLOAD / "workload_card.yaml").read_text()
    after = (job.traces / "workload_card.yaml").read_text()
    assert after == before.replace(
        "seq_len: 2048\n", "seq_len: 64  # 2048 in the card of the workload\n"
    )


def test_the_card_of_a_run_follows_batches_and_degrees(job: Job) -> None:
    done = job.run(
        *("--training.local_batch_size", "8", "--parallelism.tensor_parallel_degree=2"),
        *("--parallelism.data_parallel_shard_degree", "-1", "--training.steps=40"),
    )

    assert done.status == 0, done.talk
    card = read_card(job.traces / "workload_card.yaml")
    assert (card.tp, card.dp_shard, card.dp_replicate, card.pp) == (2, 2, 1, 1)
    assert (card.batch_size, card.batch_size_scope) == (16, "global")
    assert (card.iteration, card.seq_len, card.total_count) == (40, 2048, 4)


def test_what_the_card_of_a_run_does_not_follow_is_said(job: Job) -> None:
    done = job.run("--model.flavor=debugmodel", "--training.seq_len=64")

    assert "the workload card beside the traces will not know of --model.flavor=debugmodel" in (
        done.talk
    )
    assert "--training.seq_len" not in done.talk.partition("will not know")[2].partition("\n")[0]


def test_both_are_two_runs_and_never_share_one(job: Job) -> None:
    stand_in(
        job.folder / "bin",
        "nsys",
        'printf "%s\\n" "$*" >>"$RECORD/nsys"\n'
        'for word in "$@"; do [[ $word != --output=* ]] || '
        f"printf '%-2000s' '{REPORT}' >\"${{word#*=}}.nsys-rep\"; done\n"
        'while [[ $1 == -* || $1 == profile ]]; do shift; done\nexec "$@"',
    )

    done = job.run(env={"PROFILE_MODE": "both", "SITE_DEVICE": "cpu"})

    assert done.status == 0, done.talk
    ran = job.lines("launches")
    assert [line.split()[:2] for line in ran] == [
        *(["torch", "0"], ["torch", "1"], ["nsys", "0"], ["nsys", "1"]),
    ]
    assert ["--profiling.no-enable-profiling" in line for line in ran] == [False, False, True, True]
    assert len(job.lines("nsys")) == 2
    reports = sorted(path.name for path in job.traces.glob("*.nsys-rep"))
    assert [name.removeprefix(NAME)[16:] for name in reports] == [
        "_node0_nid0.nsys-rep",
        "_node1_nid1.nsys-rep",
    ]


def test_on_gpus_nsys_waits_for_whole_steps(job: Job) -> None:
    stand_in(job.folder / "bin", "nsys", 'printf "%s\\n" "$*" >>"$RECORD/nsys"')

    job.run(env={"PROFILE_MODE": "nsys", "SITE_DEVICE": "cuda", "NSYS_SCRIBE": "1"})

    (recorded,) = job.lines("nsys")
    assert "--capture-range=cudaProfilerApi --capture-range-end=stop" in recorded
    assert "_node1_nid1 " in recorded
    assert "--delay" not in recorded
    assert [line.split()[1] for line in job.lines("launches")] == ["0"]


def test_by_the_clock_no_steps_are_counted(job: Job) -> None:
    stand_in(job.folder / "bin", "nsys", 'printf "%s\\n" "${NSYS_STEPS-} $*" >>"$RECORD/nsys"')

    job.run(env={"PROFILE_MODE": "nsys", "SITE_DEVICE": "cuda", "NSYS_STEPS": "none"})

    for recorded in job.lines("nsys"):
        assert recorded.startswith(" profile ")
        assert "--delay=120 --duration=15" in recorded
    assert len(job.lines("nsys")) == 2


@pytest.mark.parametrize(("signal", "status"), [("USR1", 138), ("TERM", 143)])
def test_a_job_that_is_asked_to_end_keeps_its_traces_and_says_so(
    job: Job, signal: str, status: int
) -> None:
    """As Slurm does before it preempts a job, and at the end of its time."""
    stand_in(job.folder / "bin", "nsys", "exit 9")

    done = job.run(env={"TRAINING": "asked-to-end", "SIGNAL": signal, "PROFILE_MODE": "both"})

    assert done.status == status, done.talk
    assert [line.split()[0] for line in job.lines("launches")] == ["torch"]
    for rank in range(4):
        kineto = job.traces / f"kineto_trace_{rank}.json"
        assert str(kineto.readlink()) == f"profile_trace/iteration_20/rank{rank}_trace.json"
    assert f"error: SIG{signal} ended the training before its last step" in done.talk
    assert "verify_traces: kineto traces linked: 4 of 4 ranks" in done.talk
    assert not (job.traces / "RUN_COMPLETE.txt").exists()


def test_a_full_disk_ends_a_job_before_it_trains(job: Job) -> None:
    stand_in(job.folder / "bin", "head", "exit 1")

    done = job.run()

    assert done.status == 1, done.talk
    assert (
        f"error: there is no room for traces in {job.traces}\n    fix: look at df -h" in done.talk
    )
    assert job.lines("launches") == []


def test_a_disk_that_fills_while_it_trains_is_named(job: Job) -> None:
    stand_in(job.folder / "bin", "head", 'if [[ -e "$RECORD/launches" ]]; then exit 1; fi')

    done = job.run(env={"TRAINING": "without-traces"})

    assert done.status == 4, done.talk
    assert f"error: there is no room left for traces in {job.traces}" in done.talk


def test_a_failing_rank_ends_the_job_with_its_status(job: Job) -> None:
    done = job.run(env={"TRAINING": "failing", "PROFILE_MODE": "torch"})

    assert done.status == 3
    assert not (job.traces / "RUN_COMPLETE.txt").exists()
    assert "error: training ended with status 3" in done.talk
    assert len(job.lines("launches")) == 1


def test_a_failed_first_run_is_not_followed_by_the_second(job: Job) -> None:
    stand_in(job.folder / "bin", "nsys", "exit 9")

    done = job.run(env={"TRAINING": "failing", "PROFILE_MODE": "both"})

    assert done.status == 3


@pytest.mark.parametrize(
    ("training", "missing"),
    [
        ("without-et", "missing: torch_et_R.json of rank 0 1 2 3"),
        ("without-traces", "missing: kineto_trace_R.json of rank 0 1 2 3 (did training reach"),
    ],
)
def test_training_without_traces_is_no_success(job: Job, training: str, missing: str) -> None:
    done = job.run(env={"TRAINING": training})

    assert done.status == 4
    assert missing in done.talk


def test_a_trace_without_gpu_events_is_no_success_on_gpus(job: Job) -> None:
    done = job.with_ccltui().run(env={"SITE_DEVICE": "cuda"})

    assert done.status == 4
    assert "missing: GPU events: CPU-only trace: ranks 0, 1, 2 and 3" in done.talk


def test_an_earlier_run_is_moved_aside_and_never_mixed_in(job: Job) -> None:
    job.traces.mkdir()
    (job.traces / "kineto_trace_9.json").write_text("old")

    done = job.run()

    assert done.status == 0, done.talk
    assert not (job.traces / "kineto_trace_9.json").exists()
    (aside,) = (job.folder / "previous").iterdir()
    assert (aside / "kineto_trace_9.json").read_text() == "old"


def test_a_folder_that_another_job_writes_to_is_refused(job: Job) -> None:
    job.traces.mkdir()
    (job.traces / ".job_id").write_text("7041\n")
    stand_in(job.folder / "bin", "squeue", "echo RUNNING")

    done = job.run()

    assert done.status == 1
    assert f"error: job 7041 is writing to {job.traces}" in done.talk
    assert job.lines("launches") == []


@pytest.mark.parametrize(
    ("change", "status", "error", "fix"),
    [
        ({"VENV_DIR": "/absent"}, 1, "no Python environment in /absent", "setup_env.sh once"),
        ({"HF_ASSETS_ROOT": "/absent"}, 1, "no tokenizer in /absent/Llama", "--with-models"),
        ({"PYTHONPATH": ""}, 1, "has no module torchtitan.train", "run "),
        ({"CCLTUI_SITE": "nowhere"}, 2, "no site profile", "perlmutter"),
        ({"PROFILE_MODE": "kineto"}, 2, "PROFILE_MODE is 'kineto'", "torch nsys both"),
        ({"PROFILE_MODE": "nsys", "PATH": ""}, 1, "needs nsys", "--profile torch"),
        (
            {"PROFILE_MODE": "both", "SITE_DEVICE": "cuda", "NSYS_STEPS": "90-95"},
            *(3, "this workload would not run", "see above"),
        ),
        ({"SLURM_NNODES": "3"}, 3, "this workload would not run", "see above"),
        ({"SITE_ACCOUNT_NEEDED": "yes"}, 2, "no account to charge on generic", "--account"),
        ({"CCLTUI_TRAIN_PROGRAM": "/absent.py"}, 1, "no training program", "--train-program"),
    ],
)
def test_what_is_missing_is_named_with_its_fix(
    job: Job, change: dict[str, str], status: int, error: str, fix: str
) -> None:
    if "PATH" in change:
        change = {**change, "PATH": f"{job.folder / 'bin'}:/usr/bin:/bin"}

    done = job.run(env=change)

    assert done.status == status, done.talk
    told = done.talk.splitlines()
    (at,) = [index for index, line in enumerate(told) if ": error: " in line]
    assert error in told[at]
    assert told[at + 1].startswith("    fix: ")
    assert fix in told[at + 1]
    assert job.lines("launches") == []


def changed(job: Job, *pairs: tuple[str, str]) -> Path:
    """A copy of the workload, elsewhere, with other text in its configuration."""
    copy = job.folder / "mine"
    shutil.copytree(WORKLOAD, copy)
    text = (copy / "train_config.toml").read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (copy / "train_config.toml").write_text(text)
    return copy


def test_the_card_of_a_run_follows_the_configuration_of_the_run(job: Job) -> None:
    copy = changed(
        job, ("steps = 80", "steps = 40"), ("local_batch_size = 2", "local_batch_size = 4")
    )

    done = job.with_ccltui().run(env={"CCLTUI_WORKLOAD_DIR": str(copy)})

    assert done.status == 0, done.talk
    assert "note: the card of the run: workload.model.iteration 40, 80 in that of the" in done.talk
    card = read_card(job.traces / "workload_card.yaml")
    assert (card.iteration, card.batch_size) == (40, 4)


def test_a_configuration_of_another_model_contradicts_the_card(job: Job) -> None:
    copy = changed(job, ('flavor = "8B"', 'flavor = "70B"'), ('"llama3"', '"qwen3"'))

    done = job.with_ccltui().run(env={"CCLTUI_WORKLOAD_DIR": str(copy)})

    assert "error: the workload card contradicts the configuration" in done.talk
    assert done.status == 3


@pytest.mark.parametrize(
    "value",
    [
        r"a\nnodes=a[$(touch {mark})]",
        r"a\ngpus_per_node=x[$(touch {mark})]\nb",
        "$(touch {mark})",
        "`touch {mark}`",
        r"a\u2028b",
        r"a\rnodes=2",
    ],
)
def test_a_value_of_the_configuration_is_never_executed(job: Job, value: str) -> None:
    mark = job.folder / "executed"
    text = value.format(mark=mark)
    copy = changed(job, ('"./assets/hf/Llama-3.1-8B"', f'"{text}"'))

    done = job.run(env={"CCLTUI_WORKLOAD_DIR": str(copy)})

    assert not mark.exists()
    assert done.status in {1, 3}  # no such tokenizer, or a text of more than a line
    if "\\" in value:
        assert "model.hf_assets_path is" in done.talk
        assert "a text of one line without control characters" in done.talk


def test_what_counts_ranks_and_ports_is_a_number(job: Job) -> None:
    mark = job.folder / "executed"

    for name in ("MASTER_PORT", "GPUS_PER_NODE", "SLURM_NNODES"):
        done = job.run(env={name: f"a[$(touch {mark})]"})
        assert done.status == 2, done.talk
        assert "give a whole number from 1 on" in done.talk
    assert not mark.exists()


def test_a_job_on_gpus_that_are_too_small_ends_before_it_trains(job: Job) -> None:
    stand_in(job.folder / "bin", "nvidia-smi", r"printf '81920\n20480\n'")

    done = job.run(env={"SITE_DEVICE": "cuda", "SITE_LARGE_CONSTRAINT": "big&gpu"})

    assert done.status == 3
    assert "the job would run out of memory" in done.talk
    assert "note: the site has larger GPUs: --constraint 'big&gpu'" in done.talk
    assert "about 25.6 of 20 GiB on every GPU" in done.talk


def test_without_an_nsys_the_pytorch_profiler_runs_alone_and_that_is_said(job: Job) -> None:
    tools = f"{job.folder / 'bin'}:/usr/bin:/bin"

    done = job.run(env={"SITE_DEVICE": "cuda", "PATH": tools})

    assert "warning: no nsys on the PATH of " in done.talk
    assert {line.split()[0] for line in job.lines("launches")} == {"torch"}


def test_by_default_each_profiler_has_a_run(job: Job) -> None:
    stand_in(job.folder / "bin", "nsys", 'printf "%s\\n" "$*" >>"$RECORD/nsys"')

    job.run(env={"SITE_DEVICE": "cuda"})

    assert [line.split()[0] for line in job.lines("launches")] == ["torch", "torch"]
    assert len(job.lines("nsys")) == 2  # the stand-in trains nothing


def test_a_copy_elsewhere_finds_the_scripts_by_a_file_beside_it(job: Job) -> None:
    copy = changed(job)
    (copy / "CCLTUI_SBATCH").write_text(f"{SBATCH}\n")
    told = f"   Command={copy}/run.sbatch --training.steps 40"
    stand_in(job.folder / "bin", "scontrol", f"[[ $2 != job ]] && echo nid0 || echo '{told}'")

    done = job.run("--training.steps", "40", env={"SLURM_SUBMIT_DIR": "/"})

    assert done.status == 0, done.talk
    assert f"workload {copy}, site generic" in done.talk


@pytest.mark.parametrize("where", ["workloads", "", "..", f"workloads/{NAME}"])
def test_the_scripts_are_found_from_where_the_job_was_submitted(job: Job, where: str) -> None:
    done = job.run(env={"SLURM_SUBMIT_DIR": str(SBATCH / where), "VENV_DIR": "/absent"})

    assert "no Python environment in /absent" in done.talk


def test_elsewhere_the_scripts_are_not_found_and_that_is_said(job: Job) -> None:
    done = job.run(env={"SLURM_SUBMIT_DIR": str(job.folder)})

    assert done.status == 2
    assert "submit it with run.sh" in done.talk
