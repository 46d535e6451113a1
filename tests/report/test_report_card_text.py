"""A drafted card is valid: it is read back as written and has no complaints."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ccltui.commands.card_command import lint
from ccltui.metrics.card.card_draft import Fact
from ccltui.parsers.card.card_values import FIELDS, known_keys
from ccltui.parsers.card.workload_card import Card, read_card
from ccltui.report.card_text import LAYOUT, Line, Section, card_text


def read_back(tmp_path: Path, facts: dict[str, Fact]) -> Card:
    path = tmp_path / "workload_card.yaml"
    path.write_bytes(card_text(facts))
    return read_card(path)


def lines(entries: tuple[Line | Section, ...], prefix: str = "") -> list[tuple[str, Line]]:
    found: list[tuple[str, Line]] = []
    for entry in entries:
        key = f"{prefix}{entry.key}"
        if isinstance(entry, Section):
            found += lines(tuple(entry.entries), f"{key}.")
        else:
            found.append((key, entry))
    return found


def test_every_line_of_the_layout_is_a_known_key_and_fills_its_field() -> None:
    for key, line in lines(LAYOUT):
        normalised = key.lower().replace("-", "_")
        assert normalised in known_keys(), key
        if line.field in FIELDS:
            assert normalised in FIELDS[line.field], key


def test_nothing_is_known(tmp_path: Path) -> None:
    card = read_back(tmp_path, {})

    assert card.values == {"version": 1}
    assert (card.unknown_keys, card.notes) == ((), ())


def test_known_values_stand_with_their_source() -> None:
    text = card_text({"tp": Fact(4, "traces, process groups")}).decode()

    assert "    tp: 4  # traces, process groups\n" in text
    assert "    # pp:  # degree of pipeline parallelism\n" in text
    assert "todo" not in text.lower()


def test_a_full_draft_reads_back(tmp_path: Path) -> None:
    facts: dict[str, int | str | bool | tuple[str, ...]] = {
        "phase": "training",
        "moe": False,
        "model_family": "llama3-8B",
        "batch_size": 8,
        "batch_size_scope": "global",
        "seq_len": 2048,
        "gpu_model": "nvidia_a100",
        "total_count": 4,
        "tp": 2,
        "dp_shard": 2,
        "communication_library": "NCCL",
        "communication_library_version": "2.20",
        "traces": ("kineto_trace", "torch_et"),
    }

    card = read_back(tmp_path, {name: Fact(value, "traces") for name, value in facts.items()})

    assert {name: getattr(card, name) for name in facts} == facts
    assert [found for found in lint(card, None, None) if found.level == "error"] == []


@pytest.mark.parametrize(
    "text", ["yes", "null", "2.20", "a: b", "# c", "x\x1b[2J", "😀", "~", "0x1f"]
)
def test_a_text_stays_a_text(tmp_path: Path, text: str) -> None:
    written = yaml.safe_load(card_text({"dataset": Fact(text, "traces")}))

    value = written["workload"]["data"]["dataset"]
    assert value == text.replace("\x1b", "\\x1b")


@given(st.text(max_size=40))
def test_any_text_makes_valid_yaml(text: str) -> None:
    written = yaml.safe_load(card_text({"model_family": Fact(text, "traces")}))

    assert isinstance(written["workload"]["model"]["model_family"], str)
