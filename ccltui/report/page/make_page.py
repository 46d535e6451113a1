"""Make the report of a job, and write it as one HTML file or as Markdown.

The sections about its input and the meaning of its numbers are here too. The HTML has no scripts,
fonts or links. The class of a part, such as ``compute``, sets ``--own``, its colour, which the
rules of `page.css` use: no colour of a part is stated there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct

from ccltui import __version__
from ccltui.draw.palette import HEAT, IDLE_INKS, KIND_INKS, LEVELS, SHADED, Ink, Look, looks, rgb
from ccltui.metrics.result import Result
from ccltui.metrics.unavailable import merged_reasons
from ccltui.parsers.window import format_ranks, format_steps, format_window
from ccltui.report import explanation
from ccltui.report.json_document import TraceSummary
from ccltui.report.page.page_parts import (
    ABSENT,
    Block,
    Cell,
    Column,
    Legend,
    Line,
    Lines,
    Mark,
    Number,
    Page,
    Picture,
    Section,
    Source,
    Subsection,
    Swatch,
    Table,
    bounded,
    listed_lines,
    svg_text,
    why_absent,
)
from ccltui.report.page.sections import (
    board_section,
    dimension_section,
    distribution_section,
    heat_section,
    kernel_section,
    moment_section,
    step_section,
    verdict_section,
)
from ccltui.report.text_layout import escaped, markdown_table

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.view_options import ViewOptions


_MATCH: Final = {
    "high": "matched with high confidence",
    "medium": "matched with medium confidence",
    "low": "matched with low confidence",
    "mismatched": "operations of the ranks differ",
    "incomplete": "not recorded on all ranks",
}


def trust_section(trace: TraceSummary, results: Mapping[str, Result]) -> Section:
    """Return what was read, what is missing, and how sure matches and clocks are."""
    purpose = "What was read, what is missing, and how sure matches and clocks are."
    blocks: list[Block] = [_files(trace)]
    if reason := why_absent(results, "straggler_lag"):
        blocks.append(Line(f"Matches: none shows who is late: {reason.rstrip('.')}."))
    else:
        blocks.append(_matches(results))
    if reason := why_absent(results, "clock_offsets"):
        blocks.append(Line(f"Clocks: not compared: {reason.rstrip('.')}."))
    else:
        blocks.append(_clocks(results))
    for title, texts in (
        ("Files that were not read", [f"{path}: {error}" for path, error in trace.failures]),
        ("Parts of the input that are missing", _partial(results)),
        ("Warnings", _warnings(results)),
    ):
        if texts:
            blocks.append(Lines(listed_lines(texts), title))
    return Section("trust", "Trust", purpose, blocks)


def _files(trace: TraceSummary) -> Table:
    expected = trace.expected_ranks
    world = "not stated" if expected is None else f"{expected:,}"
    missing = trace.missing_text or "none"
    rows: list[tuple[Cell, ...]] = [
        ("ranks that were read", f"{trace.ranks:,}"),
        ("ranks of the job", world),
        ("ranks not read" if trace.is_sample else "ranks without a file", missing),
        ("formats", ", ".join(trace.sources) or ABSENT),
        ("capture", trace.capture or ABSENT),
        ("files that were not read", f"{len(trace.failures):,}"),
        ("loading", "complete" if trace.complete else "stopped before the end"),
    ]
    columns = (Column("input", is_numeric=False), Column("value", is_numeric=False))
    return Table("Input", columns, rows)


def _matches(results: Mapping[str, Result]) -> Table:
    source = Source.of(results, "straggler_lag")
    rows = [(text, source.number("match", key)) for key, text in _MATCH.items()]
    columns = (Column("collectives", is_numeric=False), Column("number"))
    return Table("Collectives of all ranks", columns, rows, str(source.get("coverage") or ""))


def _clocks(results: Mapping[str, Result]) -> Table:
    source = Source.of(results, "clock_offsets")
    hosts: Sequence[str] = list(source.get("per_host") or {})
    rows: list[tuple[Cell, ...]] = [
        (
            host,
            source.number("per_host", host, "ranks"),
            source.number("per_host", host, "offset_us"),
            source.number("per_host", host, "spread_us"),
        )
        for host in hosts[:_MOST_HOSTS]
    ]
    columns = (
        Column("host", is_numeric=False),
        Column("ranks"),
        Column("offset", "us"),
        Column("spread over ranks", "us"),
    )
    bar = source.number("residual_p95_us").text
    note = f"Error bar of a clock, p95 of the residuals: {bar} us. Evidence: "
    note += f"{source.get('evidence') or 'none'}."
    if len(hosts) > _MOST_HOSTS:
        note += f" {_MOST_HOSTS} of {len(hosts)} hosts."
    return Table("Clocks by host", columns, rows, note)


_MOST_HOSTS: Final = 64


def _partial(results: Mapping[str, Result]) -> list[str]:
    """Return why results cover only a part, each reason once with the metrics concerned."""
    found: dict[str, list[str]] = {}
    for name, result in results.items():
        if result.status == "partial":
            for _, message in merged_reasons(result.reasons):
                found.setdefault(message, []).append(name)
    return [f"{text} ({', '.join(names)})" for text, names in found.items()]


def _warnings(results: Mapping[str, Result]) -> list[str]:
    return list(dict.fromkeys(text for one in results.values() for text in one.warnings))


def definition_section(metrics: Iterable[Metric], results: Mapping[str, Result]) -> Section:
    """Return unit, definition, basis and source of every metric of the report."""
    rows: list[tuple[Cell, ...]] = []
    for metric in metrics:
        result = results[metric.name]
        source = Source.of(results, metric.name)
        reason = "; ".join(message for _, message in merged_reasons(result.reasons))
        value = source.number(metric.headline)
        rows.append(
            (
                metric.name,
                value,
                metric.unit,
                f"{metric.definition} {_basis(result)}".rstrip(),
                result.source or ABSENT,
                result.status + (f": {reason}" if reason else ""),
            )
        )
    columns = (
        Column("metric", is_numeric=False),
        Column("value"),
        Column("unit", is_numeric=False),
        Column("definition, with its denominator", is_numeric=False),
        Column("source", is_numeric=False),
        Column("status", is_numeric=False),
    )
    purpose = (
        "Every metric of this report: unit, definition, source, and the reason where it is missing."
    )
    return Section("definitions", "Definitions", purpose, [Table("Metrics", columns, rows)])


def _basis(result: Result) -> str:
    found = [f"{key}: {text}" for key, text in result.basis.items()]
    return f"Here: {'; '.join(found)}." if found else ""


METRICS: Final = (
    *explanation.METRICS,
    "coll_call_num",
    "idle_causes",
    "parallelism",
    "kernels",
)
"""Metrics of a report, in the order in which they are computed."""


def make_page(trace: TraceSummary, view: View, measured: Sequence[tuple[Metric, Result]]) -> Page:
    """Return the report of a job.

    Args:
        trace: summary of the input.
        view: the job and the selection.
        measured: `METRICS` with their results.
    """
    results = {metric.name: result for metric, result in measured}
    explained = explanation.explain(trace, results)
    sections: tuple[Section, ...] = (
        verdict_section(explained),
        step_section(results),
        board_section(view, results),
        heat_section(view, results),
        moment_section(view, results),
        dimension_section(results),
        kernel_section(results),
        distribution_section(view, results),
        trust_section(trace, results),
        definition_section([metric for metric, _ in measured], results),
    )
    return Page(
        path=trace.path,
        headline=explained.headline,
        facts=_facts(trace, view.options, results),
        sections=sections,
        version=__version__,
    )


def _facts(
    trace: TraceSummary, options: ViewOptions, results: dict[str, Result]
) -> list[tuple[str, str]]:
    """Return what the report is of: the input and the selection."""
    ranks = (
        f"{trace.ranks:,}"
        if trace.world_size is None
        else f"{trace.ranks:,} of {trace.world_size:,}"
    )
    steps = Source.of(results, "step_composition").get("num_steps")
    steps = steps or Source.of(results, "iter_time").get("num_iterations") or "not marked"
    facts = [
        ("Ranks", ranks),
        ("Steps", str(steps)),
        ("Formats", ", ".join(trace.sources) or "none"),
    ]
    if trace.capture:
        facts.append(("Capture", trace.capture))
    if options.window is not None:
        facts.append(("Window", format_window(options.window)))
    if options.steps is not None:
        facts.append(("Selected steps", format_steps(options.steps)))
    if options.ranks is not None:
        facts.append(("Selected ranks", format_ranks(options.ranks)))
    if options.group is not None:
        facts.append(("Group", options.group))
    if options.span != "steps":
        facts.append(("Measured time", options.span))
    facts.append(("Clocks", "as recorded" if options.raw_clocks else "corrected"))
    facts += [(f"Set {name}", str(value)) for name, value in options.overrides.items()]
    return facts


Theme = Literal["light", "dark"]
Rgb = tuple[int, int, int]

_KINDS: Final = ("compute", "waiting", "bubble", "communication", "copies")
_SHADES: Final = {
    "tp": 0.0,
    "dp": -0.25,
    "pp": 0.25,
    "ep": -0.45,
    "cp": 0.6,
    "world": -0.65,
}
"""Shades of communication by dimension: the share of the page (above 0) or of the strong text
(below 0) that is mixed in. The explorer draws them in one colour, too, with other characters."""
_CURVES: Final = (Ink.TEXT, Ink.WAITING, Ink.TRANSFER)
"""Colours of lag, wait and duration of collectives: the last two are kinds of time."""
_HEAT_LEVELS: Final = (1, 2, 3, 5, 6, 7)
"""Level of the explorer, which has seven, in the middle of each of the six classes of lateness."""
_DOT: Final = 0.2
"""Share of a cell that the dot of idle or punctual time covers. On the dark page the ground alone
has a contrast of 1.1 to the paper, with this share 1.5."""


class Colours(Struct, frozen=True):
    """Colours of one theme.

    Attributes:
        texts: paper, text and rules, by the name of their property.
        parts: what pictures consist of, by the class of the part.
        on: text on the parts of a bar, black or white, whichever has more contrast.
    """

    texts: Mapping[str, Rgb]
    parts: Mapping[str, Rgb]
    on: Mapping[str, Rgb]


def colour_rules(theme: Theme) -> str:
    """Return the rules of a style sheet that state the colours of a theme."""
    found = colours_of(theme)
    texts = " ".join(f"--{name}: {_hex(colour)};" for name, colour in found.texts.items())
    rules = [f":root {{ {texts} }}"]
    rules += [f".{name} {{ --own: {_hex(colour)}; }}" for name, colour in found.parts.items()]
    rules += [f".on.{name} {{ fill: {_hex(colour)}; }}" for name, colour in found.on.items()]
    return "\n".join(rules)


def colours_of(theme: Theme) -> Colours:
    """Return the colours of a theme, all of them made from those of the palette."""
    table = looks("truecolor", theme)
    parts = {kind: _front(table[KIND_INKS[kind]]) for kind in _KINDS}
    paper, strong = _back(table[Ink.TEXT]), _front(table[Ink.STRONG])
    for dim, share in _SHADES.items():
        other = paper if share > 0 else strong
        parts[f"dim-{dim}"] = _mixed(parts["communication"], other, abs(share))
    causes = {f"cause-{cause}": ink for cause, ink in IDLE_INKS.items()}
    for name, ink in ({"idle": Ink.IDLE} | causes).items():
        shaded = table[SHADED + ink]
        parts[name] = _mixed(_back(shaded), _front(shaded), 0.5)  # "▒" in a bar
    on = {name: max(paper, strong, key=partial(contrast, one)) for name, one in parts.items()}
    idle = table[Ink.IDLE]
    parts["lane"] = parts["heat0"] = _mixed(_back(idle), _front(idle), _DOT)
    parts["none"] = paper
    for number, level in enumerate(_HEAT_LEVELS, 1):
        parts[f"heat{number}"] = _back(table[HEAT + level * LEVELS + level])
    parts |= {f"curve{number}": _front(table[ink]) for number, ink in enumerate(_CURVES)}
    texts = {
        "paper": paper,
        "ink": _front(table[Ink.TEXT]),
        "quiet": _front(table[Ink.DIM]),
        "rule": _back(table[Ink.AREA]),
        "warn": _front(table[Ink.WARNING]),
    }
    return Colours(texts, parts, on)


def contrast(one: Rgb, other: Rgb) -> float:
    """Return the contrast ratio of WCAG 2, 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Rgb) -> float:
    """Return the relative luminance of WCAG 2, 0 to 1."""
    parts = [value / 255 for value in colour]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _front(look: Look) -> Rgb:
    return _known(look.foreground)


def _back(look: Look) -> Rgb:
    return _known(look.background)


def _known(index: int | None) -> Rgb:
    assert index is not None  # only the theme "ansi" leaves colours to the terminal
    return rgb(index)


def _mixed(one: Rgb, other: Rgb, share: float) -> Rgb:
    """Return one colour with a share, 0 to 1, of another."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return red, green, blue


def _hex(colour: Rgb) -> str:
    return "#" + bytes(colour).hex()


_TEMPLATE: Final = "page.html"
_STYLES: Final = "page.css"


def html_page(page: Page) -> bytes:
    """Return the page as UTF-8. All text is escaped, unsafe characters are made visible."""
    # Markup in names is escaped by the template engine; what could mislead a reader is not markup.
    environment = Environment(
        loader=FunctionLoader(_resource),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_safe,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests.update(
        {
            "table": _is(Table),
            "line": _is(Line),
            "lines": _is(Lines),
            "picture": _is(Picture),
            "legend": _is(Legend),
            "subsection": _is(Subsection),
            "numeral": _is(Number),
            "swatch": _is(Swatch),
            "tag": _is(Mark),
            "several": _is(tuple),
        }
    )
    environment.filters["svg"] = lambda element: Markup(svg_text(element))
    text = environment.get_template(_TEMPLATE).render(
        page=page,
        light=Markup(colour_rules("light")),
        dark=Markup(colour_rules("dark")),
        styles=Markup(_resource(_STYLES)),
    )
    return text.encode()


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _safe(value: Any) -> Any:
    return value if isinstance(value, Markup) or not isinstance(value, str) else bounded(value)


def _is(kind: type) -> Any:
    return lambda value: isinstance(value, kind)


def markdown_page(page: Page) -> bytes:
    """Return the page as UTF-8; names cannot become markup."""
    lines = [f"# {_markdown_safe(page.path)}", ""]
    lines += [f"- {_markdown_safe(name)}: {_markdown_safe(value)}" for name, value in page.facts]
    for section in page.sections:
        lines += ["", f"## {escaped(section.title)}", "", escaped(section.purpose)]
        if section.absent:
            lines += ["", f"Absent: {_markdown_safe(section.absent)}"]
        for block in section.blocks:
            lines += _lines_of(block)
    lines += ["", f"ccltui {page.version}", ""]
    return "\n".join(lines).encode()


def _lines_of(block: Block) -> Iterator[str]:
    if isinstance(block, Table):
        yield from ("", f"**{escaped(block.caption)}**", "")
        shown = [i for i, column in enumerate(block.columns) if not _is_drawn(block, i)]
        rows = [[_cell_text(row[i]) for i in shown] for row in block.rows]
        sides = ["right" if block.columns[i].is_numeric else "left" for i in shown]
        yield from markdown_table([block.columns[i].heading for i in shown], rows, sides)
        if block.note:
            yield from ("", _markdown_safe(block.note))
    elif isinstance(block, Line):
        yield from ("", _sentence(block))
    elif isinstance(block, Lines):
        yield from (("", f"### {block.title}") if block.title else ())
        yield ""
        for line in block.lines:
            yield f"- {_sentence(line)}"
    elif isinstance(block, Subsection):
        yield from ("", f"### {_markdown_safe(block.title)}")
        for part in block.blocks:
            yield from _lines_of(part)


def _is_drawn(table: Table, column: int) -> bool:
    return bool(table.rows) and all(isinstance(row[column], Picture) for row in table.rows)


def _sentence(line: Line) -> str:
    text = _markdown_safe(line.text)
    return text if line.number is None else f"{text} (`{line.number.source}{line.number.key}`)"


def _markdown_safe(text: str) -> str:
    return escaped(bounded(text))


def _cell_text(cell: Cell) -> str:
    if isinstance(cell, tuple):
        return " ".join(map(_cell_text, cell))
    if isinstance(cell, Number | Swatch | Mark):
        return cell.text
    return "" if isinstance(cell, Picture) else bounded(cell)
