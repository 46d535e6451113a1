"""Measure the shape of the source tree: folders, module sizes, importers, import levels and cycles.

python -m bench.structure [ROOT]

Imports inside functions and under TYPE_CHECKING count as well, because a reader of the code follows
them too. Levels are the longest chain of imports inside a package, by module and by folder.
"""

from __future__ import annotations

import argparse
import ast
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

PACKAGES: Final = ("parsers", "metrics", "ccltui")
"""Folders at the top of the repository."""

Graph = Mapping[str, frozenset[str]]

EXTENDED: Final[Mapping[str, str]] = {
    "ccltui.commands.demo_command": "a kind of demo job",
    "ccltui.commands.export_command": "a form of export",
    "ccltui.commands.index_command": "an engine",
    "ccltui.report.writers": "a writer of results",
    "ccltui.tui.panes": "a pane",
    "metrics.catalog.time.findings": "the answer of a kind of recording",
    "metrics.hangs.find_hang": "a kind of record that tells of a hang, or the reader of one",
    "metrics.nsys_reports.make_report": "a kind of report",
}
"""Modules that list others of one kind: what only they import is apart because adding one of its
kind is one file and a line."""

KEPT_APART: Final[Mapping[str, tuple[str, ...]]] = {
    "it is an entry point": (
        "ccltui.__main__",  # of ``python -m ccltui.ccl_metrics``
        "ccltui.api",
        "ccltui.commands.follow_command",
    ),
    "it is a pane or a demo job that is asked for elsewhere": (
        "ccltui.demo.planted.planted_job",
        "ccltui.tui.panes.compare_pane",
    ),
    "it is the reader of a format": (
        "parsers.side.nccl_profiler",
        "parsers.rocm.kernel_trace",
        "parsers.side.printed_tables",
    ),
    "it is imported when it is needed, and its importer is of every start": (
        "ccltui.tui.input.control",
        "ccltui.tui.input.recording",
        "ccltui.tui.panes.collective_drawer",
        "ccltui.tui.panes.first_screen",
        "ccltui.tui.reducer",
        "ccltui.tui.serve",
        "ccltui.tui.start",
        "ccltui.tui.terminal.driver",
    ),
    "it needs a package that is not always installed": ("ccltui.mcp_server.tool_server",),
    "together with its importer it would be beyond 750 lines": (
        "ccltui.demo.planted.training_steps",
        "ccltui.doctor.trace_checks",
        "ccltui.report.page.sections",
        "ccltui.tui.canvas",
        "ccltui.tui.engine.background",
        "ccltui.tui.input.picker",
        "ccltui.tui.panes.event_drawer",
        "ccltui.tui.panes.metric_tables",
        "metrics.collectives.implied.implied_groups",
        "metrics.collectives.implied.implied_transfers",
        "metrics.collectives.matching.lineup",
        "metrics.findings.recordings.inspector_findings",
        "metrics.findings.recordings.single_findings",
        "metrics.findings.waits.link_times",
        "metrics.hangs.flight_words",
        "metrics.nsys_reports.alltoall_delays",
        "parsers.nsys.capture_session",
        "parsers.nsys.nsys_reader",
        "parsers.nsys.spilled_events",
        "parsers.nsys.typed_columns",
        "parsers.runs.step_lines",
    ),
    "it is a subject of its own, and its importer only calls it": (
        "ccltui.report.page.make_page",  # the command parses arguments and writes a file
        "ccltui.tools.sentences",  # reads the source of all modules for one of the pages
    ),
    "it is replaced as a whole where its functions were compiled": (
        "metrics.arrays.interval_arrays",
    ),
}
"""Other modules that one other imports, by the reason why they are apart from it."""


class Module(Struct, frozen=True):
    """One source file: its path, its lines and the modules of this project it imports."""

    name: str  # as in an import, without the installed prefix: "parsers.kineto.preview"
    path: Path
    lines: int
    imports: frozenset[str]
    docstring: str

    @property
    def is_package(self) -> bool:
        """Whether this is the ``__init__`` of a folder."""
        return self.path.name == "__init__.py"

    @property
    def folder(self) -> str:
        """Name of the package that holds the module."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    def count_comments(self) -> int:
        """Count the comments, which takes as long as to parse: only the figures need it."""
        with tokenize.open(self.path) as file:
            return sum(
                one.type == tokenize.COMMENT for one in tokenize.generate_tokens(file.readline)
            )


class Shape(Struct, frozen=True):
    """Figures of one package."""

    modules: int
    lines: int
    median_lines: int
    longest: tuple[str, int]
    fullest_folder: tuple[str, int]
    module_levels: int
    folder_levels: int
    cycles: tuple[tuple[str, ...], ...]
    comments_per_100_lines: float


def read_modules(root: Path, packages: Iterable[str] = PACKAGES) -> dict[str, Module]:
    """Parse every module of the packages below root, by name."""
    paths: dict[str, Path] = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            # The links in ccltui/ lead to folders that are listed under their own names.
            if not name.startswith(("ccltui.parsers", "ccltui.metrics")):
                paths[name] = path
    return {name: _module(name, path, paths.keys()) for name, path in paths.items()}


def _module(name: str, path: Path, known: Iterable[str]) -> Module:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    names = set(known)
    found = {one for node in _statements(tree) for one in _imported(node, names)}
    docstring = ast.get_docstring(tree) or ""
    lines = text.count("\n")
    return Module(name, path, lines, frozenset(found - {name}), docstring)


def _statements(node: ast.AST) -> Iterable[ast.AST]:
    """Yield a node and the statements in it; expressions, nine tenths of a tree, import nothing."""
    yield node
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for one in getattr(node, block, ()):
            yield from _statements(one)


def _imported(node: ast.AST, known: set[str]) -> Iterable[str]:
    if isinstance(node, ast.Import):
        candidates = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        candidates = [
            f"{node.module}.{alias.name}"
            if _own(f"{node.module}.{alias.name}") in known
            else node.module
            for alias in node.names
        ]
    else:
        return
    yield from (_own(one) for one in candidates if _own(one) in known)


def _own(name: str) -> str:
    """Return the name of a module without the prefix under which it is installed."""
    prefix, _, rest = name.partition(".")
    is_layer = prefix == "ccltui" and rest.partition(".")[0] in ("parsers", "metrics")
    return rest if is_layer else name


def cycles(graph: Graph) -> list[tuple[str, ...]]:
    """Return the strongly connected components of more than one node (Tarjan 1972)."""
    return [component for component in _components(graph) if len(component) > 1]


def levels(graph: Graph) -> int:
    """Return the number of nodes on the longest path; a cycle counts as one node."""
    depth: dict[str, int] = {}
    longest = 0
    for component in _components(graph):  # what a component imports comes before it
        below = [depth[other] for one in component for other in graph[one] if other in depth]
        level = 1 + max(below, default=0)
        depth.update(dict.fromkeys(component, level))
        longest = max(longest, level)
    return longest


def _components(graph: Graph) -> list[tuple[str, ...]]:
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[tuple[str, ...]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(tuple(sorted(stack[at:])))
            del stack[at:]

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 10 * len(graph) + 1000))
    try:
        for node in sorted(graph):
            if node not in index:
                visit(node)
    finally:
        sys.setrecursionlimit(limit)  # who runs in the same process may count on it
    return found


def module_graph(modules: Mapping[str, Module], package: str = "") -> Graph:
    """Return the imports between the modules of a package, of all where none is named."""
    inside = {name for name in modules if _within(name, package)}
    return {name: modules[name].imports & inside for name in inside}


def folder_graph(modules: Mapping[str, Module], package: str = "") -> Graph:
    """Return the imports between folders; a module at the top of its package counts by itself."""
    place = {
        name: name if module.folder in (*PACKAGES, "ccltui.tui") else module.folder
        for name, module in modules.items()
        if _within(name, package)
    }
    graph: dict[str, set[str]] = {node: set() for node in place.values()}
    for name, node in place.items():
        graph[node] |= {place[one] for one in modules[name].imports if one in place} - {node}
    return {node: frozenset(others) for node, others in graph.items()}


def _within(name: str, package: str) -> bool:
    return not package or name == package or name.startswith(f"{package}.")


def shape(modules: Mapping[str, Module], package: str) -> Shape:
    """Return the figures of one package."""
    inside = [module for name, module in modules.items() if _within(name, package)]
    code = [module for module in inside if not module.is_package]
    lines = sum(module.lines for module in inside)
    longest = max(code, key=lambda module: module.lines)
    folders = Counter(module.folder for module in code)
    graph = module_graph(modules, package)
    return Shape(
        modules=len(inside),
        lines=lines,
        median_lines=int(statistics.median(module.lines for module in code)),
        longest=(longest.name, longest.lines),
        fullest_folder=folders.most_common(1)[0],
        module_levels=levels(graph),
        folder_levels=levels(folder_graph(modules, package)),
        cycles=tuple(cycles(graph)),
        comments_per_100_lines=100 * sum(module.count_comments() for module in inside) / lines,
    )


def lone_modules(modules: Mapping[str, Module]) -> dict[str, str]:
    """Return the modules that exactly one other imports, each with that one."""
    importers: dict[str, list[str]] = {}
    for name, module in modules.items():
        for other in module.imports:
            importers.setdefault(other, []).append(name)
    return {
        name: found[0]
        for name, found in sorted(importers.items())
        if len(found) == 1 and not modules[name].is_package
    }


def shared_names(modules: Mapping[str, Module]) -> dict[str, list[str]]:
    """Return the module names that occur in more than one folder, with their places."""
    places: dict[str, list[str]] = {}
    for name, module in modules.items():
        if not module.is_package:
            places.setdefault(name.rpartition(".")[2], []).append(name)
    return {name: found for name, found in places.items() if len(found) > 1}


def main() -> int:
    """Print the figures of each package."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.structure")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parent.parent)
    modules = read_modules(parser.parse_args().root)
    for package in (*PACKAGES, "ccltui.tui"):
        one = shape(modules, package)
        print(
            f"{package}: {one.modules} modules, {one.lines} lines, median {one.median_lines}, "
            f"longest {one.longest[0]} ({one.longest[1]}); fullest folder "
            f"{one.fullest_folder[0]} ({one.fullest_folder[1]}); import levels "
            f"{one.module_levels} by module, {one.folder_levels} by folder; "
            f"{len(one.cycles)} cycles; {one.comments_per_100_lines:.1f} comments per 100 lines"
        )
        for cycle in one.cycles:
            print(f"  cycle: {', '.join(cycle)}")
    everywhere = cycles(folder_graph(modules))
    print(f"cycles of folders: {len(everywhere)}")
    for cycle in everywhere:
        print(f"  {', '.join(cycle)}")
    lone = lone_modules(modules)
    extensions = sum(importer in EXTENDED for importer in lone.values())
    print(
        f"modules: {len(modules)}, of which {sum(one.is_package for one in modules.values())} are "
        f"of folders; imported by one other: {len(lone)}, of which {extensions} are of the kinds "
        "that are extended"
    )
    print(f"module names in several folders: {len(shared_names(modules))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
