"""Advice for each class of a verdict."""

from __future__ import annotations

from typing import Any

import pytest

from ccltui.metrics.attribution.verdict_rules import CLASSES
from ccltui.report.what_to_do import what_to_do, who


def advice(verdict: str | None, **details: Any) -> tuple[str, ...]:
    chain = details.pop("chain", {})
    return what_to_do({} if verdict is None else {"verdict": verdict, **details}, chain)


@pytest.mark.parametrize(
    "name",
    [
        *sorted({one for text in CLASSES for one in text.split(", ")}),
        "slow_node",
        "no_straggler",
        "inconclusive",
    ],
)
def test_every_class_has_advice(name: str) -> None:
    (text,) = advice(name, culprit={"ranks": ["3"]})
    assert text.endswith(".")
    assert "{" not in text
    assert text != advice(None)[0]


def test_it_names_who_is_concerned() -> None:
    assert "the device of rank 3 " in advice("slow_worker", culprit={"ranks": ["3"]})[0]
    assert who({"ranks": [str(n) for n in range(9)]}) == "ranks 0, 1, 2, 3 and 5 more"
    assert who({"ranks": ["1", "2"], "pair": ["1", "2"]}) == "ranks 1 and 2"
    assert who({"ranks": ["4", "5"], "stage": 1}) == "stage 1"
    assert who({"ranks": ["4", "5"], "host": "n1"}) == "host n1"
    assert who({"ranks": [], "group": "tp 0,1"}) == "group tp 0,1"
    assert who(None) == who({}) == ""


def test_what_the_host_does_decides_the_first_advice() -> None:
    waits = "the device of rank 3 idles for the host: data loading"
    assert advice("host", why=waits)[0].startswith("Load data earlier")
    chain = {"root_rank": "3", "root_cause": "garbage_collection"}
    whose = {"ranks": ["3"]}
    assert advice("host", culprit=whose, chain=chain)[0].startswith("Collect garbage")
    assert len(advice("host", culprit={"ranks": ["1"]}, chain=chain)) == 1  # another rank's cause
    assert len(advice("host", chain={"root_rank": None, "root_cause": "compute"})) == 1


def test_nobody_is_to_be_repaired_where_times_vary_by_chance() -> None:
    for name in ("random", "no_straggler"):
        assert advice(name)[0].startswith("No rank is to be repaired")
    assert advice("inconclusive")[0].startswith("Replace nothing on this evidence")
    assert advice(None)[0].startswith("Nobody can be named")


def test_a_rank_apart_from_its_peers_comes_first_and_nothing_opened_is_said() -> None:
    first, second = what_to_do({"verdict": "random"}, {}, apart="5")
    assert first.startswith("If the job hung, look first at rank 5,")
    assert second.startswith("No rank is to be repaired")
    (only,) = what_to_do({}, {}, is_opened=False)
    assert only.startswith("No profiler trace was read: ccltui doctor DIR")
