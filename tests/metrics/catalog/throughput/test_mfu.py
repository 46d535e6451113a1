"""mfu: FLOPs of the model against the peak of the devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from factories import Event, card, job, launch, rank_trace, step
from msgspec.structs import replace
from worked import measure

from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import Device, RankTrace
from ccltui.parsers.discovery.run_settings import run_sources
from ccltui.parsers.found_files import Capture, Discovery
from ccltui.parsers.side.workload_card import Card

NOTHING = Capture("", None, (), (), None, complete=False)
A100 = [Device(0, "NVIDIA A100-SXM4-40GB")]
LLAMA = {
    "num_params": 1_000_000_000,
    "num_params_embedding": 100_000_000,
    "num_layers": 10,
    "num_heads": 8,
    "head_dim": 64,
}
TRAINING = {
    **LLAMA,
    "phase": "training",
    "batch_size": 4,
    "batch_size_scope": "global",
    "seq_len": 128,
    "precision": "bf16",
    "total_count": 2,
}


def trained(devices: object = A100) -> RankTrace:
    """Steps of 100 ms."""
    return rank_trace(
        0,
        annotations=[step(i, 100_000 * i, 100_000) for i in range(3)],
        devices=devices,  # type: ignore[arg-type]
    )


def without(name: str) -> Card:
    return card(**{key: value for key, value in TRAINING.items() if key != name})


FLOPS = 6 * 900_000_000 + 12 * 10 * 8 * 64 * 128
TOKENS_PER_S = 4 * 128 / 0.1


def test_a_dense_model() -> None:
    result = measure("mfu", trained(), card=card(**TRAINING))

    details = result.details
    assert details["flops_per_token"] == FLOPS
    assert details["tokens_per_s"] == pytest.approx(TOKENS_PER_S)
    assert result.value == pytest.approx(100 * FLOPS * TOKENS_PER_S / (312e12 * 2))
    assert (details["peak_tflops_per_gpu"], details["total_count"]) == (312.0, 2)
    assert details["hfu_pct"] is None
    assert details["provenance"]["num_layers"] == "card"
    assert result.basis["phase"] == "training"


def test_experts_count_by_what_a_token_meets() -> None:
    stated = card(**{**TRAINING, "moe": True, "num_params_active": 300_000_000})

    details = measure("mfu", trained(), card=stated).details

    assert details["flops_per_token"] == FLOPS - 6 * 700_000_000
    unknown = measure("mfu", trained(), card=card(**{**TRAINING, "moe": True}))
    assert unknown.reason == "card_incomplete"
    assert "num_params_active" in unknown.reasons[0].message


def test_tied_embeddings_stay_for_the_head() -> None:
    tied = measure(
        "mfu", trained(), card=card(**TRAINING), overrides={"tied_embeddings": "true"}
    ).details

    assert tied["flops_per_token"] == FLOPS + 6 * 100_000_000


def test_recomputation_where_it_is_known() -> None:
    for mode, factor in (("full", 8 / 6), ("none", 1.0), ("selective", None)):
        details = measure(
            "mfu", trained(), card=card(**TRAINING), overrides={"activation_checkpoint": mode}
        ).details
        expected = None if factor is None else pytest.approx(details["mfu_pct"] * factor)
        assert details["hfu_pct"] == expected


@pytest.mark.parametrize(
    ("text", "factor", "said"),
    [
        ('[activation_checkpoint]\nmode = "full"', 8 / 6, "train_config.toml"),
        ('[activation_checkpoint]\nmode = "selective"', None, "train_config.toml"),
        ("[training]\nsteps = 8", None, None),
        ("[activation_checkpoint]\nmode = 3", None, None),
        ("not TOML", None, None),
    ],
)
def test_recomputation_of_the_configuration(
    tmp_path: Path, text: str, factor: float | None, said: str | None
) -> None:
    (tmp_path / "train_config.toml").write_text(text)
    found = run_sources(Discovery(str(tmp_path), (), ()), NOTHING)
    of_folder = replace(cast("Any", job(trained(), card=card(**TRAINING))), run_sources=found)

    details = find("mfu").run(View(of_folder)).details

    expected = None if factor is None else pytest.approx(details["mfu_pct"] * factor)
    assert details["hfu_pct"] == expected
    assert details["provenance"].get("activation_checkpoint") == said


def test_the_peak_follows_the_precision() -> None:
    bf16 = measure("mfu", trained(), card=card(**TRAINING)).value
    fp32 = measure("mfu", trained(), card=card(**{**TRAINING, "precision": "float32"})).value

    assert bf16 is not None
    assert fp32 == pytest.approx(bf16 * 312 / 19.5)


def test_an_override_stands_above_every_table() -> None:
    result = measure(
        "mfu", trained([]), card=without("precision"), overrides={"peak_tflops": "100"}
    )

    assert result.value == pytest.approx(100 * FLOPS * TOKENS_PER_S / (100e12 * 2))
    assert result.details["peak_source"] == "override"
    for wrong in ("fast", "-1", "inf", "nan"):
        refused = measure("mfu", trained(), card=card(**TRAINING), overrides={"peak_tflops": wrong})
        assert refused.reason == "card_invalid"


def test_twice_the_devices_or_the_parameters() -> None:
    one = measure("mfu", trained(), card=card(**TRAINING)).value
    more = measure("mfu", trained(), card=card(**{**TRAINING, "total_count": 4})).value

    assert one is not None
    assert more == pytest.approx(one / 2)


@pytest.mark.parametrize(
    "name", ["num_params", "num_params_embedding", "num_layers", "num_heads", "head_dim"]
)
def test_every_field_of_the_model_is_needed(name: str) -> None:
    result = measure("mfu", trained(), card=without(name))

    assert (result.reason, result.value) == ("card_incomplete", None)
    assert name in result.reasons[0].message


def test_what_else_it_needs() -> None:
    assert measure("mfu", trained()).reason == "no_card"
    for name in ("batch_size", "seq_len", "precision"):
        assert measure("mfu", trained(), card=without(name)).reason == "card_incomplete"
    unmarked = rank_trace(0, gpu=[Event("gemm", 0, 5)], devices=A100)
    assert measure("mfu", unmarked, card=card(**TRAINING)).reason == "no_step_markers"
    spark = measure("mfu", trained([Device(0, "NVIDIA GB10")]), card=card(**TRAINING))
    assert (spark.reason, "NVIDIA GB10" in spark.reasons[0].message) == ("unknown_peak", True)
    old = measure("mfu", trained([Device(0, "Tesla V100-SXM2-16GB")]), card=card(**TRAINING))
    assert old.reason == "unknown_peak"  # no bf16 there
    small = card(**{**TRAINING, "num_params_embedding": 2_000_000_000})
    assert measure("mfu", trained(), card=small).reason == "card_invalid"


def served(*passes: tuple[str, float]) -> RankTrace:
    """One marked pass a millisecond apart, each with device work of some µs."""
    starts = [1000.0 * i for i in range(len(passes))]
    return rank_trace(
        0,
        annotations=[Event(name, at, 100, 1) for (name, _), at in zip(passes, starts, strict=True)],
        runtime=[launch(i, at + 10) for i, at in enumerate(starts)],
        gpu=[
            Event("gemm", at + 50, us, correlation=i)
            for i, ((_, us), at) in enumerate(zip(passes, starts, strict=True))
        ],
        devices=A100,
    )


SERVING = {**LLAMA, "phase": "inference", "precision": "bf16", "total_count": 2, "tp": 2}


def test_inference_is_told_for_each_phase_alone() -> None:
    trace = served(
        ("execute_context_1(888_788544)_generation_0(0)", 400),
        ("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)", 200),
        ("execute_context_1(8_64)_generation_3(3_300)", 100),
    )

    result = measure("mfu", trace, card=card(**SERVING))

    prefill = 2 * 900_000_000 * 888 + 4 * 10 * 8 * 64 * 788_544
    decode = 2 * 900_000_000 * 32 + 4 * 10 * 8 * 64 * 55_086
    assert result.value == pytest.approx(100 * prefill / (400e-6 * 312e12 * 2))
    assert result.details["decode_mfu_pct"] == pytest.approx(100 * decode / (200e-6 * 312e12 * 2))
    assert (result.basis["phase"], result.details["flops_per_token"]) == ("prefill", None)


def test_inference_without_the_tokens_of_a_pass_is_refused() -> None:
    for name in ("run_batch", "execute_context_1(888)_generation_0(0)"):
        refused = measure("mfu", served((name, 100), (name, 100)), card=card(**SERVING))
        assert refused.reason == "phase_mismatch"
