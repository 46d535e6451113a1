"""What keeps a job from training, or from leaving traces."""

from __future__ import annotations

from pathlib import Path

import pytest
from memory import Model, check_memory, peak_bytes, state_bytes
from plan_checks import Problem, check_model, check_plan, check_recording
from train_config import TrainConfig, read_train_config

PROFILED = "[profiling]\nenable_profiling = true\n"


def config(
    folder: Path, *, profiling: str = PROFILED, degrees: str = "", rest: str = ""
) -> TrainConfig:
    path = folder / "train_config.toml"
    plan = f"[parallelism]\ndata_parallel_shard_degree = 1\n{degrees}"
    path.write_text(f"{profiling}{plan}{rest}")
    return read_train_config(path)


def problems(
    found: TrainConfig, *, world_size: int = 1, torch_profiler: bool = True
) -> list[Problem]:
    return list(check_plan(found, world_size=world_size, torch_profiler=torch_profiler))


def test_a_sound_plan_has_no_problem(tmp_path: Path) -> None:
    assert problems(config(tmp_path)) == []


def test_degrees_must_make_the_ranks_of_the_job(tmp_path: Path) -> None:
    found = config(tmp_path, degrees="tensor_parallel_degree = 4\n")

    (problem,) = problems(found, world_size=8)

    assert problem.level == "error"
    assert "make 4 ranks, the job has 8" in problem.what


def test_a_profiler_switched_off_is_an_error_but_for_nsys(tmp_path: Path) -> None:
    found = config(tmp_path, profiling="")

    (problem,) = problems(found)

    assert problem == Problem(
        "error",
        f"{tmp_path}/train_config.toml switches the profiler off, so there would be no traces",
        "set enable_profiling = true in [profiling]",
    )
    assert problems(found, torch_profiler=False) == []


def test_a_job_that_ends_before_the_first_trace_is_refused(tmp_path: Path) -> None:
    found = config(tmp_path, rest="[training]\nsteps = 9\n")

    (problem,) = problems(found)

    assert problem.level == "error"
    assert problem.what == "the first trace is written at step 10, the job ends at step 9"


def test_a_schedule_without_room_for_its_window_is_refused(tmp_path: Path) -> None:
    found = config(tmp_path, profiling=PROFILED + "profile_freq = 5\nprofiler_active = 3\n")

    (problem,) = problems(found)

    assert "profile_freq 5 leaves no room for profiler_warmup + profiler_active = 6" in problem.what


@pytest.mark.parametrize(
    ("batch", "micro", "level"), [(4, 1, None), (3, 1, "warning"), (4, 3, "error"), (8, 2, None)]
)
def test_micro_batches_fill_the_stages(
    tmp_path: Path, batch: int, micro: int, level: str | None
) -> None:
    found = config(
        tmp_path,
        degrees=f"pipeline_parallel_degree = 4\npipeline_parallel_microbatch_size = {micro}\n",
        rest=f"[training]\nlocal_batch_size = {batch}\n",
    )

    assert [problem.level for problem in problems(found, world_size=4)] == (
        [level] if level else []
    )


@pytest.mark.parametrize(
    ("steps", "refused"),
    [
        ("11-15", None),
        ("1-20", None),
        ("none", None),
        ("16-21", "nsys is to record steps 16-21, the job ends at step 20"),
        ("soon", "NSYS_STEPS is 'soon', not FIRST-LAST as in 11-15"),
    ],
)
def test_nsys_records_steps_that_the_job_makes(
    tmp_path: Path, steps: str, refused: str | None
) -> None:
    found = list(check_recording(config(tmp_path, rest="[training]\nsteps = 20\n"), steps))

    assert [(problem.level, problem.what) for problem in found] == (
        [("error", refused)] if refused else []
    )


def test_data_that_are_not_there_are_missed_before_the_job_waits(tmp_path: Path) -> None:
    absent = config(tmp_path, rest='[training]\ndataset_path = "/absent/corpus"\n')
    (problem,) = problems(absent)
    assert (problem.level, problem.what) == ("error", "no data in /absent/corpus")

    present = config(tmp_path, rest=f'[training]\ndataset_path = "{tmp_path}"\n')
    assert problems(present) == []


def test_data_that_cannot_be_fetched_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    (problem,) = problems(config(tmp_path, rest='[training]\ndataset = "c4"\n'))

    assert problem.level == "warning"
    assert "the data set c4 is fetched while training, but HF_HUB_OFFLINE is set" in problem.what


@pytest.mark.parametrize(("model", "refused"), [("qwen3", True), ("llama3", False)])
def test_models_that_cannot_be_pipelined_are_refused(
    tmp_path: Path, model: str, refused: bool
) -> None:
    found = config(
        tmp_path, degrees="pipeline_parallel_degree = 2\n", rest=f'[model]\nname = "{model}"\n'
    )

    assert bool(list(check_model(found, "0.2.2"))) is refused


@pytest.mark.parametrize(("flavor", "refused"), [("32B", False), ("1.7B", True)])
def test_an_imported_module_pipelines_flavors_without_tied_weights(
    tmp_path: Path, flavor: str, refused: bool
) -> None:
    model = f'[model]\nname = "qwen3"\nflavor = "{flavor}"\n'
    imported = '[experimental]\ncustom_import = "ccltui_qwen3"\n'
    found = config(tmp_path, degrees="pipeline_parallel_degree = 2\n", rest=model + imported)

    assert bool(list(check_model(found, "0.2.2"))) is refused


@pytest.mark.parametrize(
    ("degrees", "refused"),
    [
        ("data_parallel_replicate_degree = 2\n", False),
        ("data_parallel_replicate_degree = 2\ntensor_parallel_degree = 2\n", True),
        ("data_parallel_replicate_degree = 1\ntensor_parallel_degree = 2\n", False),
    ],
)
def test_replicas_of_llama_go_with_nothing_else(
    tmp_path: Path, degrees: str, refused: bool
) -> None:
    found = config(tmp_path, degrees=degrees, rest='[model]\nname = "llama3"\n')

    assert bool(list(check_model(found, "0.2.2"))) is refused


@pytest.mark.parametrize(
    ("degrees", "dtype", "ranks", "expected"),
    [
        # 2 for the parameter, 2 for the gradient, 2 + 2 for Adam
        ("", "bfloat16", 1, 8_000_000),
        ("", "float32", 1, 16_000_000),
        ("tensor_parallel_degree = 4\n", "bfloat16", 4, 2_000_000),
        ("tensor_parallel_degree = 2\npipeline_parallel_degree = 2\n", "bfloat16", 4, 2_000_000),
        # replicas keep the gradients a second time, in buckets
        ("data_parallel_replicate_degree = 2\n", "bfloat16", 2, 10_000_000),
    ],
)
def test_state_is_counted_by_hand(
    tmp_path: Path, degrees: str, dtype: str, ranks: int, expected: int
) -> None:
    found = config(tmp_path, degrees=degrees, rest=f'[training]\ndtype = "{dtype}"\n')

    assert state_bytes(found, num_params=1_000_000, world_size=ranks) == expected


def test_sharding_cuts_what_replicas_keep(tmp_path: Path) -> None:
    path = tmp_path / "train_config.toml"
    path.write_text(
        "[parallelism]\ndata_parallel_shard_degree = -1\ndata_parallel_replicate_degree = 2\n"
        'tensor_parallel_degree = 2\n[training]\ndtype = "bfloat16"\n'
    )

    # 16 ranks: 2 replicas of 2 x 4 shares
    assert state_bytes(read_train_config(path), 1_000_000, world_size=16) == 1_000_000


SMALL = Model(num_params=1 << 30, layers=8, hidden=1024, intermediate=4096, vocabulary=32768)


def check(found: TrainConfig, gpu_memory_gib: float, world_size: int = 1) -> list[Problem]:
    return list(
        check_memory(found, model=SMALL, world_size=world_size, gpu_memory_gib=gpu_memory_gib)
    )


def test_memory_is_told_from_the_size_of_the_gpu(tmp_path: Path) -> None:
    found = config(
        tmp_path,
        rest='[training]\ndtype = "bfloat16"\nlocal_batch_size = 1\nseq_len = 1024\n'
        '[activation_checkpoint]\nmode = "full"\n',
    )  # 8 GiB of state, 0.3 of logits, 0.1 of activations, 3 of the rest

    assert check(found, 80) == []
    assert check(found, 12.1) == []
    (full,) = check(found, 11)
    (hopeless,) = check(found, 9)
    (none,) = check(found, 7.5)
    assert "the job may run out of memory: " in full.what
    assert "take 8.0 GiB, with activations and gathered layers about 11.5 of 11 GiB" in full.what
    assert "the job would run out of memory: " in hopeless.what
    assert "take 8.0 of 7.5 GiB on every GPU: the job would run out of memory" in none.what
    assert [full.level, hopeless.level, none.level] == ["warning", "error", "error"]


PEAK = 'local_batch_size = 4\nseq_len = 1024\ndtype = "bfloat16"\n'


def peak(found: TrainConfig, ranks: int) -> int:
    bytes_needed = peak_bytes(found, SMALL, ranks)
    assert bytes_needed is not None
    return bytes_needed


def test_stages_keep_all_gradients_until_the_last_micro_batch(tmp_path: Path) -> None:
    """By hand: two stages of 4 layers, an embedding each; shares of 2 ranks."""
    rest = f'[training]\n{PEAK}[activation_checkpoint]\nmode = "full"\n'
    degrees = "pipeline_parallel_degree = 2\n"
    path = tmp_path / "train_config.toml"
    path.write_text(f"[parallelism]\ndata_parallel_shard_degree = 2\n{degrees}{rest}")
    layer = ((1 << 30) - 2 * 32768 * 1024) / 8
    params = 4 * layer + 32768 * 1024
    kept = params * (2 + 4) / 2 + params * (2 + 4)  # parameter and moments; gathered and summed
    first = kept + 1024 * (4 * 2 * 2 * 1024 + 2 * (10 * 1024 + 4 * 4096))
    last = kept + 1024 * (4 * 2 * 1024 + 2 * (10 * 1024 + 4 * 4096)) + 1024 * 32768 * 10

    assert peak(read_train_config(path), 4) == round(max(first, last) * 1.02 + 3 * 2**30)


def test_checkpointing_and_cutting_lower_the_peak(tmp_path: Path) -> None:
    full = '[activation_checkpoint]\nmode = "full"\n'
    none = '[activation_checkpoint]\nmode = "none"\n'
    whole = peak(config(tmp_path, rest=f"[training]\n{PEAK}{none}"), 1)
    anew = peak(config(tmp_path, rest=f"[training]\n{PEAK}{full}"), 1)
    cut = peak(
        config(tmp_path, degrees="tensor_parallel_degree = 2\n", rest=f"[training]\n{PEAK}{full}"),
        2,
    )

    assert whole > anew > cut > anew / 2


def test_a_state_kept_on_the_host_is_not_counted_here(tmp_path: Path) -> None:
    (problem,) = check(config(tmp_path, rest="[training]\nenable_cpu_offload = true\n"), 1)

    assert "the memory was not checked" in problem.what


def test_memory_of_an_unknown_optimizer_is_not_guessed(tmp_path: Path) -> None:
    found = config(tmp_path, rest='[optimizer]\nname = "Shampoo"\n')

    (problem,) = check(found, 80)

    assert "the memory was not checked" in problem.what
