"""Sections about the job and its ranks: verdict, parts, kernels, lateness, late arrivals."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.result import Result
from ccltui.parsers.numbers import instant
from ccltui.report.explanation import Explanation
from ccltui.report.overview_text import part_name
from ccltui.report.page.page_parts import (
    Block,
    Cell,
    Column,
    Legend,
    Line,
    Lines,
    Mark,
    Number,
    Picture,
    Section,
    Share,
    Source,
    Style,
    Subsection,
    Swatch,
    Table,
    ecdf_picture,
    heat_classes,
    heat_picture,
    listed_lines,
    moment_picture,
    pointer,
    row_label,
    small_bar,
    step_bar,
    why_absent,
)

if TYPE_CHECKING:
    from ccltui.metrics.findings.causes.worst_moments import Moment
    from ccltui.metrics.findings.waits.rank_lateness import LateHeat
    from ccltui.metrics.view.job_view import View

MOST_RANKS: Final = 64
"""Rows of the board and of the heat; of more ranks the board has those that wait or delay most."""
HEAT_COLUMNS: Final = 120
TABLE_COLUMNS: Final = 12
_PARTS: Final = {
    "compute": "compute",
    "waiting": "waiting",
    "communication": "transfer",
    "bubble": "bubble",
    "copies": "copies",
    "idle": "idle",
}
"""Parts of the time of a rank in `step_composition`, and the headings of their columns."""
_LEGEND: Final = Legend(
    (
        Swatch("compute", "compute"),
        Swatch("waiting for late ranks", "waiting"),
        Swatch("transfer: exposed communication without waiting", "communication"),
        Swatch("bubble: transfers between pipeline stages", "bubble"),
        Swatch("copies", "copies"),
        Swatch("idle", "idle"),
    )
)


def board_section(view: View, results: Mapping[str, Result]) -> Section:
    """Return a table of the ranks: how their time divides, whom they wait for, their clocks."""
    purpose = "How the time of each rank divides, and who waits for whom."
    labels = [rank.label for rank in view.ranks]
    if not labels:
        absent = why_absent(results, "step_composition") or "no rank is in the selection"
        return Section("ranks", "Ranks", purpose, absent=absent)
    shown = _shown(labels, results)
    columns, sources = _board_columns(results)
    if not sources:
        return Section("ranks", "Ranks", purpose, absent=why_absent(results, "step_composition"))
    rows = [_board_row(results, sources, label, number) for number, label in enumerate(shown)]
    note = ""
    if len(shown) < len(labels):
        note = (
            f"{len(shown)} of {len(labels)} ranks: those that others wait for and those that wait "
            "most. The metrics in the table have all of them."
        )
    blocks: list[Block] = []
    if "step_composition" in sources:
        blocks.append(_LEGEND)
    blocks.append(Table("Ranks", columns, rows, note))
    blocks += [
        Line(f"{name}: not known: {reason}.")
        for name in ("step_composition", "straggler_lag", "clock_offsets")
        if (reason := why_absent(results, name).rstrip("."))
    ]
    return Section("ranks", "Ranks", purpose, blocks)


def _shown(labels: list[str], results: Mapping[str, Result]) -> list[str]:
    """Return at most MOST_RANKS labels, in the order of the job."""
    if len(labels) <= MOST_RANKS:
        return labels
    lag = Source.of(results, "straggler_lag")
    blame, waits = lag.get("blame") or {}, lag.get("wait_us") or {}
    named = {str(one) for one in lag.get("stragglers") or ()} | set(_culprits(results))

    def weight(label: str) -> tuple[bool, float, float]:
        caused = (blame.get(label) or {}).get("caused_wait_us") or 0.0
        return label in named, caused, waits.get(label) or 0.0

    most = set(sorted(labels, key=weight, reverse=True)[:MOST_RANKS])
    return [label for label in labels if label in most]


def _culprits(results: Mapping[str, Result]) -> list[str]:
    return [str(one) for one in Source.of(results, "verdict").get("culprit", "ranks") or ()]


def _board_columns(results: Mapping[str, Result]) -> tuple[list[Column], dict[str, Source]]:
    names = ("step_composition", "straggler_lag", "clock_offsets")
    sources = {name: Source.of(results, name) for name in names if not why_absent(results, name)}
    columns = [Column("rank", is_numeric=False)]
    if "clock_offsets" in sources:
        columns.append(Column("host", is_numeric=False))
    if "step_composition" in sources:
        columns.append(Column("time", is_numeric=False))
        columns += [Column(heading) for heading in _PARTS.values()]
    if "straggler_lag" in sources:
        columns += [
            Column(
                "waits, also behind work",
                "us",
                title="time in collectives before the last rank arrives, whatever else runs",
            ),
            Column(
                "others wait for it",
                "us",
                title="such waits of all ranks at collectives at which it was last",
            ),
            Column("last", "times"),
        ]
    if "clock_offsets" in sources:
        columns += [
            Column("clock", "us"),
            Column("clock ± p95", "us", title="residual of the clock"),
        ]
    return columns, sources


def _board_row(
    results: Mapping[str, Result], sources: Mapping[str, Source], label: str, number: int
) -> list[Cell]:
    marks: list[Cell] = [label]
    if label in _culprits(results):
        marks.append(Mark("culprit", "culprit"))
    elif label in map(str, Source.of(results, "straggler_lag").get("stragglers") or ()):
        marks.append(Mark("straggler", "late"))
    row: list[Cell] = [tuple(marks) if len(marks) > 1 else label]
    clock = sources.get("clock_offsets")
    if clock is not None:
        row.append(str(clock.get("per_rank", label, "host") or "–"))
    parts = sources.get("step_composition")
    if parts is not None:
        found: Mapping[str, Any] = parts.get("per_rank", label) or {}
        shares = [Share(name, name, found.get(name) or 0.0) for name in _PARTS]
        row.append(Picture(small_bar(f"rank-bar-{number}", shares, f"Time of rank {label}")))
        row += [parts.number("per_rank", label, name, style="share") for name in _PARTS]
    lag = sources.get("straggler_lag")
    if lag is not None:
        row += [
            lag.number("wait_us", label),
            lag.number("blame", label, "caused_wait_us"),
            lag.number("blame", label, "last_count"),
        ]
    if clock is not None:
        row += [
            clock.number("per_rank", label, "offset_us"),
            clock.number("per_rank", label, "residual_p95_us"),
        ]
    return row


def heat_section(view: View, results: Mapping[str, Result]) -> Section:
    """Return who arrives late when, as a picture and as a coarser table."""
    from ccltui.metrics.findings.waits.rank_lateness import late_heat  # noqa: PLC0415  (numpy)

    purpose = (
        "How late each rank arrives at collectives after the first one, over the recorded time: "
        "the largest lateness in each part of the time."
    )
    if reason := why_absent(results, "straggler_lag"):
        return Section("lateness", "Lateness by rank and time", purpose, absent=reason)
    heat = late_heat(view, HEAT_COLUMNS, MOST_RANKS)
    coarse = late_heat(view, TABLE_COLUMNS, MOST_RANKS)
    blocks: list[Block] = [
        Picture(heat_picture(heat), f"Time since the first event of the job, {_clock(view)}."),
        Legend([Swatch(name, kind) for name, kind in heat_classes(heat)]),
        _heat_table(coarse),
    ]
    if len(heat.labels) < len(view.ranks):
        most = max(len(one) for one in heat.labels)
        blocks.insert(0, Line(f"Each row is the latest of {most} neighbouring ranks."))
    return Section("lateness", "Lateness by rank and time", purpose, blocks)


def _clock(view: View) -> str:
    if view.options.raw_clocks:
        return "on clocks as recorded"
    if view.clocks.comparable([rank.label for rank in view.ranks]):
        return "on one clock"
    return "on clocks as recorded where nothing compares them; lateness compares durations"


def _heat_table(heat: LateHeat) -> Table:
    found = heat.to_dict()
    edges = [
        instant(one, max(int(heat.edges_ns[1] - heat.edges_ns[0]) // 10, 1))
        for one in heat.edges_ns.tolist()
    ]
    rows: list[list[Cell]] = [
        [
            row_label(labels),
            *(
                Number(value, "late_heat", pointer("late_us", row, column))
                for column, value in enumerate(found["late_us"][row])
            ),
        ]
        for row, labels in enumerate(heat.labels)
    ]
    heads = [Column(edge) for edge in edges[:-1]]
    note = (
        f"Each column is named by its start since the first event; the last one ends at "
        f"{edges[-1]}. – marks a rank that was in no collective."
    )
    caption = "Largest lateness by rank and time, us"
    return Table(caption, [Column("rank", is_numeric=False), *heads], rows, note)


COUNT: Final = 3
MOST_LANES: Final = 48
EXAMINED: Final = 20_000
"""Late arrivals that are compared, as many as `straggler_cause` examines."""
_NUMBERS: Final = ("lag_us", "caused_wait_us", "message_bytes", "start_us", "end_us")
_MOMENT_LEGEND: Final = Legend(
    (
        Swatch("compute", "compute"),
        Swatch("communication", "communication"),
        Swatch("of it waiting at this collective", "waiting"),
        Swatch("copies", "copies"),
        Swatch("nothing of the kind", "lane"),
        Swatch("arrival at the collective", "mark"),
    )
)


def moment_section(view: View, results: Mapping[str, Result]) -> Section:
    """Return the worst moments, each with its cause and what the ranks did around it."""
    from ccltui.metrics.findings.causes.worst_moments import worst_moments  # noqa: PLC0415

    title = "Worst moments"
    purpose = (
        "The late arrivals that cost the most waiting, of different groups, operations or late "
        "ranks where possible, with what every rank did around them, on one clock where the "
        "clocks could be compared."
    )
    if reason := why_absent(results, "straggler_lag"):
        return Section("moments", title, purpose, absent=reason)
    found = worst_moments(view, count=COUNT, examined=EXAMINED, most_ranks=MOST_LANES)
    if not found:
        reason = "no rank is late at any collective by more than the error of the clocks"
        return Section("moments", title, purpose, absent=reason)
    blocks: list[Block] = [_MOMENT_LEGEND]
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
        texts.append(f"cause: {cause}. Confidence: {found.sure.text}")
    if not moment.on_one_clock:
        texts.append(
            "the clocks of these ranks are not corrected, because no collective compares them or "
            "--raw-clocks was given. Lanes may be displaced against each other"
        )
    if len(moment.lanes) < moment.num_ranks:
        texts.append(
            f"{len(moment.lanes)} of {moment.num_ranks} ranks are drawn: the latest, those that "
            "delayed it, and the first to arrive"
        )
    return [Line(f"{text[:1].upper()}{text[1:].rstrip('.')}.") for text in texts]


_GROUPS: Final = {
    "step": "The step",
    "ranks": "The ranks",
    "evidence": "Evidence",
    "trust": "How far to trust it",
}


def verdict_section(explanation: Explanation) -> Section:
    """Return the text of ``ccltui explain``, each statement with its metric and key."""
    blocks: list[Block] = [Line(explanation.headline, is_lead=True)]
    if explanation.findings:
        blocks.append(Lines([*starmap(_finding_line, enumerate(explanation.findings))], "Findings"))
    for about, title in _GROUPS.items():
        lines = [
            Line(claim.text, Number(claim.value, claim.metric, pointer(*_keys(claim.key))))
            for claim in explanation.claims
            if claim.about == about
        ]
        if lines:
            blocks.append(Lines(lines, title))
    for title, texts in (
        ("What to do", explanation.actions),
        ("Not known, and how to find out", explanation.unknown),
        ("Ruled out", explanation.ruled_out),
        ("Missing, or known in part", explanation.missing),
    ):
        if texts:
            blocks.append(Lines(listed_lines(texts), title))
    purpose = "What costs time, who causes it, and how sure that is."
    return Section("verdict", "Verdict", purpose, blocks)


def _finding_line(place: int, finding: Mapping[str, Any]) -> Line:
    """Return a finding as a line with its share, or without one with its first evidence."""
    text = " ".join(filter(None, (finding["text"], finding["more"])))
    if finding["share"] is not None:
        key = pointer("findings", place, "share")
        return Line(text, Number(finding["share"], "findings", key, style="share"))
    for row in finding["evidence"][:1]:
        return Line(text, Number(row["value"], row["metric"], pointer(*_keys(row["key"]))))
    return Line(text)


def _keys(key: str) -> list[str]:
    return key.split(".") if key else []


def step_section(results: Mapping[str, Result]) -> Section:
    """Return where the time of a step goes: parts that sum to all of it."""
    purpose = "Where the time of the devices goes, mean over ranks. The parts add up to all of it."
    if reason := why_absent(results, "step_composition"):
        return Section("step", "Step", purpose, absent=reason)
    source = Source.of(results, "step_composition")
    parts: list[Mapping[str, Any]] = source.get("parts") or []
    if not parts:
        return Section("step", "Step", purpose, absent="no time was measured")
    shares = [Share(part_name(part), _kind(part), part["share"]) for part in parts]
    rows = [
        (
            Swatch(share.name, share.kind),
            source.number("parts", index, "ms"),
            source.number("parts", index, "step_ms"),
            source.number("parts", index, "share", style="share"),
        )
        for index, share in enumerate(shares)
    ]
    table = Table(
        "Parts of a step",
        (
            Column("part", is_numeric=False),
            Column("measured time", "ms"),
            Column("in a step", "ms"),
            Column("share"),
        ),
        rows,
    )
    total = Table(
        "Time that was measured",
        (Column("quantity", is_numeric=False), Column("value"), Column("unit", is_numeric=False)),
        [
            ("step on the devices", source.number("step_ms"), "ms"),
            ("steps", source.number("num_steps"), "steps"),
            ("measured time of a rank", source.number("window_ms"), "ms"),
        ],
        note=_basis(results, "step_composition", "order", "waiting", "aggregate"),
    )
    picture = Picture(step_bar(shares, "Time of the devices by part"))
    return Section("step", "Step", purpose, (picture, table, total))


def _kind(part: Mapping[str, Any]) -> str:
    """Return the classes of the colour: dimensions and causes of idle time have their own."""
    kind = str(part["kind"])
    if kind == "communication":
        return f"communication dim-{part['part']}"
    return f"idle cause-{part['part']}" if kind == "idle" else kind


def _basis(results: Mapping[str, Result], name: str, *keys: str) -> str:
    """Return how a metric defines some of its numbers, as one note."""
    basis = results[name].basis
    found = [f"{key}: {basis[key]}" for key in keys if key in basis]
    text = "; ".join(found)
    return f"{text[:1].upper()}{text[1:]}." if found else ""


MOST_KERNELS: Final = 15
_DIMENSION_COLUMNS: Final[tuple[tuple[Column, str, Style], ...]] = (
    (Column("ranks"), "ranks", "number"),
    (Column("calls"), "calls", "number"),
    (Column("bytes"), "message_bytes", "bytes"),
    (Column("time", "ms"), "comm_ms", "number"),
    (Column("exposed", "ms"), "exposed_ms", "number"),
    (Column("hidden"), "hidden_ratio", "share"),
    (Column("bus bandwidth", "GB/s"), "busbw_GBps", "number"),
    (Column("waiting"), "wait_ratio", "share"),
    (Column("mean lag", "us"), "mean_lag_us", "number"),
    (Column("p95 lag", "us"), "p95_lag_us", "number"),
)
_KERNEL_COLUMNS: Final[tuple[tuple[Column, str, Style], ...]] = (
    (Column("calls"), "calls", "number"),
    (Column("total", "ms"), "total_ms", "number"),
    (Column("share"), "share", "share"),
    (Column("mean", "us"), "mean_us", "number"),
    (Column("p95", "us"), "p95_us", "number"),
    (Column("exposed", "ms"), "exposed_ms", "number"),
    (Column("imbalance"), "imbalance_ratio", "number"),
)


def dimension_section(results: Mapping[str, Result]) -> Section:
    """Return communication by parallel dimension."""
    title, purpose = "Dimensions", "Communication by parallel dimension of its group."
    if reason := why_absent(results, "parallelism"):
        return Section("dimensions", title, purpose, absent=reason)
    source = Source.of(results, "parallelism")
    rows: list[tuple[Cell, ...]] = []
    whys: list[Line] = []
    for index, found in enumerate(source.get("dimensions") or ()):
        cells = [
            source.number("dimensions", index, key, style=style)
            for _, key, style in _DIMENSION_COLUMNS
        ]
        worst = source.number("dimensions", index, "worst_rank")
        rows.append((str(found["dim"]), *cells, worst))
        whys += [
            Line(f"{found['dim']}: {key}: {why}.") for key, why in (found.get("why") or {}).items()
        ]
    if not rows:
        return Section("dimensions", title, purpose, absent="no collective is in the selection")
    absent: Mapping[str, Any] = source.get("absent") or {}
    columns = (
        Column("dimension", is_numeric=False),
        *(column for column, _, _ in _DIMENSION_COLUMNS),
        Column("worst rank", is_numeric=False),
    )
    blocks: list[Block] = [Table("Communication by dimension", columns, rows)]
    lines = [*whys, *(Line(f"{dim}: {why}.") for dim, why in absent.items())]
    if lines:
        blocks.append(Lines(lines, "Not known or absent"))
    return Section("dimensions", title, purpose, blocks)


def kernel_section(results: Mapping[str, Result]) -> Section:
    """Return the kernels with the largest total time."""
    title, purpose = "Kernels", "The device work with the largest total time over all ranks."
    if reason := why_absent(results, "kernels"):
        return Section("kernels", title, purpose, absent=reason)
    source = Source.of(results, "kernels")
    found = source.get("kernels") or []
    if not found:
        return Section("kernels", title, purpose, absent="no kernel is in the selection")
    rows: list[tuple[Cell, ...]] = [
        (
            str(row["name"]),
            str(row["category"]),
            *(source.number("kernels", i, key, style=style) for _, key, style in _KERNEL_COLUMNS),
        )
        for i, row in enumerate(found[:MOST_KERNELS])
    ]
    columns = (
        Column("kernel", is_numeric=False),
        Column("category", is_numeric=False),
        *(column for column, _, _ in _KERNEL_COLUMNS),
    )
    total = source.number("num_names").text
    note = (
        f"{len(rows)} of {total} names. Share: of the summed durations of all kernels and copies. "
        "Imbalance: largest total of a rank over the mean of the ranks."
    )
    return Section("kernels", title, purpose, [Table("Kernels", columns, rows, note)])


def distribution_section(view: View, results: Mapping[str, Result]) -> Section:
    """Return how lag, wait and duration of collectives are distributed."""
    from ccltui.metrics.findings.waits.rank_lateness import distributions  # noqa: PLC0415

    title = "Distributions"
    purpose = (
        "The share of collectives whose lag, and of ranks in them whose wait and duration, is at "
        "most the time on the axis."
    )
    if reason := why_absent(results, "straggler_lag"):
        return Section("distributions", title, purpose, absent=reason)
    curves = distributions(view)
    rows: list[tuple[Cell, ...]] = []
    for one in curves:
        numbers = one.to_dict()
        cells = [
            Number(numbers[key], f"distributions/{one.name}", pointer(key))
            for key in ("n", "p50", "p95", "max")
        ]
        rows.append((one.name, *cells))
    columns = (
        Column("time", is_numeric=False),
        Column("n"),
        Column("median", "us"),
        Column("p95", "us"),
        Column("largest", "us"),
    )
    note = (
        "Lag: longest wait of any rank at a collective. Wait: duration of a rank beyond the "
        "shortest of the collective. Lags of up to the floor are ties. The axis is logarithmic; "
        "shorter times are drawn at its left end."
    )
    table = Table("Lag, wait and duration", columns, rows, note)
    return Section("distributions", title, purpose, [Picture(ecdf_picture(curves)), table])
