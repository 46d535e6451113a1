"""Conditions of ``--fail-if``: ``METRIC[.KEY…] OPERATOR NUMBER``, and the program for an alert.

A name in a key that holds spaces or comparison signs is quoted: ``kernels."void f<int>".delta_ms``.
Outcomes are written as JUnit XML and as annotations of GitHub Actions; nothing runs as code.
"""

from __future__ import annotations

import math
import operator
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as Xml

from msgspec import Struct

from ccltui.metrics.result import Result
from ccltui.metrics.unavailable import merged_reasons
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.safe_text import listed, safe_text

if TYPE_CHECKING:
    from ccltui.report import documents


_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = MappingProxyType(
    {
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        "==": operator.eq,
        "!=": operator.ne,
    }
)
_CONDITION = re.compile(
    r"(?P<metric>[A-Za-z0-9_-]+)(?:\.(?P<key>(?:\"[^\"]*\"|[^\s<>=!])++))?\s*"
    r"(?P<operator><=|>=|==|!=|<|>)\s*"
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
)
_KEYS_LISTED: Final = 12
_EXAMPLE = 'write for example "straggler_lag.mean_lag_us > 500" or "comm_comp_overlap < 0.5"'


class Gate(Struct, frozen=True):
    """A condition that makes the run fail; ``key`` "" means the metric's headline value."""

    text: str
    metric: str
    key: str
    operator: str
    limit: float


class Verdict(Struct, frozen=True):
    """Outcome of a gate; ``tripped`` is None if undecided, for the reason in ``problem``."""

    gate: Gate
    value: float | int | None
    tripped: bool | None
    problem: str | None = None

    def to_dict(self) -> documents.Gate:
        """The JSON form."""
        return {
            "condition": self.gate.text,
            "value": self.value,
            "tripped": self.tripped,
            "problem": self.problem,
        }


def parse_gate(text: str) -> Gate:
    """Parse a condition. Raises GrammarError with an example."""
    match = _CONDITION.fullmatch(text.strip())
    if match is None:
        raise GrammarError(
            f"Illegal condition {text[:80]!r}: it is not METRIC.KEY, an operator "
            f"({' '.join(_OPERATORS)}) and a number; {_EXAMPLE}"
        )
    limit = float(match["number"])
    if not math.isfinite(limit):
        raise GrammarError(f"Illegal condition {text[:80]!r}: the number is too large; {_EXAMPLE}")
    return Gate(text.strip(), match["metric"], match["key"] or "", match["operator"], limit)


def judge(gate: Gate, result: Result) -> Verdict:
    """Evaluate ``gate`` on ``result``; an absent value gives a problem instead."""
    if result.status == "unavailable":
        why = "; ".join(f"{code}: {message}" for code, message in merged_reasons(result.reasons))
        return Verdict(gate, None, None, f"{gate.metric} is unavailable ({why})")
    value = result.value if not gate.key else _value_at(result.details, gate.key)
    return _judged(gate, value)


def judge_details(
    gate: Gate, details: Mapping[str, Any], headline: str, *, why_null: str = ""
) -> Verdict:
    """Evaluate ``gate`` on nested values; its first name is a key of ``details``.

    Args:
        gate: the condition.
        details: values by name.
        headline: key that a condition without a key tests.
        why_null: reason of values that are null, "" where it is unknown.
    """
    inner = _item(details, gate.metric)
    if isinstance(inner, _Absent):
        return Verdict(gate, None, None, f"there is no {gate.metric}{_hint(details, gate.metric)}")
    key = gate.key or headline
    return _judged(gate, _value_at(inner, key), why_null, key)


def _judged(gate: Gate, value: Any, why_null: str = "", name: str = "") -> Verdict:
    if isinstance(value, _Absent):
        return Verdict(gate, None, None, f"{gate.metric} has no {gate.key}{value.hint}")
    if value is None:
        name = name or gate.key or gate.metric
        why = f"{name} is unknown: {why_null}" if why_null else f"{name} is null in this trace"
        return Verdict(gate, None, None, why)
    if not isinstance(value, int | float):
        return Verdict(gate, None, None, f"{gate.key} is not a number")
    number = int(value) if isinstance(value, bool) else value
    return Verdict(gate, number, _OPERATORS[gate.operator](number, gate.limit))


class _Absent(Struct, frozen=True):
    hint: str


def _value_at(details: Any, path: str) -> Any:
    """Value at a path in ``details``; names that contain points are tried before they are split."""
    if path.startswith('"'):  # a name with spaces or comparison signs, as of a C++ kernel
        name, _, rest = path[1:].partition('"')
        inner = _item(details, name)
        if isinstance(inner, _Absent):
            return _Absent(_hint(details, name))
        return _value_at(inner, rest[1:]) if rest.startswith(".") else inner
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        inner = _item(details, ".".join(parts[:length]))
        if isinstance(inner, _Absent):
            continue
        rest = ".".join(parts[length:])
        return _value_at(inner, rest) if rest else inner
    return _Absent(_hint(details, parts[0]))


def _item(details: Any, name: str) -> Any:
    if isinstance(details, Mapping):
        return details.get(name, _Absent(""))
    if isinstance(details, Sequence) and not isinstance(details, str) and name.isdecimal():
        return details[int(name)] if int(name) < len(details) else _Absent("")
    return _Absent("")


def _hint(details: Any, name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  (for the message alone)

    names = [str(key) for key in details] if isinstance(details, Mapping) else []
    near = get_close_matches(name, names, n=3)
    if near:
        return f"; near names: {', '.join(near)}"
    return f"; it has {listed(names, _KEYS_LISTED)}" if names else ""


_DATA: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def junit(verdicts: Sequence[Verdict], suite: str) -> bytes:
    """Return a JUnit document: a test case for each condition of ``--fail-if``.

    A condition that holds is a failure, one that cannot be decided an error.

    Args:
        verdicts: outcomes of the conditions.
        suite: name of the test suite, such as "ccltui diff".
    """
    return _document(_suite(verdicts, suite))


def junit_suites(suites: Mapping[str, Sequence[Verdict]]) -> bytes:
    """Return a JUnit document with a suite of conditions for each name, as `junit` writes one."""
    root = Xml.Element("testsuites")
    root.extend(_suite(verdicts, name) for name, verdicts in suites.items())
    return _document(root)


def _suite(verdicts: Sequence[Verdict], name: str) -> Xml.Element:
    suite = Xml.Element(
        "testsuite",
        name=safe_text(name),
        tests=str(len(verdicts)),
        failures=str(sum(one.tripped is True for one in verdicts)),
        errors=str(sum(one.tripped is None for one in verdicts)),
        skipped="0",
    )
    for verdict in verdicts:
        case = Xml.SubElement(
            suite, "testcase", classname=safe_text(name), name=safe_text(verdict.gate.text)
        )
        if verdict.tripped is not False:
            kind = "failure" if verdict.tripped else "error"
            Xml.SubElement(case, kind, message=safe_text(_message(verdict)))
        elif verdict.value is not None:
            Xml.SubElement(case, "system-out").text = f"value {verdict.value!r}"
    return suite


def _document(root: Xml.Element) -> bytes:
    Xml.indent(root)
    return bytes(Xml.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def github_annotations(verdicts: Sequence[Verdict], title: str) -> list[str]:
    """Return workflow commands of GitHub Actions: an error for each condition that holds.

    A condition that cannot be decided is a warning; one that does not hold prints nothing.
    """
    lines = []
    for verdict in verdicts:
        if verdict.tripped is False:
            continue
        level = "error" if verdict.tripped else "warning"
        name = safe_text(title).translate(_PROPERTY)
        lines.append(f"::{level} title={name}::{safe_text(_message(verdict)).translate(_DATA)}")
    return lines


def _message(verdict: Verdict) -> str:
    if verdict.tripped:
        return f"{verdict.gate.text}: it is {verdict.value!r}"
    return f"{verdict.gate.text}: not decided, {verdict.problem}"


_COMMAND_S: Final = 60.0
"""Seconds after which the command is ended: headless no look happens while it runs."""


def run_command(command: str, verdict: Verdict, path: str, *, output: int | IO[Any]) -> str | None:
    """Start the command of an alert without a shell, and wait for it.

    Args:
        command: Program with arguments.
        verdict: The alert; its condition and value are in the environment of the program.
        path: The directory that is followed, also there.
        output: Where the program's standard output and error go.

    Returns:
        Why it failed, None where it did not.
    """
    import subprocess  # noqa: PLC0415  (2 ms that commands without alerts save)

    words = shlex.split(command)
    alert = {
        "CCLTUI_ALERT": verdict.gate.text,
        "CCLTUI_ALERT_VALUE": str(verdict.value),
        "CCLTUI_ALERT_PATH": path,
    }
    try:
        done = subprocess.run(
            words,
            check=False,
            env={**os.environ, **alert},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=_COMMAND_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"--alert-command: {error}"
    if done.returncode:
        return f"--alert-command: {words[0]} ended with status {done.returncode}"
    return None
