"""Cards of all generations become one set of keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.parsers.columns import Note
from ccltui.parsers.side.workload_card import Card, read_card

FULL = """\
version: 1
description: Llama on one node
hf_url: null
trace_url: https://example.org/t
contributor: Jane Planted
contact: jane.planted@example.org
workload:
  model:
    phase: training
    moe: false
    granularity: model_fwd_bwd_pass
    model_family: llama-3.1-8b
    precision: bf16
    epochs: 1
    iteration: 80
    model_arch:
      num_params: 8030261248
      num_params_active: 8030261248
      num_params_embedding: 525336576
      num_layers: 32
      num_heads: 32
      head_dim: 128
  data:
    batch_size: 2
    seq_len: 2048
    dataset: c4
    max-num-seqs: 4
  hardware:
    network_topo:
      topology: ''
      bandwidth_gbps: [2000, N/A]
    xpu_spec:
      type: GPU
      model: nvidia_a100_40gb
      total_count: 4
      count_per_node: 4
    driver_version: "12.9"
Model-executor:
  framework: {name: torchtitan, compiler_tool_selection: plain_pytorch}
  model_plan_parallelization: {dp_replicate: 2, dp_shard: 1, tp: 2, pp: 1, cp: 1, ep: 1, pp_mb: 4}
  communication_library:
    name: NCCL
    version: 2.20
    env: {NCCL_DEBUG: WARN}
  protocol_selection: [rocev2, p2p]
metric_source:
  traces: [nsys, json, execution_trace]
  metrics_specific_trace: [null]
"""


def card(tmp_path: Path, text: str) -> Card:
    path = tmp_path / "workload_card.yaml"
    path.write_text(text, "utf-8")
    return read_card(path, shown_path="workload_card.yaml")


def test_a_full_card(tmp_path: Path) -> None:
    read = card(tmp_path, FULL)

    assert {
        name: getattr(read, name)
        for name in (
            *("phase", "moe", "granularity", "model_family", "precision", "iteration"),
            *("num_params", "num_params_active", "num_params_embedding", "num_layers"),
            *("num_heads", "head_dim", "batch_size", "batch_size_scope", "seq_len", "dataset"),
            *("gpu_type", "gpu_model", "total_count", "count_per_node", "driver_version"),
            *("framework", "framework_version", "dp_replicate", "dp_shard", "tp", "pp", "cp"),
            *("ep", "pp_microbatches", "communication_library", "communication_library_version"),
            *("input_len", "output_len", "traces"),
        )
    } == {
        "phase": "training",
        "moe": False,
        "granularity": "model_fwd_bwd_pass",
        "model_family": "llama-3.1-8b",
        "precision": "bf16",
        "iteration": 80,
        "num_params": 8030261248,
        "num_params_active": 8030261248,
        "num_params_embedding": 525336576,
        "num_layers": 32,
        "num_heads": 32,
        "head_dim": 128,
        "batch_size": 2,
        "batch_size_scope": None,
        "seq_len": 2048,
        "dataset": "c4",
        "gpu_type": "GPU",
        "gpu_model": "nvidia_a100_40gb",
        "total_count": 4,
        "count_per_node": 4,
        "driver_version": "12.9",
        "framework": "torchtitan",
        "framework_version": None,
        "dp_replicate": 2,
        "dp_shard": 1,
        "tp": 2,
        "pp": 1,
        "cp": 1,
        "ep": 1,
        "pp_microbatches": 4,
        "communication_library": "NCCL",
        "communication_library_version": "2.20",
        "input_len": None,
        "output_len": None,
        "traces": ("nsys", "kineto_trace", "torch_et"),
    }
    assert (read.path, read.unknown_keys, read.notes) == ("workload_card.yaml", (), ())


def test_who_contributed_is_kept_nowhere(tmp_path: Path) -> None:
    text = FULL + "collection_notes:\n  Contact: call +1 planted\n  who: [{e-mail: planted@x}]\n"

    read = card(tmp_path, text)

    assert "planted" not in repr(read).lower()
    assert "contributor" not in read.values
    assert read.count("vocab_size") is None


@pytest.mark.parametrize(
    "executor", ["Model-executor", "model_executor", "Model_Executor", "MODEL-EXECUTOR"]
)
def test_the_executor_stands_at_the_top_or_under_workload(tmp_path: Path, executor: str) -> None:
    plan = "{model-plan-parallelization: {TP: 4}, framework: {name: vllm}}"
    top = card(tmp_path, f"{executor}: {plan}\nworkload:\n  model: {{phase: inference}}\n")
    below = card(tmp_path, f"workload:\n  {executor}: {plan}\n  model: {{phase: inference}}\n")

    assert top.values == below.values
    assert list(top.values) == list(below.values) == sorted(top.values)
    assert (top.tp, below.tp) == (4, 4)
    assert top.provenance("tp") == "model_executor.model_plan_parallelization.tp"
    assert below.provenance("tp") == "workload.model_executor.model_plan_parallelization.tp"


def test_provenance_and_line(tmp_path: Path) -> None:
    read = card(tmp_path, FULL)

    assert read.provenance("batch_size") == "workload.data.batch_size"
    assert (read.line("batch_size"), read.line("pp_microbatches")) == (24, 40)
    assert read.provenance("workload.data.seq_len") == "workload.data.seq_len"
    assert (read.provenance("input_len"), read.line("input_len")) == (
        "workload.data.input_len",
        None,
    )
    with pytest.raises(KeyError):
        read.provenance("no_such_field")


def test_architecture_directly_under_the_model(tmp_path: Path) -> None:
    read = card(tmp_path, "workload:\n  model: {num_layers: 16, vocab_size: 128256}\n")

    assert (read.num_layers, read.provenance("num_layers")) == (16, "workload.model.num_layers")
    assert read.count("vocab_size") == 128256
    assert read.unknown_keys == ()


def test_an_old_card_with_empty_places(tmp_path: Path) -> None:
    text = """\
workload:
  model:
  data: {batch_size: , seq_len: null}
  hardware: {xpu_spec: {model: TBD, total_count: ''}}
Model-executor:
  model_plan_parallelization: {tp: "4", pp: N/A, cp: null, dp_shard: ~}
metric_source:
  traces: [null]
"""
    read = card(tmp_path, text)

    assert (read.batch_size, read.seq_len, read.gpu_model, read.total_count) == (None,) * 4
    assert (read.tp, read.pp, read.cp, read.dp_shard) == (4, None, None, None)
    assert read.traces == ()
    assert read.notes == ()


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("8", 8),
        ('"8"', 8),
        ("8.0", 8),
        ("8_192", 8192),
        ("0x10", 16),
        ("8.5", None),
        ("0", None),
        ("-1", None),
        ("true", None),
        (".inf", None),
        (".nan", None),
        ("8 per GPU", None),
        ("[8]", None),
        ("{a: 8}", None),
    ],
)
def test_a_count_is_a_positive_whole_number_or_nothing(
    tmp_path: Path, value: str, count: int | None
) -> None:
    read = card(tmp_path, f"workload:\n  data:\n    seq_len: {value}\n")

    assert read.seq_len == count
    codes = {note.code for note in read.notes}
    assert codes <= {"card_value", "card_unknown_keys"}
    assert bool(codes) == (count is None)


def test_a_list_of_batch_sizes_is_a_sweep(tmp_path: Path) -> None:
    read = card(tmp_path, "workload:\n  data: {batch_size: [1, 8, 16]}\n")

    assert read.batch_size is None
    assert read.values["workload.data.batch_size"] == (1, 8, 16)
    assert [note.message for note in read.notes] == [
        "workload.data.batch_size is a list, a sweep of several runs: "
        "the card does not state which one this is"
    ]


@pytest.mark.parametrize(
    ("text", "scope"), [("global", "global"), ("GLOBAL", "global"), ("", None)]
)
def test_batch_size_scope(tmp_path: Path, text: str, scope: str | None) -> None:
    read = card(tmp_path, f"workload:\n  data:\n    batch_size_scope: {text}\n")

    assert read.batch_size_scope == scope


@pytest.mark.parametrize(
    ("text", "phase", "moe"),
    [
        ("{phase: Training, moe: True}", "training", True),
        ("{phase: serving, moe: 'no'}", "serving", False),
        ("{phase: training, moe: off}", "training", False),
        ("{}", None, None),
    ],
)
def test_phase_and_experts(tmp_path: Path, text: str, phase: str | None, moe: bool | None) -> None:
    read = card(tmp_path, f"workload:\n  model: {text}\n")

    assert (read.phase, read.moe, read.notes) == (phase, moe, ())


def test_values_of_no_use_are_noted(tmp_path: Path) -> None:
    read = card(tmp_path, "workload:\n  model: {phase: fine-tuning, moe: 8, model_family: [a]}\n")

    assert (read.phase, read.moe, read.model_family) == (None, None, None)
    assert read.notes == (
        Note("card_value", "workload.model.phase is not training, inference or serving"),
        Note("card_value", "workload.model.moe is not true or false"),
        Note("card_value", "workload.model.model_family is a list or mapping, not a text"),
    )


def test_unknown_keys_are_kept_and_reported(tmp_path: Path) -> None:
    read = card(tmp_path, "workload:\n  model: {fantasy: 7}\nowner-team: x\n")

    assert read.values["workload.model.fantasy"] == 7
    assert read.unknown_keys == ("owner_team", "workload.model.fantasy")
    assert read.notes == (
        Note(
            "card_unknown_keys",
            "owner_team and workload.model.fantasy are not known here",
            count=2,
        ),
    )


def test_names_of_environment_variables_stay_as_they_are(tmp_path: Path) -> None:
    text = "workload:\nModel-executor:\n  communication_library:\n    env: {NCCL_Debug-X: 1}\n"

    read = card(tmp_path, text)

    assert read.values == {"model_executor.communication_library.env.NCCL_Debug-X": 1}
    assert read.unknown_keys == ()


def test_one_key_under_two_spellings_must_agree(tmp_path: Path) -> None:
    agreeing = card(tmp_path, "workload:\n  data: {max-num-seqs: 4, max_num_seqs: 4}\n")

    assert agreeing.values["workload.data.max_num_seqs"] == 4
    assert [note.code for note in agreeing.notes] == ["card_repeated"]


def test_merge_keys_and_aliases(tmp_path: Path) -> None:
    text = """\
base: &base {tp: 2, pp: 4}
workload: &w
  model: {moe: false}
Model-executor:
  model_plan_parallelization:
    <<: *base
    tp: 8
"""
    read = card(tmp_path, text)

    assert (read.tp, read.pp, read.moe) == (8, 4, False)


def test_dates_and_times_stay_text(tmp_path: Path) -> None:
    read = card(tmp_path, "workload:\n  model: {model_family: 2025-01-02}\n")

    assert read.model_family == "2025-01-02"
