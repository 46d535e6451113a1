"""The answer on events of NCCL's profiler plug-ins: what they count."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.finding import Answer, Finding
from ccltui.metrics.findings.words import sentence
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.nccl_profiler import NCCL_PROFILER
from ccltui.parsers.numbers import counted

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

_SHOWN: Final = 6
_DO: Final = (
    "Record some steps with the PyTorch profiler on all ranks, or switch NCCL's Inspector on "
    "(NCCL_INSPECTOR_ENABLE=1): their records can be compared between ranks."
)


def profiler_answer(view: View) -> Answer | None:
    """Return what the events of NCCL's profiler plug-ins count, None where there are none."""
    from ccltui.parsers.nccl_profiler.count_events import count_events  # noqa: PLC0415

    files = [one for one in view.job.discovery.files
             if one.format is NCCL_PROFILER and one.duplicate_of is None]  # fmt: skip
    read, unread = [], []
    for file in files:
        try:
            with contained(file.path):
                read.append(count_events(Path(file.real_path), shown=file.path))
        except TraceError as error:
            unread.append(str(error))
    if not files:
        return None
    kinds: Counter[str] = Counter()
    operations: Counter[str] = Counter()
    for one in read:
        kinds.update(one.counts)
        operations.update(one.operations)
    ranks = {(hash_, rank) for one in read for hash_ in one.communicators for rank in one.ranks}
    what = counted(operations.total(), "call of a collective", "calls of collectives")
    text = f"NCCL's profiler plug-in recorded {what} on {counted(len(ranks), 'rank')}"
    if not read:
        text = f"no events of NCCL's profiler plug-in can be read: {unread[0]}"
    lines = sum(one.unread for one in read)
    parts = [
        f"by operation: {_listed(operations)}" if operations else "",
        f"events by kind: {_listed(kinds)}" if kinds else "",
        f"{counted(lines, 'line')} could not be read" if lines else "",
        *(unread if read else ()),
    ]
    finding = Finding(
        kind="counts",
        text=sentence(text),
        more=" ".join(sentence(one) for one in parts if one),
        sure=Sure(what="high"),
        do=_DO,
    )
    return Answer(
        recording="nccl_profiler",
        findings=(finding,),
        unknown=(
            "Each process has a clock of its own, so these events do not show who arrives late.",
        ),
    )


def _listed(counts: Counter[str]) -> str:
    shown = [f"{number:,} {name}" for name, number in counts.most_common(_SHOWN)]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more} more kinds" if more > 0 else "")
