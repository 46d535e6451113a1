"""Which card describes the capture."""

from __future__ import annotations

from pathlib import Path

import pytest
from found_files import put, trace_text

from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import CardError
from ccltui.parsers.job import card_file

FULL = "workload: {model: {}}\nmetric_source: {traces: []}\n"
HALF = "workload: {model: {}}\n"


def found(root: Path, *, capture: str | None = None) -> str | None:
    discovery = discover(root)
    card = card_file(discovery, discovery.choose(capture=capture) if capture else None)
    return None if card is None else str(Path(card.real_path).relative_to(root.resolve()))


@pytest.mark.parametrize("name", ["workload_card.yaml", "workload.yaml", "llama-tp.yaml", "x.yml"])
def test_the_only_card(tmp_path: Path, name: str) -> None:
    put(tmp_path, "rank0.json", trace_text(0))
    put(tmp_path, name, FULL)
    put(tmp_path, "benchmark.yaml", "hostname: a\nresults: {}\n")
    put(tmp_path, "other.yaml", "a: 1\n")

    assert found(tmp_path) == name


def test_no_card(tmp_path: Path) -> None:
    put(tmp_path, "benchmark.yaml", "hostname: a\nresults: {}\n")

    assert found(tmp_path) is None


def test_of_several_the_one_with_both_sections(tmp_path: Path) -> None:
    put(tmp_path, "a_template.yaml", HALF)
    put(tmp_path, "z_card.yaml", FULL)

    assert found(tmp_path) == "z_card.yaml"


@pytest.mark.parametrize("text", [FULL, HALF])
def test_several_that_cannot_be_told_apart(tmp_path: Path, text: str) -> None:
    put(tmp_path, "workload_card.yaml", text)
    put(tmp_path, "copy.yaml", text)

    with pytest.raises(CardError) as raised:
        found(tmp_path)

    assert raised.value.message == (
        "several workload cards, and it is not clear which one counts: copy.yaml and "
        "workload_card.yaml"
    )


def test_a_link_to_the_card_is_the_card(tmp_path: Path) -> None:
    put(tmp_path, "cards/workload_card.yaml", FULL)
    (tmp_path / "workload.yaml").symlink_to("cards/workload_card.yaml")

    assert found(tmp_path) == "cards/workload_card.yaml"


def test_the_card_nearest_to_the_root(tmp_path: Path) -> None:
    put(tmp_path, "a/b/workload_card.yaml", FULL)
    put(tmp_path, "c/workload_card.yaml", FULL)

    assert found(tmp_path) == "c/workload_card.yaml"


def test_the_card_above_the_capture_counts(tmp_path: Path) -> None:
    for job in ("a", "b"):
        put(tmp_path, f"{job}/traces/rank0.json", trace_text(0, ts=ord(job)))
        put(tmp_path, f"{job}/workload_card.yaml", FULL)
    put(tmp_path, "workload_card.yaml", FULL)
    put(tmp_path, "c/traces/rank0.json", trace_text(0, ts=1))

    assert found(tmp_path, capture="b/traces") == "b/workload_card.yaml"
    assert found(tmp_path, capture="c/traces") == "workload_card.yaml"
    assert found(tmp_path) == "workload_card.yaml"


def test_cards_of_two_jobs_without_a_capture_are_not_chosen_between(tmp_path: Path) -> None:
    put(tmp_path, "a/workload_card.yaml", FULL)
    put(tmp_path, "b/workload_card.yaml", FULL)

    with pytest.raises(CardError, match=r"a/workload_card\.yaml and b/workload_card\.yaml"):
        found(tmp_path)
