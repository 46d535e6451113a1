"""Contradictions between card and traces."""

from __future__ import annotations

from pathlib import Path

import pytest
from factories import Coll, Event, allreduce, job, kernel, rank_trace, step

from ccltui.metrics.card.check_and_draft import check_card
from ccltui.parsers.columns import Device, RankTrace
from ccltui.parsers.side.workload_card import Card, read_card


def card(tmp_path: Path, **sections: str) -> Card:
    """A card from flow mappings: ``model``, ``xpu`` (xpu_spec), ``plan``, ``library``."""
    parts = {name: sections.get(name, "{}") for name in ("model", "xpu", "plan", "library")}
    text = (
        f"workload:\n  model: {parts['model']}\n  hardware:\n    xpu_spec: {parts['xpu']}\n"
        f"Model-executor:\n  model_plan_parallelization: {parts['plan']}\n"
        f"  communication_library: {parts['library']}\nmetric_source: {{traces: [json]}}\n"
    )
    path = tmp_path / "workload_card.yaml"
    path.write_text(text)
    return read_card(path)


def traces(world_size: int | None = 4, *, count: int = 1, device: str = "") -> list[RankTrace]:
    devices = [Device(0, device)] if device else []
    return [rank_trace(rank, world_size=world_size, devices=devices) for rank in range(count)]


def test_no_contradictions_without_a_card() -> None:
    assert check_card(job(*traces())) == ()


def test_a_card_that_agrees(tmp_path: Path) -> None:
    read = card(
        tmp_path,
        model="{phase: training, moe: false}",
        xpu="{model: nvidia_a100_40gb, total_count: 4}",
        plan="{dp_replicate: 2, tp: 2}",
        library="{name: NCCL, version: 2.21.5}",
    )
    rank = rank_trace(
        0,
        world_size=4,
        annotations=[step(1, 0, 10)],
        devices=[Device(0, "NVIDIA A100-SXM4-40GB")],
        nccl_version="2.21.5",
    )

    assert check_card(job(rank, card=read)) == ()


def test_an_empty_card_contradicts_nothing(tmp_path: Path) -> None:
    assert check_card(job(*traces(device="NVIDIA H100"), card=card(tmp_path))) == ()


def test_degrees_against_device_count(tmp_path: Path) -> None:
    read = card(tmp_path, xpu="{total_count: 16}", plan="{dp_replicate: 2, tp: 4, pp: null}")

    assert check_card(job(card=read)) == (
        "the card's parallel degrees multiply to 8 (dp_replicate 2 · tp 4), "
        "its device count is 16 (workload.hardware.xpu_spec.total_count)",
    )


@pytest.mark.parametrize(
    "plan", ["{}", "{tp: 16}", "{tp: 4, dp_shard: -1}", "{tp: 4, pp: TBD}", "{ep: 4, tp: 16}"]
)
def test_degrees_that_contradict_nothing(tmp_path: Path, plan: str) -> None:
    read = card(tmp_path, xpu="{total_count: 16}", plan=plan)

    assert check_card(job(card=read)) == ()


def test_device_count_against_world_size(tmp_path: Path) -> None:
    read = card(tmp_path, xpu="{total_count: 16}")

    assert check_card(job(*traces(8), card=read)) == (
        "the card states 16 devices (workload.hardware.xpu_spec.total_count), "
        "the trace a world of 8 ranks",
    )
    assert check_card(job(*traces(16, count=2), card=read)) == ()


def test_more_ranks_than_devices_where_no_world_size_is_stated(tmp_path: Path) -> None:
    read = card(tmp_path, xpu="{total_count: 2}")

    assert check_card(job(*traces(None, count=3), card=read)) == (
        "the card states 2 devices (workload.hardware.xpu_spec.total_count), "
        "there are traces of 3 ranks",
    )
    assert check_card(job(*traces(None, count=1), card=read)) == ()


@pytest.mark.parametrize(
    ("claimed", "found", "contradicts"),
    [
        ("2.21.5", "2.21.5", False),
        ("2.21", "2.21.5", False),
        ("NCCL 2.21.5+cuda12.4", "2.21.5", False),
        ("2.20", "2.2", True),  # a version is no number
        ("2.20.5", "2.21.5", True),
        ("2.21.5", "", False),
        ("latest", "2.21.5", False),
        ("null", "2.21.5", False),
    ],
)
def test_nccl_version(tmp_path: Path, claimed: str, found: str, contradicts: bool) -> None:
    read = card(tmp_path, library=f"{{name: NCCL, version: {claimed}}}")
    sentences = check_card(job(rank_trace(0, nccl_version=found), card=read))

    assert sentences == (
        (
            f"the card states {claimed} (model_executor.communication_library.version), "
            f"the trace was taken with NCCL {found}",
        )
        if contradicts
        else ()
    )


def test_the_version_of_another_library_is_not_compared(tmp_path: Path) -> None:
    read = card(tmp_path, library="{name: oneCCL, version: 1.0}")

    assert check_card(job(rank_trace(0, nccl_version="2.21.5"), card=read)) == ()


def test_library_against_backend(tmp_path: Path) -> None:
    from msgspec.structs import replace

    read = card(tmp_path, library="{name: NCCL}")
    (rank,) = traces()

    assert check_card(job(replace(rank, backend="cpu:gloo"), card=read)) == (
        "the card states nccl (model_executor.communication_library.name), "
        "the trace's backend is cpu:gloo",
    )
    for backend in ("nccl", "cpu:gloo,cuda:nccl", "", "undefined"):
        assert check_card(job(replace(rank, backend=backend), card=read)) == ()


@pytest.mark.parametrize(
    ("claimed", "found", "contradicts"),
    [
        ("nvidia_a100", "NVIDIA A100-SXM4-80GB", False),
        ("nvidia_a100_40gb", "NVIDIA A100-SXM4-80GB", True),
        ("nvidia_a100_40gb", "NVIDIA A100-SXM4-40GB", False),
        ("nvidia_h100", "NVIDIA A100-SXM4-80GB", True),
        ("H100 SXM", "NVIDIA H100 80GB HBM3", False),
        ("v100", "Tesla V100-SXM2-16GB", False),
        ("a10", "NVIDIA A100-SXM4-80GB", True),
        ("mi300", "AMD Instinct MI300X", False),
        ("mi300a", "AMD Instinct MI300X", True),
        ("rtx_4090", "NVIDIA GeForce RTX 4090", False),
        ("rtx_3090", "NVIDIA GeForce RTX 4090", True),
        ("gh200_96gb", "NVIDIA GH200 480GB", False),
        ("nvidia_dgx_spark", "NVIDIA GB10", False),
        ("tpu_v6e", "NVIDIA A100-SXM4-80GB", False),
        ("perlmutter", "NVIDIA A100-SXM4-80GB", False),
        ("nvidia_a100", "", False),
    ],
)
def test_device_model(tmp_path: Path, claimed: str, found: str, contradicts: bool) -> None:
    read = card(tmp_path, xpu=f"{{model: {claimed}}}")
    sentences = check_card(job(*traces(device=found), card=read))

    assert sentences == (
        (
            f"the card states {claimed} (workload.hardware.xpu_spec.model), "
            f"the trace's devices are {found}",
        )
        if contradicts
        else ()
    )


def test_device_names_are_escaped(tmp_path: Path) -> None:
    read = card(tmp_path, xpu="{model: a100}")

    (sentence,) = check_card(job(*traces(device="H100 \x1b[2J"), card=read))

    assert sentence.endswith("the trace's devices are H100 \\x1b[2J")


REDUCE = allreduce(0, 5, Coll(op="allreduce"))
EXCHANGE = kernel("exchange", 0, 5, coll=Coll(op="all_to_allv"))
SEND = kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 0, 5)


@pytest.mark.parametrize(
    ("model", "plan", "events", "sentence"),
    [
        (
            "{moe: true}",
            "{}",
            [REDUCE],
            "the card states moe: true, no ep (workload.model.moe), the trace has no all-to-all",
        ),
        (
            "{moe: true}",
            "{ep: 4}",
            [REDUCE],
            "the card states moe: true, ep 4 (workload.model.moe), the trace has no all-to-all",
        ),
        (
            "{moe: false}",
            "{ep: 4}",
            [],
            "the card states moe: false (workload.model.moe), and yet expert parallelism of 4",
        ),
        ("{moe: true}", "{ep: 1}", [REDUCE], None),  # experts on every rank: no exchange
        ("{moe: true}", "{ep: 4}", [REDUCE, EXCHANGE], None),
        ("{moe: true}", "{ep: 4}", [REDUCE, SEND], None),  # may be an all-to-all
        ("{moe: true}", "{ep: 4}", [], None),
        ("{moe: false}", "{ep: 1}", [REDUCE], None),
    ],
)
def test_experts(
    tmp_path: Path, model: str, plan: str, events: list[Event], sentence: str | None
) -> None:
    read = card(tmp_path, model=model, plan=plan)

    found = check_card(job(rank_trace(0, gpu=events), card=read))

    assert found == (() if sentence is None else (sentence,))


BACKWARD = Event("autograd::engine::evaluate_function: AddBackward0", 0, 5, 1)
OPTIMIZER = Event("Optimizer.step#AdamW.step", 0, 5, 1)


def test_a_backward_pass_is_training_without_any_step_marker(tmp_path: Path) -> None:
    training = card(tmp_path, model="{phase: training}")

    assert check_card(job(rank_trace(0, cpu_ops=[BACKWARD]), card=training)) == ()


def test_phase_against_step_markers(tmp_path: Path) -> None:
    training = card(tmp_path, model="{phase: training}")
    with_steps = rank_trace(0, annotations=[step(3, 0, 10)])
    without = rank_trace(1)

    assert check_card(job(with_steps, without, card=training)) == ()
    assert check_card(job(without, card=training)) == (
        "the card states training (workload.model.phase), the trace has neither a step marker nor "
        "a backward pass",
    )
    assert check_card(job(card=training)) == ()  # nothing is loaded yet


@pytest.mark.parametrize("phase", ["inference", "serving"])
def test_training_inside_an_inference_job(tmp_path: Path, phase: str) -> None:
    read = card(tmp_path, model=f"{{phase: {phase}}}")

    assert check_card(job(rank_trace(0, annotations=[OPTIMIZER]), card=read)) == (
        f"the card states {phase} (workload.model.phase), the trace has Optimizer.step#",
    )
    assert check_card(job(rank_trace(0, cpu_ops=[BACKWARD]), card=read)) == (
        f"the card states {phase} (workload.model.phase), "
        "the trace has autograd::engine::evaluate_function",
    )
    assert check_card(job(rank_trace(0, annotations=[step(1, 0, 9)]), card=read)) == ()


def test_a_card_against_a_public_trace(tmp_path: Path, shared: Path) -> None:
    from ccltui.parsers.kineto.kineto_reader import read_kineto

    folder = shared / "traces" / "astra-sim" / "megatron-tp8"
    rank = read_kineto(folder / "megatron_kineto_3.json.gz")
    read = card(
        tmp_path,
        model="{phase: inference, moe: true}",
        xpu="{model: nvidia_v100, total_count: 16}",
        plan="{tp: 8}",
        library="{name: NCCL}",
    )

    sentences = check_card(job(rank, card=read))

    assert sentences == (
        "the card's parallel degrees multiply to 8 (tp 8), "
        "its device count is 16 (workload.hardware.xpu_spec.total_count)",
        "the card states 16 devices (workload.hardware.xpu_spec.total_count), "
        "the trace a world of 8 ranks",
        "the card states nvidia_v100 (workload.hardware.xpu_spec.model), "
        "the trace's devices are NVIDIA A100-SXM4-80GB",
        "the card states moe: true, no ep (workload.model.moe), the trace has no all-to-all",
    )
