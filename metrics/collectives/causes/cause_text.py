"""Describe causes and chain links in sentences with their figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ccltui.metrics.collectives.causes.chain import NOT_RECORDED, PIPELINE, SLOW_TRANSFER
from ccltui.metrics.collectives.causes.evidence import Evidence, short_name
from ccltui.metrics.collectives.causes.host_work import HOST_WORDS
from ccltui.metrics.collectives.causes.time_splits import COMPUTE, COPIES, IDLE, OTHER_COLLECTIVE
from ccltui.metrics.collectives.causes.verdicts import (
    EARLIER_LAG,
    HOST_LATE,
    MEANINGS,
    MIN_ROOT_SHARE,
    MORE_KERNELS,
    NAMED_SHARE,
    UNEQUAL_WORK,
    UNKNOWN,
    Link,
)
from ccltui.metrics.model.classify import TYPES

GroupLabel = Callable[[int], str]

CHAIN_WORDS: Final = {
    OTHER_COLLECTIVE: "delayed by a collective of another group",
    SLOW_TRANSFER: "its transfers take longer than those of its peers",
    PIPELINE: "the normal order of the pipeline, no fault",
    NOT_RECORDED: "its file is not in the directory",
}
"""Causes that only chains have."""


def sentence(chain: Sequence[Link], evidence: Evidence, group_label: GroupLabel) -> str:
    """Return one sentence on why the last rank of a collective was late."""
    link = chain[0]
    if link.cause == UNKNOWN:
        return _unknown(evidence)
    if link.cause in (OTHER_COLLECTIVE, SLOW_TRANSFER, PIPELINE):
        return _other_group(chain, evidence, group_label)
    text = (
        f"{_own_cause(link.cause, evidence)} ({link.share:.0%} of {duration(evidence.excess_ns)})"
    )
    return f"rank {link.label}: {text}"


def cause_words(cause: str) -> str:
    """Return a cause in a few words, without figures."""
    if cause in HOST_WORDS:
        return f"its host {HOST_WORDS[cause]}"
    return CHAIN_WORDS.get(cause) or MEANINGS.get(cause) or cause.replace("_", " ")


def link_sentence(link: Link, group_label: GroupLabel) -> str:
    """Return one sentence on a link of a blame chain."""
    where = f"{group_label(link.group)} {TYPES[link.kind]}"
    times = f" ×{link.count}" if link.count > 1 else ""
    reason = CHAIN_WORDS.get(link.cause) or MEANINGS[link.cause]
    return f"rank {link.label} at {where}{times}, {duration(link.lag_ns)}: {reason}"


def duration(ns: float) -> str:
    """Format a time in s, ms or µs with three significant digits."""
    size = abs(ns)
    if size >= 999.5e6:
        return f"{ns / 1e9:.3g} s"
    return f"{ns / 1e6:.3g} ms" if size >= 999.5e3 else f"{ns / 1e3:.3g} µs"


def _own_cause(cause: str, evidence: Evidence) -> str:
    part = evidence.parts_ns.get(cause, 0.0)
    if cause in (COMPUTE, MORE_KERNELS, UNEQUAL_WORK):
        return _more_computation(cause, evidence)
    if cause == COPIES:
        return f"copies take {duration(part)} longer"
    if cause == EARLIER_LAG:
        return MEANINGS[EARLIER_LAG]
    if cause == HOST_LATE:
        return "its device idles while the host does several things"
    names = [one for one in evidence.host if one.cause == cause]
    inside = f" ({shortened(names[0].name)})" if names else ""
    return f"its device idles {duration(part)} longer while the host {HOST_WORDS[cause]}{inside}"


def shortened(name: str) -> str:
    """Return a name of at most 80 characters; an ellipsis stands for its middle."""
    return name if len(name) <= 80 else f"{name[:52]}…{name[-27:]}"


def _more_computation(cause: str, evidence: Evidence) -> str:
    total = duration(evidence.parts_ns.get(COMPUTE, 0.0))
    if not evidence.kernels:
        return f"{total} more computation"
    worst = evidence.kernels[0]
    name = short_name(worst.name)
    if cause == MORE_KERNELS:
        return (
            f"{total} more computation: {name} {worst.late_count} times, "
            f"{worst.peers_count:g} on its peers"
        )
    if cause == UNEQUAL_WORK:
        ratio = evidence.elements_ratio or 1.0
        return f"{ratio:.3g} times the elements of its peers, {total} more computation in {name}"
    return f"{total} more computation, {duration(worst.more_ns)} of it in {name}"


def _other_group(chain: Sequence[Link], evidence: Evidence, group_label: GroupLabel) -> str:
    first, part = chain[0], duration(evidence.parts_ns.get(OTHER_COLLECTIVE, 0.0))
    if len(chain) < 2:
        slow = ": its transfers take longer" if first.cause == SLOW_TRANSFER else ""
        return f"rank {first.label} was delayed {part} by collectives of other groups{slow}"
    after = chain[1]
    where = f"{group_label(after.group)} {TYPES[after.kind]}"
    text = f"rank {first.label} was delayed {part} at {where}, where rank {after.label} was late"
    if after.cause == NOT_RECORDED:
        return (
            f"rank {first.label} was delayed {part} at {where}, with rank {after.label}, "
            "whose file is not in the directory"
        )
    root = chain[-1]
    if root.cause == UNKNOWN:
        return f"{text}; the root is unknown: {_why_unknown(first, root)}"
    if len(chain) > 2:
        return f"{text}; the root is rank {root.label}: {_reason(root)}"
    return f"{text}: {_reason(root)}"


def _why_unknown(first: Link, root: Link) -> str:
    share = root.lag_ns / max(first.lag_ns, 1)
    if share < MIN_ROOT_SHARE:
        return f"rank {root.label} accounts for {share:.1%} of the lag"
    return f"the trace does not show why rank {root.label} was late"


def _reason(link: Link) -> str:
    return CHAIN_WORDS.get(link.cause) or MEANINGS[link.cause]


def _unknown(evidence: Evidence) -> str:
    if evidence.since is None:
        return "unknown: the recording begins here, without an earlier collective of these ranks"
    if not evidence.parts_ns:
        return "unknown: nothing that is recorded differs from the peers"
    delayed_ns = evidence.parts_ns.get(OTHER_COLLECTIVE, 0.0)
    if delayed_ns >= NAMED_SHARE * evidence.excess_ns:
        return (
            f"unknown: collectives of other groups delayed it by {duration(delayed_ns)}, and the "
            "trace does not show who was late there"
        )
    names = {part: HOST_WORDS[part] for part in IDLE}
    parts = [
        f"{names.get(name, name)} {duration(ns)}"
        for name, ns in list(evidence.parts_ns.items())[:3]
        if ns > 0
    ]
    return f"unknown: no part makes up half of {duration(evidence.excess_ns)}: " + ", ".join(parts)
