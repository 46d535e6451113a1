"""Write the outcome of gates as JUnit XML and as annotations of GitHub Actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from xml.etree import ElementTree as Xml

from ccltui.parsers.safe_text import safe_text
from ccltui.report.gates import Verdict

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
