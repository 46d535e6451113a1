"""Mark the answers of one job against what was planted."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from bench.verdicts.answers import Answer
from ccltui.demo.planted import JobSpec, PlantedTruth
from ccltui.demo.planted.planted_job import MATERIAL, FaultTruth

Mark = Literal[
    "right",  # who is right (and for a verdict the class too)
    "wrong",  # somebody else, or another class, is named
    "abstained",  # inconclusive, unavailable, or nobody named where somebody is
    "quiet",  # nobody named above materiality, and nobody is the culprit
]

BORDER: Final = 2.0
"""Faults that cost up to this multiple of materiality may as well be called immaterial."""
PLANTED: Final = 0.003
"""Share of the step from which on naming the planted fault is right although it is immaterial."""
SCORED_COST: Final = 0.05
"""Share of the step from which on the saved time is compared with the truth."""
OF_NOBODY: Final = ("no_straggler", "random", "uneven_microbatches")
# A slow link makes all its members wait equally: none of them is late.
OF_RANKS: Final = (
    "slow_worker",
    "occasional_worker",
    "slow_node",
    "heavy_stage",
    "uneven_experts",
    "host",
)
CLASSIFYING: Final = ("verdict", "findings")
"""Metrics that state a class."""
EXPECTED_CAUSES: Final = {
    "slow_worker": ("compute",),
    "occasional_worker": ("compute",),
    "slow_node": ("compute",),
    "heavy_stage": ("compute", "more_kernels", "unequal_work"),
    "uneven_experts": ("compute", "unequal_work"),
    "garbage_collection": ("garbage_collection",),
    "data_loading": ("data_loading",),
    "checkpoint": ("checkpoint",),
    "allocation": ("allocation", "synchronisation"),
    "synchronisation": ("synchronisation", "host_work", "host_late", "host_stall"),
    "launch_bound": ("host_work", "host_late", "launch_bound"),
}
VAGUE: Final = ("host_work", "host_late", "host_stall", "host_blocked", "host", "unknown")


class Marked(Struct, frozen=True):
    """Marks of one metric on one job.

    Attributes:
        metric: Its name.
        mark: Of who, and for a verdict of the class too.
        class_mark: Of the class alone, for a verdict.
        cause_right: Whether the cause is right; None where none is stated or expected.
        confidence: As stated.
        material: Whether what is ascribed to those who are named exceeds 1 % of rank time.
        saved_error: Relative error of the saved time; None where not compared.
        below_one: S is below 0.995.
        silent_ok: Status ok although a recorded rank is left out or a rank has no file.
        names_innocent: Ranks that are no culprits are named, for more than 1 % of rank time.
        text: Answer in a few words.
    """

    metric: str
    mark: Mark
    class_mark: Mark
    cause_right: bool | None
    confidence: str
    material: bool
    saved_error: float | None
    below_one: bool
    silent_ok: bool
    names_innocent: bool
    text: str


def marked(spec: JobSpec, truth: PlantedTruth, name: str, answer: Answer) -> Marked:
    """Mark one answer."""
    faults = [fault for fault in truth.faults if _lasting_ms(fault) >= MATERIAL * truth.step_ms]
    small = [fault for fault in truth.faults if fault.cost_ms >= PLANTED * truth.step_ms]
    least = min((_lasting_ms(fault) for fault in faults[:1]), default=0.0)
    border = least < BORDER * MATERIAL * truth.step_ms
    if name in CLASSIFYING:
        mark, class_mark = _verdict_marks(answer, truth, faults, border=border)
        if mark == "wrong" and len(small) > len(faults):
            mark, class_mark = _verdict_marks(answer, truth, small, border=border)
    else:
        mark = class_mark = _mark(answer, faults, border=border)
    costly = _names_costly_decoy(spec, answer, faults)
    if mark == "wrong" and costly:
        mark = class_mark = "abstained"
    return Marked(
        name,
        mark,
        class_mark,
        _cause_right(spec, answer, faults),
        answer.confidence,
        answer.material,
        _saved_error(spec, name, answer, truth),
        answer.slowdown is not None and answer.slowdown < LEAST_SLOWDOWN,
        answer.status == "ok" and _leaves_out(answer, truth),
        _names_innocent(answer, faults) and not costly,
        f"{answer.verdict or answer.status} {','.join(answer.ranks)} {answer.cause}"
        f" {answer.confidence} {answer.reason}".strip(),
    )


def _lasting_ms(fault: FaultTruth) -> float:
    """Cost of a fault per step; of a host that pauses in all steps over those behind the first.

    For how long the devices waited before their first work is in no file, and hosts that prefetch
    pause again without any cost.
    """
    later = fault.step_costs_ms[1:]
    if fault.verdict != "host" or fault.steps is not None or not later:
        return fault.cost_ms
    return min(fault.cost_ms, sum(later) / len(later))


def _names_innocent(answer: Answer, faults: list[FaultTruth]) -> bool:
    """Return whether a rank is named that is no culprit; both ends of a slow link are culprits."""
    link = answer.verdict == "slow_link"
    culprits = {
        str(rank) for fault in faults if link or fault.verdict in OF_RANKS for rank in fault.ranks
    }
    return answer.material and not set(answer.ranks) <= culprits


def _names_costly_decoy(spec: JobSpec, answer: Answer, faults: list[FaultTruth]) -> bool:
    """Return whether ranks are named whose decoy costs time: its launches delay a busy host."""
    decoys = {str(rank) for one in spec.faults if one.kind == "decoy" for rank in one.ranks}
    costs = any(fault.cause == "decoy" for fault in faults)
    return costs and bool(answer.ranks) and set(answer.ranks) <= decoys


LEAST_SLOWDOWN: Final = 0.995


def _mark(answer: Answer, faults: list[FaultTruth], *, border: bool) -> Mark:
    named = bool(answer.ranks)
    culprits = {str(rank) for fault in faults if fault.verdict in OF_RANKS for rank in fault.ranks}
    if named and answer.ranks[0] in culprits:
        return "right"
    nobody = not culprits or border
    if named and not (nobody and not answer.material):
        return "wrong"
    return "quiet" if nobody else "abstained"


def _verdict_marks(
    answer: Answer, truth: PlantedTruth, faults: list[FaultTruth], *, border: bool
) -> tuple[Mark, Mark]:
    if answer.verdict in ("", "inconclusive"):
        return ("quiet", "quiet") if not faults else ("abstained", "abstained")
    if answer.verdict == "no_straggler":
        # Where whole stages are slow, nothing tells slow devices from more work, and that work
        # may not cost anything compared with the same shared out.
        least_ms = BORDER * MATERIAL * truth.step_ms
        shared = all(f.shared_ms is not None and f.shared_ms < least_ms for f in faults)
        good: Mark = "quiet" if shared or border else "wrong"
        return good, good
    if _of_nobody(answer, truth, faults):
        return "quiet", "quiet"
    fitting = [fault for fault in faults if _fits(answer, fault)]
    if not fitting:
        return "wrong", "wrong"
    who = any(_same_culprit(answer, fault, truth) for fault in fitting)
    return ("right" if who else "wrong"), "right"


def _fits(answer: Answer, fault: FaultTruth) -> bool:
    """Whether a class describes a fault; that a rank is waited for, all that make ranks late."""
    if answer.verdict in ("waiting_for_rank", "slow_steps"):
        return fault.verdict in OF_RANKS and bool(fault.ranks)
    return answer.verdict in (fault.verdict, *fault.also_right)


def _of_nobody(answer: Answer, truth: PlantedTruth, faults: list[FaultTruth]) -> bool:
    """Return whether the answer names chance or all hosts, which cost time without a fault too."""
    worst_ms = max((fault.cost_ms for fault in faults), default=0.0)
    if answer.verdict == "random":
        return not faults or truth.jitter_ms >= worst_ms
    everyone = not answer.ranks or len(answer.ranks) == len(truth.ranks)
    loses = truth.host_ms >= max(worst_ms, MATERIAL * truth.step_ms)
    return answer.verdict == "host" and everyone and loses


def _same_culprit(answer: Answer, fault: FaultTruth, truth: PlantedTruth) -> bool:
    """Whether those who are named are the culprits, of several slow ranks those with a file."""
    if fault.verdict in OF_NOBODY or not fault.ranks:
        return True
    if fault.stage is not None and answer.stage == fault.stage:
        return True
    several = fault.verdict == "slow_node" or fault.cause == "alternating"
    here = set(truth.recorded) if several else set(fault.ranks)
    return set(answer.ranks) == {str(rank) for rank in fault.ranks if rank in here}


def _cause_right(spec: JobSpec, answer: Answer, faults: list[FaultTruth]) -> bool | None:
    """Return whether the cause is right; where hosts are not recorded, its kind suffices."""
    culprits = [fault for fault in faults if fault.cause in EXPECTED_CAUSES]
    named = bool(answer.ranks) or answer.verdict == "host"
    if not answer.cause or not culprits or not named:
        return None
    bare = spec.level == "names" or not spec.has_host_rows
    silent = bare or any(fault.silent for fault in spec.faults)
    allowed = {cause for fault in culprits for cause in EXPECTED_CAUSES[fault.cause]}
    if any(fault.verdict == "host" for fault in culprits) and silent:
        allowed |= set(VAGUE)
    return answer.cause in allowed


def _saved_error(spec: JobSpec, name: str, answer: Answer, truth: PlantedTruth) -> float | None:
    """Relative error of the saved time, of jobs with one fault that costs enough.

    Compared are the steps that the metric is a mean over. Hosts that hold up all ranks are set back
    altogether, whoever else pauses: nothing divides what was planted from what they always cost.
    Without any straggler nothing varies between ranks either, and ranks that are a whole stage have
    no other of their stage to be compared with.
    """
    faults = [fault for fault in truth.faults if fault.cause != "decoy"]
    if answer.saved_ms is None or len(faults) != 1:
        return None
    (fault,) = faults
    alike = name in CLASSIFYING or fault.verdict in (
        "slow_worker",
        "occasional_worker",
        "slow_node",
    )
    unnamed = name in CLASSIFYING and answer.verdict in UNNAMED
    if fault.cost_ms < SCORED_COST * truth.step_ms or not alike or unnamed:
        return None
    cost_ms = _cost_ms(fault, answer, truth)
    if fault.verdict == "host" and not (fault.ranks and answer.ranks):
        cost_ms += truth.host_ms
    if name not in CLASSIFYING:
        if "heavy_stage" in fault.also_right:
            return None
        cost_ms += truth.jitter_ms
    if name in CLASSIFYING and not _fits(answer, replace(fault, also_right=())):
        # What cannot be told from a heavy stage may be shared out instead.
        if answer.verdict != "heavy_stage" or not fault.shared_ms:
            return None
        cost_ms = fault.shared_ms
    is_share = answer.of_window or (not answer.is_marked and fault.steps is None)
    if is_share and answer.step_ms:
        return (answer.saved_ms / answer.step_ms) / (cost_ms / truth.step_ms) - 1
    return (answer.saved_ms - cost_ms) / cost_ms if cost_ms > 0 else None


def _cost_ms(fault: FaultTruth, answer: Answer, truth: PlantedTruth) -> float:
    """Cost of a fault per step, in the mean over the steps of the answer.

    Where steps are not marked, they lie between calls, which leaves out a part at the begin and the
    end of the job: no fault of single steps acts there, and so all of it is in those that remain.
    """
    known = fault.step_costs_ms and answer.steps
    if answer.is_marked and known:
        costs = [fault.step_costs_ms[truth.step_ids.index(step)] for step in answer.steps or ()]
        return sum(costs) / len(costs)
    if answer.num_steps and fault.steps is not None:
        return fault.cost_ms * truth.steps / answer.num_steps
    return fault.cost_ms


UNNAMED: Final = ("", "inconclusive", "no_straggler")


def _leaves_out(answer: Answer, truth: PlantedTruth) -> bool:
    covers = answer.num_ranks
    fewer = covers is not None and covers < len(truth.recorded)
    return fewer or len(truth.recorded) < len(truth.ranks)
