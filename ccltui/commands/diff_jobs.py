"""Load the traces of both sides of ``ccltui diff`` and compare them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui import arguments as args
from ccltui.commands.loading import LoadedJob, LoadOptions, load_job
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.names import printable
from ccltui.parsers.window import parse_ranks, parse_steps, parse_window
from ccltui.report.output import print_message

if TYPE_CHECKING:
    from ccltui.metrics.compare.compare_jobs import JobComparison
    from ccltui.metrics.compare.job_table import JobTable
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.view.view_options import ViewOptions

_OF_VIEW: Final[Mapping[str, Callable[[str], object]]] = {
    "steps": parse_steps,
    "ranks": parse_ranks,
    "window": parse_window,
    "group": str,
}
_OF_FILES: Final = ("runs", "cluster")
"""Categories of metrics that are read from files beside the traces."""
_OF_LOADING: Final[Mapping[str, Callable[[str], object]]] = {
    "capture": str,
    "iteration": args.natural,
}


class Selected(Struct, frozen=True):
    """One condition of ``--a`` or ``--b``: its name, its value, and the text as it was written."""

    name: str
    value: object
    text: str


def selected(text: str) -> Selected:
    """Parse ``steps=I-J``, ``ranks=LIST``, ``window=A/B`` and the like. Raises GrammarError."""
    name, value = args.assignment(text)
    parse = {**_OF_VIEW, **_OF_LOADING}.get(name)
    if parse is None:
        known = ", ".join((*_OF_VIEW, *_OF_LOADING))
        raise GrammarError(f"{text[:80]!r}: {name[:40]!r} is none of {known}")
    return Selected(name, parse(value), text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of comparisons of traces."""
    group = parser.add_argument_group("parts of traces")
    for side in "ab":
        group.add_argument(
            f"--{side}",
            dest=f"only_{side}",
            action="append",
            default=[],
            type=args.grammar(selected),
            metavar="NAME=VALUE",
            help=f"compare only this part of {side.upper()}: steps=I-J, ranks=LIST, window=A/B, "
            "group=NAME, capture=NAME or iteration=N; may be repeated",
        )
    parser.add_argument(
        "--metrics",
        action="store_true",
        help="compare all metrics of traces too, in tables and in json",
    )
    args.add_selection(parser)
    args.add_capture(parser)
    args.add_loading(parser)


def compare(options: argparse.Namespace) -> tuple[JobComparison, bool]:
    """Return the comparison, and whether all files of both sides were read.

    One job of which two parts are compared is loaded once.

    Raises:
        GrammarError: a selection is invalid.
        TraceError: a side cannot be opened.
    """
    from ccltui.commands.measure import check_overrides, view_of  # noqa: PLC0415  (numpy)
    from ccltui.metrics.compare.compare_jobs import compare_jobs  # noqa: PLC0415
    from ccltui.metrics.compare.job_side import job_table  # noqa: PLC0415
    from ccltui.metrics.compare.metric_changes import measures  # noqa: PLC0415

    selection = args.selection_of(options)
    check_overrides(selection.overrides)
    tables: dict[str, list[JobTable]] = {"a": [], "b": []}
    loaded = dict[LoadOptions, LoadedJob]()
    for label, path, name in _paths(options):
        parts = getattr(options, f"only_{label}")
        loading = _loading(path, parts, options)
        if loading not in loaded:
            loaded[loading] = load_job(loading)
            _print_problems(loaded[loading], loading)
        view = view_of(loaded[loading], _selection(selection, parts))
        table = job_table(view, _name(name, parts))
        if options.metrics:
            table = replace(table, metrics=measures(view, _compared_metrics()))
        tables[label].append(table)
    is_whole = all(one.complete and not one.job.failures for one in loaded.values())
    return compare_jobs(tables["a"], tables["b"], runs_vary_pct=options.runs_vary), is_whole


def _paths(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Return side, path and name of each run that is compared."""
    paths = [("a", options.a), ("b", options.b or options.a)]
    paths += [("a", path) for path in options.also_a] + [("b", path) for path in options.also_b]
    names = _names(*(path for _, path in paths))
    return [(label, path, name) for (label, path), name in zip(paths, names, strict=True)]


def _compared_metrics() -> list[Metric]:
    """Metrics of traces: those of runs and machines do not depend on what is selected of them."""
    from ccltui.metrics.registry import metrics  # noqa: PLC0415

    return [m for m in metrics().values() if m.in_all and m.category not in _OF_FILES]


def _loading(path: str, parts: Sequence[Selected], options: argparse.Namespace) -> LoadOptions:
    found: dict[str, Any] = {one.name: one.value for one in parts if one.name in _OF_LOADING}
    return LoadOptions.of(path, options).changed(**found)


def _selection(selection: ViewOptions, parts: Sequence[Selected]) -> ViewOptions:
    found: dict[str, Any] = {one.name: one.value for one in parts if one.name in _OF_VIEW}
    return selection.changed(**found)


def _names(*paths: str) -> list[str]:
    """Return the last names of paths, with folders above them where two paths have one name."""
    folders = [Path(path).resolve().parts for path in paths]
    for depth in range(1, max(map(len, folders))):
        names = ["/".join(one[-depth:]) for one in folders]
        if len(set(names)) == len(set(folders)):
            return names
    return list(paths)


def _name(name: str, parts: Sequence[Selected]) -> str:
    return printable(" ".join([name, *(one.text for one in parts)]))


def _print_problems(loaded: LoadedJob, loading: LoadOptions) -> None:
    from ccltui.commands.measure import print_captures  # noqa: PLC0415  (numpy)

    if loading.iteration is None and loading.capture is None:
        print_captures(loaded.job)
    for failure in loaded.job.failures:
        print_message(failure.error)
    if not loaded.complete:
        print_message(
            f"stopped: {len(loaded.job.read_paths)} of {len(loaded.job.capture.files)} files"
        )
