"""Section about the worst moments: the late arrivals that cost most waiting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ccltui.metrics.result import Result
from ccltui.report.page.moment_picture import moment_picture
from ccltui.report.page.page_parts import (
    Block,
    Column,
    Legend,
    Line,
    Lines,
    Number,
    Picture,
    Section,
    Style,
    Subsection,
    Swatch,
    Table,
    pointer,
    why_absent,
)

if TYPE_CHECKING:
    from ccltui.metrics.findings.causes.worst_moments import Moment
    from ccltui.metrics.view.job_view import View

COUNT: Final = 3
MOST_LANES: Final = 48
EXAMINED: Final = 20_000
"""Late arrivals that are compared, as many as `straggler_cause` examines."""
_NUMBERS: Final = ("lag_us", "caused_wait_us", "message_bytes", "start_us", "end_us")
_LEGEND: Final = Legend(
    (
        Swatch("compute", "compute"),
        Swatch("communication", "communication"),
        Swatch("of it waiting at this collective", "waiting"),
        Swatch("copies", "copies"),
        Swatch("nothing of the kind", "idle"),
        Swatch("arrival at the collective", "mark"),
    )
)


def moment_section(view: View, results: Mapping[str, Result]) -> Section:
    """Return the worst moments, each with its cause and what the ranks did around it."""
    from ccltui.metrics.findings.causes.worst_moments import worst_moments  # noqa: PLC0415

    title = "Worst moments"
    purpose = (
        "The late arrivals for which the ranks waited longest in sum, of different groups, "
        "operations or latest ranks where there are such, with what every rank did around them, "
        "on one clock where that is known."
    )
    if reason := why_absent(results, "straggler_lag"):
        return Section("moments", title, purpose, absent=reason)
    found = worst_moments(view, count=COUNT, examined=EXAMINED, most_ranks=MOST_LANES)
    if not found:
        reason = "no rank is later than the lag floor at any collective"
        return Section("moments", title, purpose, absent=reason)
    blocks: list[Block] = [_LEGEND]
    blocks += [_moment(number, moment) for number, moment in enumerate(found)]
    return Section("moments", title, purpose, blocks)


def _moment(number: int, moment: Moment) -> Subsection:
    found = moment.instance
    step = "" if found.step is None else f", step {found.step}"
    numbers = moment.to_dict()

    def value(key: str) -> Number:
        style: Style = "bytes" if key == "message_bytes" else "number"
        return Number(numbers[key], f"worst_moments/{number}", pointer(key), style)

    table = Table(
        f"Numbers of moment {number + 1}",
        (
            Column("moment", is_numeric=False),
            Column("longest wait of a rank", "us"),
            Column("waits of all ranks", "us"),
            Column("message"),
            Column("shown from", "us since the first event"),
            Column("to", "us"),
        ),
        [(f"{number + 1}", *map(value, _NUMBERS))],
    )
    heading = f"{number + 1}. {found.kind} of {found.group}{step}: rank {moment.last} is the last"
    picture = Picture(moment_picture(f"moment-{number + 1}", moment))
    return Subsection(heading, (Lines(_sentences(moment)), picture, table))


def _sentences(moment: Moment) -> list[Line]:
    """Return why the rank was late, how sure that is, and what the picture leaves out."""
    found = moment.instance
    texts = [found.why or f"why rank {moment.last} is late is not known"]
    texts += found.chain_sentences[1:]  # the first link is what the sentence before states
    if found.cause is not None:
        cause = found.cause.replace("_", " ")
        texts.append(f"cause: {cause}. How sure: {found.sure.text}")
    if not moment.on_one_clock:
        texts.append(
            "the clocks of these ranks are not corrected: nothing compares them, or times as "
            "recorded were asked for. Lanes may be displaced against each other"
        )
    if len(moment.lanes) < moment.num_ranks:
        texts.append(
            f"{len(moment.lanes)} of {moment.num_ranks} ranks are drawn: the latest, those that "
            "delayed it, and the first to arrive"
        )
    return [Line(f"{text[:1].upper()}{text[1:].rstrip('.')}.") for text in texts]
