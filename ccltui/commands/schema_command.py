"""``ccltui schema``: print the JSON Schema of a document that a command prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.parsers.errors import GrammarError
from ccltui.report.output import write_report
from ccltui.report.text_layout import table, text_bytes
from ccltui.verbs import usage_of

PROG = "ccltui schema"
_DESCRIPTION = """\
Print the JSON Schema (draft 2020-12) of a document that a command prints as JSON; without NAME list
them. Members may be added to a document in any release, so a reader must ignore unknown ones; its
version is raised when one is removed, renamed or changes its meaning."""


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui schema``."""
    result = args.Parser(prog=PROG, usage=usage_of("schema"), description=_DESCRIPTION)
    result.add_argument("name", nargs="?", metavar="NAME", help="name of the schema")
    args.add_general(result)
    return result


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui schema`` with its arguments and return the exit status."""
    name = parser().parse_args(arguments).name
    known = schema_files()
    if name is None:
        write_report(text_bytes(_listed(known)), None)
    elif name in known:
        write_report(known[name], None)
    else:
        raise GrammarError(f"no schema {name[:80]!r}; there are {', '.join(known)}")
    return exit_codes.OK


def schema_files() -> Mapping[str, bytes]:
    """Return the text of every schema by name, in order of names."""
    found = {
        file.name.removesuffix(".json"): file.read_bytes()
        for file in files("ccltui.schemas").iterdir()
        if file.name.endswith(".json")
    }
    return dict(sorted(found.items()))


def _listed(known: Mapping[str, bytes]) -> list[str]:
    import json  # noqa: PLC0415  (one schema is printed as it is)

    schemas: dict[str, Any] = {name: json.loads(text) for name, text in known.items()}
    return table(["schema", "of"], [[name, one["description"]] for name, one in schemas.items()])
