"""Collect every sentence that the program can print from its source, with an example of each.

Strings of three words and more that are no docstrings, patterns or names are taken from the syntax
trees of all modules. Fields of f-strings and templates become examples: what a variable of the same
function, a constant or a function of the same module holds, where that is a text; else a typical
value for the name of the field; else the name in angle brackets.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent.parent

_SOURCES: Final = ("metrics", "parsers", "ccltui")
_LEFT_OUT: Final = (
    *("ccltui/metrics", "ccltui/parsers"),  # links to the other two folders
    *("ccltui/demo", "ccltui/tools", "ccltui/draw"),  # recordings, this page, pictures
    *("parsers/nsys/sqlite", "parsers/machine_limits.py", "parsers/scratch_folder.py"),  # code
    "ccltui/index/slurm_jobs.py",  # queries
    *("metrics/nsys_reports", "parsers/nsys/typed_table.py"),  # words of nsys itself
)
_LEAST_WORDS: Final = 3
_DEEPEST: Final = 3
"""Variables and functions within one another that an example is looked up through."""

_REASONS: Final = frozenset({"refuse", "Refusal", "Reason", "unavailable"})
_HELP: Final = frozenset({"help", "description", "epilog", "usage"})
_PATTERNS: Final = frozenset({"compile", "match", "search", "sub", "fullmatch", "findall", "split"})

_NUMBER: Final = "4"
_FIELDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("label", "rank", "culprit", "last", "longest", "other", "who"), "3"),
    **dict.fromkeys(("labels", "ranks", "missing", "absent"), "0-3"),
    **dict.fromkeys(("step", "first_step"), "12"),
    "steps": "12-14",
    **dict.fromkeys(
        ("count", "number", "total", "n", "num_ranks", "num_steps", "found", "known", "rows"),
        _NUMBER,
    ),
    "num_traces": _NUMBER,
    **dict.fromkeys(("share", "shares"), "8.4 %"),
    **dict.fromkeys(("path", "source", "folder", "directory", "file"), "run/trace_3.json"),
    **dict.fromkeys(("kernel", "operator", "operation"), "ampere_gemm"),
    **dict.fromkeys(("host", "hostname"), "node7"),
    **dict.fromkeys(("group", "communicator", "dim", "dimension"), "dp 0-3"),
    "stage": "2",
    "period": "a step",
    "device_is": "the devices are",
    "device": "0",
    "waits": "the devices wait",
    "unit": "ms",
}
_CALLS: Final[Mapping[str, str]] = {
    "percent": "8.4 %",
    "percent_cell": "8.4 %",
    "duration": "29.1 ms",
    "time_text": "29.1 ms",
    "compact_duration": "29.1ms",
    "signed_duration": "+29.1 ms",
    "instant": "1.234 s",
    "decimal_size": "41.2 GB",
    "binary_size": "256 MiB",
    "quantity": "18.4",
    "format_duration": "4s420ms",
    "factor": "6 % longer",
    "longer_than": "6 % longer than its peers",
    "ranks_text": "ranks 0-3",
    "numbers_text": "0-3",
    "ranges_text": "0-3",
    "some_of": "0-3",
    "rank_name": "r3",
    "cost_text": ", 29.1 ms a step",
    "len": _NUMBER,
    "sum": _NUMBER,
    "max": _NUMBER,
    "min": _NUMBER,
    "round": _NUMBER,
    "count": _NUMBER,
}
"""Example values by the function that makes the text."""

_KEYS_WITH_COMMENT: Final = re.compile(r"^ *# [\w ()]+: (.+)$", re.MULTILINE)
"""Lines of a file that we write, each a key and what it means: a sentence each."""

SECTIONS: Final = (
    ("findings", "Findings: what costs time"),
    ("reasons", "Why a metric is unavailable or covers a part"),
    ("definitions", "What metrics are"),
    ("metrics", "What metrics state"),
    ("readers", "What is said about files"),
    ("reports", "explain, report, diff and tables"),
    ("doctor", "doctor"),
    ("help", "Help of the command line"),
    ("commands", "Messages of commands"),
    ("panes", "Panes of the explorer"),
    ("actions", "Keys and messages of the explorer"),
    ("errors", "Errors"),
)
"""Sections of the page, in the order in which a new user meets their sentences."""


class Sentence(NamedTuple):
    """A sentence with its place: the section of the page, and the module that has it."""

    section: str
    module: str
    text: str


@cache
def sentences(root: Path = ROOT) -> Sequence[Sentence]:
    """Return all sentences, each once a module, in the order of their modules and lines."""
    found: dict[Sentence, None] = {}
    for path in _modules(root):
        name = path.relative_to(root).as_posix()
        for one in _Module(name, ast.parse(path.read_text(encoding="utf-8"))).sentences():
            found[one] = None
    return tuple(found)


def page(notice: str) -> str:
    """Return the page: a list of sentences for each module, by section."""
    every = sentences()
    parts = ["# Sentences", notice, _INTRODUCTION]
    for key, title in SECTIONS:
        own = [one for one in every if one.section == key]
        parts.append(f"## {title}")
        for module in dict.fromkeys(one.module for one in own):
            rows = [f"- {_escaped(one.text)}" for one in own if one.module == module]
            parts.append("\n".join([f"`{module}`", "", *rows]))
    return "\n\n".join(parts) + "\n"


_INTRODUCTION: Final = """\
Everything that the explorer, the commands and the reports can print, by the module that prints it,
with examples in place of what differs from recording to recording. Texts that are put together from
parts are listed by part. A name in angle brackets stands for a text from the recording, or for
another sentence of this page."""


def _modules(root: Path) -> Iterator[Path]:
    for source in _SOURCES:
        for path in sorted((root / source).rglob("*.py")):
            if not path.relative_to(root).as_posix().startswith(_LEFT_OUT):
                yield path


class _Module:
    """A module with what its fields may hold: variables by function, constants, and functions."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.parents: dict[ast.AST, ast.AST] = {}
        self.nodes = list(_in_order(tree, self.parents))
        self.functions = {
            node.name: node for node in self.nodes if isinstance(node, ast.FunctionDef)
        }

    def sentences(self) -> Iterator[Sentence]:
        """Yield the sentences in the order of the source."""
        for node in self.nodes:
            if isinstance(node, ast.JoinedStr | ast.Constant) and _is_text(node, self.parents):
                whole = self.text(node)
                for part in _KEYS_WITH_COMMENT.findall(whole) or [whole]:
                    text = " ".join(part.split())
                    if _reads_as_sentence(text):
                        yield Sentence(_section(self.name, node, self.parents), self.name, text)

    def text(self, node: ast.expr, depth: int = 0) -> str:
        """Return a string with examples in its fields."""
        if isinstance(node, ast.Constant):
            if not isinstance(node.value, str | int | float) or isinstance(node.value, bool):
                return ""
            return re.sub(r"\{(\w*)(?:[:!][^{}]*)?\}", lambda got: _field(got[1]), str(node.value))
        if not isinstance(node, ast.JoinedStr):
            return ""
        return "".join(
            self.example(part.value, part.format_spec, depth)
            if isinstance(part, ast.FormattedValue)
            else str(getattr(part, "value", ""))
            for part in node.values
        )

    def example(self, node: ast.expr, spec: ast.expr | None = None, depth: int = 0) -> str:
        """Return an example of the value of a field."""
        wanted = self.text(spec) if spec is not None else ""
        if wanted.endswith(("f", "g", ",")):
            return "+3.2" if wanted.startswith("+") else "3.2" if wanted != "," else _NUMBER
        if isinstance(node, ast.JoinedStr | ast.Constant):
            return self.text(node, depth)
        if isinstance(node, ast.IfExp):
            ways = [node.body, node.orelse]
            if "== 1" in ast.unparse(node.test):  # examples are of several
                ways.reverse()
            texts = (self.example(way, None, depth) for way in ways)
            return next(filter(None, texts), "")
        if isinstance(node, ast.Call):
            return self._example_of_call(node, depth)
        if isinstance(node, ast.BoolOp):
            return self.example(node.values[0], None, depth)
        if isinstance(node, ast.BinOp):
            left = self.example(node.left, None, depth)
            adds = isinstance(node.op, ast.Add) and not left.isdecimal()
            return left + self.example(node.right, None, depth) if adds else _NUMBER
        if isinstance(node, ast.Name) and depth < _DEEPEST and node.id not in _FIELDS:
            held = self._held_by(node)
            if held is not None:
                return self.example(held, None, depth + 1)
        return _field(_identifier(node))

    def _held_by(self, name: ast.Name) -> ast.expr | None:
        """Return the text that a variable of the same function holds first, None without one."""
        scope: ast.AST | None = name
        while scope is not None and not isinstance(scope, ast.FunctionDef):
            scope = self.parents.get(scope)
        for node in () if scope is None else _in_order(scope):
            if isinstance(node, ast.Assign) and _identifier(node.targets[0]) == name.id:
                value = node.value
                if isinstance(value, ast.JoinedStr | ast.Call | ast.IfExp | ast.BinOp):
                    return None if name in ast.walk(value) else value
                if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value:
                    return value
        return None

    def _example_of_call(self, node: ast.Call, depth: int) -> str:
        name = _called(node)
        if name == "counted" and len(node.args) > 1:
            noun = self.example(node.args[-1], None, depth)
            return f"{_NUMBER} {noun if len(node.args) > 2 else f'{noun}s'}"
        if name in _CALLS:
            return _CALLS[name]
        if name in ("replace", "strip", "rstrip", "lower") and isinstance(node.func, ast.Attribute):
            return self.example(node.func.value, None, depth)
        key = node.args[0] if name == "get" and node.args else None
        if isinstance(key, ast.Constant) and key.value in _FIELDS:
            return _field(str(key.value))
        function = self.functions.get(name)
        if function is not None and depth < _DEEPEST:
            for one in _in_order(function):
                value = one.value if isinstance(one, ast.Return) else None
                if isinstance(value, ast.JoinedStr | ast.Constant) and self.text(value, depth + 1):
                    return self.text(value, depth + 1)
        if node.args and not isinstance(node.args[0], ast.Starred):
            return self.example(node.args[0], None, depth)
        return _field(name)


def _in_order(node: ast.AST, parents: dict[ast.AST, ast.AST] | None = None) -> Iterator[ast.AST]:
    """Yield all nodes in the order of the source, and note the parent of each."""
    left = [node]
    while left:
        one = left.pop()
        yield one
        children = list(ast.iter_child_nodes(one))
        if parents is not None:
            parents.update(dict.fromkeys(children, one))
        left += reversed(children)


def _is_text(node: ast.expr, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether a string is a value of its own: no part of another, docstring, key or pattern."""
    if isinstance(node, ast.Constant) and not isinstance(node.value, str):
        return False
    parent = parents[node]
    if isinstance(parent, ast.Expr | ast.JoinedStr | ast.FormattedValue | ast.Compare):
        return False
    if isinstance(parent, ast.Subscript) or (isinstance(parent, ast.Dict) and node in parent.keys):
        return False
    if isinstance(parent, ast.Call):
        return _called(parent) not in _PATTERNS
    return True


def _identifier(node: ast.AST) -> str:
    if isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return node.slice.value
        return _identifier(node.value)
    if isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp):
        return _identifier(node.elt)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _field(name: str) -> str:
    name = name.strip("_")
    return _FIELDS.get(name) or (f"‹{name.replace('_', ' ').lower()}›" if name else "…")


def _called(node: ast.Call) -> str:
    return _identifier(node.func)


def _reads_as_sentence(text: str) -> bool:
    """Whether a text has words enough, and none of the signs of code, patterns and markup."""
    words = [word for word in text.split() if re.search(r"[A-Za-z]{2,}|^[aI]$", word)]
    if len(words) < _LEAST_WORDS or not re.search(r"\b[a-z]{2,}\b", text):
        return False
    if re.search(
        r"\(\?|\\[bdsw]|</|[{};]$|^\W*[#<]|\bdef |\b(SELECT|INSERT|CREATE|IN|LIKE|ORDER BY) |"
        r"^label |^Message size|^(In|Out) msg|Id, |deviceId",
        text,
    ):
        return False
    letters = sum(one.isalpha() or one in " ,.:;" for one in text)
    return letters >= 0.7 * len(text)


def _section(module: str, node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> str:
    around: ast.AST | None = node
    while (around := parents.get(around) if around is not None else None) is not None:
        if isinstance(around, ast.keyword) and around.arg in _HELP:
            return "actions" if module.startswith("ccltui/tui") else "help"
        if isinstance(around, ast.Call):
            name = _called(around)
            if name in _REASONS:
                return "reasons"
            if name == "metric" and module.startswith("metrics/catalog"):
                return "definitions"
        if isinstance(around, ast.Raise):
            return "errors"
    for start, section in _FOLDERS:
        if module.startswith(start):
            return section
    return "commands"


_FOLDERS: Final[Sequence[tuple[str, str]]] = (
    ("metrics/findings", "findings"),
    ("metrics", "metrics"),
    ("parsers", "readers"),
    ("ccltui/doctor", "doctor"),
    ("ccltui/report", "reports"),
    ("ccltui/export", "reports"),
    ("ccltui/mcp_server", "reports"),
    ("ccltui/tui/panes", "panes"),
    ("ccltui/tui", "actions"),
)


def _escaped(text: str) -> str:
    return re.sub(r"([*_`<|\[\]])", r"\\\1", text)
