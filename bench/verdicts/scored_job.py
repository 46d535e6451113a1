"""Score one job; what travels between processes."""

from __future__ import annotations

import time

from msgspec import Struct

from bench.verdicts.answers import answers_of
from bench.verdicts.marks import OF_NOBODY, Marked, marked
from ccltui.demo.planted import random_spec
from ccltui.demo.planted.job_spec import condition_of
from ccltui.demo.planted.planted_job import FaultTruth


class Scored(Struct, frozen=True):
    """One job and the marks of all metrics.

    Attributes:
        seed: Seed of the job.
        family: Kind of parallelism, with the numbers of ranks.
        topology: Kind of parallelism alone.
        condition: clean, damaged, null or two.
        level: What the files record.
        planted: Faults with culprits and costs, in words.
        fault: Kind of the most expensive fault; "" for none.
        cost_share: Its cost as a share of the step.
        marks: By metric.
        cpu_s: CPU seconds of generating, reading and asking.
        failure: Text of an exception; "" where there was none.
    """

    seed: int
    family: str
    topology: str
    condition: str
    level: str
    planted: str
    fault: str
    cost_share: float
    marks: dict[str, Marked]
    cpu_s: float
    failure: str = ""


def score(seed: int) -> Scored:
    """Draw the job of a seed, ask all metrics, and mark the answers."""
    began = time.process_time()
    spec = random_spec(seed, varied=True)
    layout = f"{spec.family} {spec.dp}x{spec.pp}x{spec.tp}"
    links = ("slow_pair", "slow_group", "slow_network")
    linked = any(fault.kind in links for fault in spec.faults)
    state = condition_of(spec)
    condition = "link" if linked and state == "clean" else state
    try:
        truth, found = answers_of(spec)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return Scored(seed, layout, spec.family, condition, spec.level, "", "", 0.0, {}, 0.0, text)
    planted = "; ".join(
        f"{fault.cause} of {_who(fault)}"
        f" {'' if fault.steps is None else f'in {fault.steps} '}"
        f"({fault.cost_ms:.2f} of {truth.step_ms:.2f} ms)"
        for fault in truth.faults
    )
    return Scored(
        seed,
        layout,
        spec.family,
        condition,
        spec.level,
        "; ".join(filter(None, (planted, *truth.damage))),
        truth.faults[0].cause if truth.faults and truth.verdict != "no_straggler" else "",
        truth.cost_share,
        {name: marked(spec, truth, name, answer) for name, answer in found.items()},
        time.process_time() - began,
    )


def _who(fault: FaultTruth) -> str:
    if not fault.ranks:
        return "nobody" if fault.verdict in OF_NOBODY else "all ranks"
    return f"ranks {', '.join(map(str, fault.ranks))}"
