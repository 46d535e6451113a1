"""The card of a job is valid and agrees with the job."""

from __future__ import annotations

from pathlib import Path

import yaml

from ccltui.demo import Spec, write_job
from ccltui.parsers.card.workload_card import read_card


def test_the_card_of_the_demo(tmp_path: Path) -> None:
    write_job(tmp_path, Spec(steps=1))

    card = read_card(tmp_path / "workload_card.yaml")

    assert card.unknown_keys == ()
    assert card.notes == ()
    assert card.phase == "training"
    assert card.framework == "torchtitan"
    assert (card.batch_size, card.batch_size_scope, card.seq_len) == (8, "global", 2048)
    assert (card.tp, card.pp, card.dp_replicate, card.dp_shard, card.ep) == (2, 2, 1, 2, 1)
    assert (card.total_count, card.count_per_node) == (8, 4)
    assert card.pp_microbatches == 4


def test_the_card_follows_the_spec(tmp_path: Path) -> None:
    spec = Spec.quiet(
        tp=1, pp=1, dp_replicate=2, dp_shard=4, experts=True, library="rccl", steps=1, layers=1
    )
    write_job(tmp_path, spec)

    card = yaml.safe_load((tmp_path / "workload_card.yaml").read_text())

    executor = card["Model-executor"]
    assert executor["model_plan_parallelization"]["ep"] == 4
    assert executor["communication_library"] == {"name": "RCCL", "version": "2.22.3"}
    assert card["workload"]["model"]["moe"] is True
    assert card["workload"]["hardware"]["xpu_spec"]["model"] == "amd_mi300x"
    assert card["workload"]["data"]["batch_size"] == 4 * 8
