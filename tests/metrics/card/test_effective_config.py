"""Values of a run where card, configuration, arguments, log and traces contradict each other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from factories import Coll, allreduce, card, rank_trace, world
from factories import job as fake_job
from msgspec.structs import replace

from ccltui.demo import Spec, write_job
from ccltui.metrics.card.effective_config import run_config, traced_degrees
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import ProcessGroup
from ccltui.parsers.discovery.run_settings import RunSource, run_sources
from ccltui.parsers.found_files import Capture, Discovery
from ccltui.parsers.job import Job, open_job
from ccltui.parsers.side.workload_card import read_card

# 8 ranks: 2 stages, 2 data-parallel ranks, 2 tensor-parallel; a step takes 37.048486 ms and 8
# sequences of the job, 4 of a data-parallel rank.
SPEC = Spec(steps=2, layers=2, gpus_per_node=2, stragglers=())
WORKLOADS = Path(__file__).resolve().parents[3] / "sbatch" / "workloads"
NOTHING = Capture("", None, (), (), None, complete=False)
STEP_S = 0.037048486
AS_STATED = 442231.2965771395
SHORT = 8 * 64 / STEP_S
CONFIG = """\
[training]
local_batch_size = 4
global_batch_size = -1
seq_len = 2048
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
pipeline_parallel_degree = 2
pipeline_parallel_microbatch_size = 1
[activation_checkpoint]
mode = "full"
"""
SAID = (
    "[titan] 2026-01-11 20:13:44 - root - INFO - Trainer is initialized with local batch size 4, "
    "global batch size 8, gradient accumulation steps 1, sequence length 64, total steps 20\n"
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("written") / "run"
    write_job(directory, SPEC)
    return directory


@pytest.fixture
def folder(tmp_path: Path, written: Path) -> Path:
    """A run whose card, configuration and traces agree."""
    made = shutil.copytree(written, tmp_path / "run")
    (made / "train_config.toml").write_text(CONFIG)
    return made


def launched(folder: Path, *arguments: str, **more: Any) -> None:
    document = {"world_size": 8, "train_arguments": list(arguments), **more}
    (folder / "launcher_metadata.json").write_text(json.dumps(document))


def logged(folder: Path, tps: Sequence[float], said: str = "") -> None:
    lines = [
        f"[titan] 2026-01-11 20:14:{n:02} - root - INFO - step: {n}  loss: 7.1  "
        f"memory: 1.00GiB(2.00%)  tps: {rate:,}  tflops: 1.00  mfu: 1.00%\n"
        for n, rate in enumerate(tps, 1)
    ]
    (folder / "run_20260111_201344_torch.log").write_text(said + "".join(lines))


def run(folder: Path, metric: str = "throughput_tokens") -> Result:
    return find(metric).run(View(open_job(folder)))


def messages_of(result: Result) -> list[str]:
    return [reason.message for reason in result.reasons if reason.code == "card_conflict"]


def test_sources_that_agree_change_nothing(folder: Path) -> None:
    launched(folder, "--training.seq_len", "2048")
    logged(folder, [30.0, 55_000.0, 54_000.0], SAID.replace("length 64", "length 2048"))

    result = run(folder)

    assert (result.status, result.reasons) == ("ok", ())
    assert result.value == AS_STATED
    assert set(result.details["provenance"].values()) == {"card", "trace"}
    for name in ("mfu", "traffic_distribution", "pipeline_bubble", "traffic_window"):
        assert run(folder, name).status == "ok"


@pytest.mark.parametrize(
    "words", [("--training.seq_len", "64"), ("--training.seq_len=64",), ("--training.seq-len=64",)]
)
def test_a_launch_argument_has_precedence_over_the_card(
    folder: Path, words: tuple[str, ...]
) -> None:
    launched(folder, *words)

    result = run(folder)

    assert result.status == "partial"
    assert result.value == pytest.approx(SHORT)
    assert (result.details["seq_len"], result.details["tokens_per_step"]) == (64, 512)
    assert result.details["provenance"]["seq_len"] == "launch_arguments"
    assert messages_of(result) == [
        "the card states seq_len 2048 (workload.data.seq_len), the launch (launcher_metadata.json) "
        "states seq_len 64: 64 is taken"
    ]


def test_mfu_uses_the_values_of_the_run(folder: Path) -> None:
    before = run(folder, "mfu")
    launched(folder, "--training.seq_len=64")

    result = run(folder, "mfu")

    assert before.value == 14.62876589488142
    # 6 N + 12 L H Q S a token at S = 64 in place of 2048, and a 32nd of the tokens.
    flops = 6 * (before.details["flops_per_token"] - 12 * 2 * 32 * 128 * 2048) // 6
    flops += 12 * 2 * 32 * 128 * 64
    assert result.details["flops_per_token"] == flops
    assert result.value == pytest.approx(
        before.value * flops / before.details["flops_per_token"] / 32
    )
    assert result.status == "partial"


def test_the_configuration_of_the_run_has_precedence_over_the_card(folder: Path) -> None:
    (folder / "train_config.toml").write_text(CONFIG.replace("seq_len = 2048", "seq_len = 64"))

    result = run(folder)

    assert result.status == "partial"
    assert result.value == pytest.approx(SHORT)
    assert result.details["provenance"]["seq_len"] == "train_config"
    assert (
        "the configuration (train_config.toml) states seq_len 64: 64 is taken"
        in messages_of(result)[0]
    )


def test_the_output_of_the_program_has_precedence(folder: Path) -> None:
    launched(folder, "--training.seq_len=128")
    logged(folder, [1.0, 1700.0, 1730.0], SAID)

    result = run(folder)

    log = "run_20260111_201344_torch.log"
    assert result.status == "partial"
    assert result.value == pytest.approx(SHORT)
    assert result.details["provenance"]["seq_len"] == "log"
    assert messages_of(result) == [
        f"what the run wrote ({log}) states seq_len 64, the launch (launcher_metadata.json) states "
        "seq_len 128: 64 is taken",
        f"the card states seq_len 2048 (workload.data.seq_len), what the run wrote ({log}) states "
        "seq_len 64: 64 is taken",
    ]


def test_the_command_in_the_log_equals_launch_metadata(folder: Path) -> None:
    command = (
        "job: node 0 (nid0): python -m torch.distributed.run --nnodes=2 train.py --job.config_file "
        "c.toml --training.seq_len 64\n"
    )
    logged(folder, [1.0, 1700.0, 1730.0], command)

    result = run(folder)

    assert result.status == "partial"
    assert result.value == pytest.approx(SHORT)


def test_an_argument_may_replace_the_configuration(folder: Path) -> None:
    """A card that states what ran is contradicted by nothing."""
    path = folder / "workload_card.yaml"
    path.write_text(path.read_text().replace("seq_len: 2048", "seq_len: 64"))
    launched(folder, "--training.seq_len=64")

    result = run(folder)

    assert result.status == "ok"
    assert result.value == pytest.approx(SHORT)


def test_a_local_batch_size_makes_the_global_one_of_the_card(folder: Path) -> None:
    launched(folder, "--training.local_batch_size", "2")

    result = run(folder)

    assert result.value == pytest.approx(AS_STATED / 2)
    assert result.details["batch_size"] == 4
    assert messages_of(result) == [
        "the card states batch_size 8 (workload.data.batch_size), the launch "
        "(launcher_metadata.json) states local_batch_size 2 on 2 data-parallel ranks: 4 is taken"
    ]
    bubble = run(folder, "pipeline_bubble")
    assert (bubble.status, bubble.details["microbatches"]) == ("partial", 2)


def test_degrees_that_ran_make_the_data_parallel_ranks() -> None:
    stated = card(dp_replicate=1, dp_shard=2, tp=2, pp=2, cp=1)

    merged = run_config(stated, [arguments(tp=4, pp=2, dp_shard=-1)], 8)

    assert {name: ran.value for name, ran in merged.values.items()} == {"tp": 4, "dp_shard": 1}


def test_groups_of_the_traces_have_precedence_over_the_launch(folder: Path) -> None:
    launched(folder, "--parallelism.tensor_parallel_degree", "4")

    result = run(folder)

    # 8 ranks in 2 stages of tp 2: two data-parallel ranks of 4 sequences.
    assert (result.status, result.details["batch_size"]) == ("partial", 8)
    assert messages_of(result) == [
        "the traces (groups of pp and tp) state tp 2, the launch (launcher_metadata.json) states "
        "tp 4: 2 is taken"
    ]
    for name in ("traffic_distribution", "pipeline_bubble", "mfu"):
        assert run(folder, name).status == "partial"


def test_another_rate_in_the_log_makes_the_number_partial(folder: Path) -> None:
    """The log tells 98 tokens/s a device, the metric 55,279."""
    logged(folder, [1.0, 98.0, 98.0])

    result = run(folder)

    assert (result.status, result.value) == ("partial", AS_STATED)
    (text,) = messages_of(result)
    assert text.startswith(
        "run_20260111_201344_torch.log tells 784 tokens/s (a device's times 8, median of all "
        "steps), 564 times less than the 4.422e+05 here"
    )
    assert run(folder, "mfu").status == "partial"


@pytest.mark.parametrize(
    ("tps", "status"), [(37_000, "ok"), (36_000, "partial"), (83_000, "partial")]
)
def test_rates_agree_within_half_as_much_again(folder: Path, tps: int, status: str) -> None:
    logged(folder, [1.0, tps, tps])

    assert run(folder).status == status


def test_an_argument_sets_activation_checkpointing(folder: Path) -> None:
    ran = {}
    for words in ((), ("--activation_checkpoint.mode", "none"), ("activation-checkpoint:none",)):
        launched(folder, *words)
        details = run(folder, "mfu").details
        ran[words] = details["hfu_pct"] / details["mfu_pct"], details["provenance"]

    (full, said), *others = ran.values()
    assert (full, said["activation_checkpoint"]) == (pytest.approx(8 / 6), "train_config.toml")
    for factor, said in others:
        assert (factor, said["activation_checkpoint"]) == (1.0, "launch_arguments")


def test_a_world_size_that_differs_from_the_card(folder: Path) -> None:
    path = folder / "workload_card.yaml"
    path.write_text(path.read_text().replace("total_count: 8", "total_count: 16"))

    result = run(folder, "mfu")

    assert (result.status, result.details["total_count"]) == ("partial", 8)
    assert messages_of(result) == [
        "the card states total_count 16 (workload.hardware.xpu_spec.total_count), the traces state "
        "world_size 8: 8 is taken"
    ]


def test_an_override_of_the_user_resolves_a_conflict(folder: Path) -> None:
    launched(folder, "--training.seq_len=64")
    view = View(open_job(folder)).with_options(overrides={"seq_len": "32"})

    result = find("throughput_tokens").run(view)

    assert (result.status, result.details["seq_len"]) == ("ok", 32)


def test_a_run_of_another_folder_is_ignored(folder: Path) -> None:
    other = folder / "other"
    other.mkdir()
    launched(other, "--training.seq_len=64")

    assert run(folder).status == "ok"


def arguments(**values: int) -> RunSource:
    return RunSource("arguments", "launcher_metadata.json", "", values)


def test_degrees_of_the_card_that_do_not_fit_are_not_taken() -> None:
    stated = card(dp_replicate=1, dp_shard=2, tp=2, pp=1, cp=1)

    merged = run_config(stated, [arguments(tp=4)], 4)

    assert {name: ran.value for name, ran in merged.values.items()} == {"tp": 4, "dp_shard": None}
    assert "dp_shard 2" in merged.conflicts[0].message
    assert "does not fit 4 ranks" in merged.conflicts[0].message


@pytest.mark.parametrize(
    "folder",
    sorted(path.parent for path in WORKLOADS.glob("*/train_config.toml")),
    ids=lambda path: path.name,
)
def test_cards_of_the_workloads_are_those_of_their_configurations(folder: Path) -> None:
    found = run_sources(Discovery(str(folder), (), ()), NOTHING)
    stated = read_card(folder / "workload_card.yaml")

    merged = run_config(stated, found, stated.total_count)

    assert [source.standing for source in found] == ["config"]
    assert merged.conflicts == ()
    assert merged.values == {}


def test_a_tensor_parallel_run_is_not_called_world() -> None:
    def traffic(*sources: RunSource) -> Result:
        sent = Coll("allreduce", 1000, 1000, group_size=4)
        ranks = [
            rank_trace(rank, gpu=[allreduce(0, 10, sent)], groups=[world(4)], world_size=4)
            for rank in range(4)
        ]
        made = cast("Any", fake_job(*ranks, card=card(dp_replicate=1, dp_shard=2, tp=1)))
        job = cast("Job", replace(made, run_sources=sources))
        return find("traffic_distribution").run(View(job))

    before, after = traffic(), traffic(arguments(tp=4))

    assert before.details["tp_bytes"] != before.details["total_bytes"]
    assert after.details["tp_bytes"] == after.details["total_bytes"]
    assert after.status == "partial"


def test_groups_of_the_traces_contradict_a_degree(folder: Path) -> None:
    path = folder / "workload_card.yaml"
    path.write_text(path.read_text().replace("tp: 2", "tp: 1").replace("shard: 2", "shard: 4"))
    (folder / "train_config.toml").unlink()

    result = run(folder, "traffic_distribution")

    assert result.status == "partial"
    assert messages_of(result)[-1] == (
        "the card states tp 1 (model_executor.model_plan_parallelization.tp), the traces (groups "
        "of pp and tp) state tp 2: 2 is taken"
    )
    assert View(open_job(folder)).degrees.dp_shard is None


def test_groups_of_the_traces_that_show_a_degree() -> None:
    def sizes(*groups: tuple[str, int]) -> dict[str, int]:
        made = [
            ProcessGroup(str(number), description, tuple(range(size)), size, "nccl")
            for number, (description, size) in enumerate(groups)
        ]
        found = traced_degrees([rank_trace(0, groups=made, world_size=64)])
        return dict(found[0].values) if found else {}

    assert sizes(("mesh_tp", 4), ("mesh_pp", 2)) == {"tp": 4, "pp": 2}
    assert sizes(("TENSOR_MODEL_PARALLEL_GROUP", 8)) == {"tp": 8}
    assert sizes(("mesh_tp", 4), ("EXPERT_TENSOR_PARALLEL_GROUP", 2)) == {}
    assert sizes(("mesh_tp", 1), ("default_pg", 8), ("mesh_dp_shard_cp", 8)) == {}


def test_a_stated_batch_of_the_job_counts_accumulated_passes() -> None:
    """A local batch of 2 on 2 ranks, 16 of the job: four passes a step."""
    stated = card(batch_size=2, seq_len=64, dp_replicate=1, dp_shard=2, framework="torchtitan")
    source = RunSource(
        "config", "train_config.toml", "", {"local_batch": 2, "global_batch": 16, "dp_shard": 2}
    )

    merged = run_config(stated, [source], 2)

    assert merged.conflicts == ()
    assert merged.values["batch_size"].value == 16
    assert merged.values["batch_size_scope"].value == "global"
