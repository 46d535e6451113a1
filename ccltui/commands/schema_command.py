"""``ccltui schema``: print the JSON Schema of a document that a command prints."""

from __future__ import annotations

from collections.abc import Sequence

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.parsers.errors import GrammarError
from ccltui.report.output import write_report
from ccltui.report.text_layout import table, text_bytes
from ccltui.schemas.documents import DOCUMENTS
from ccltui.schemas.make_schema import schema_text

_DESCRIPTION = """\
Print the JSON Schema (draft 2020-12) of a document that a command prints as JSON; without NAME list
them. Members may be added to a document in any release, so a reader must ignore unknown ones; its
version is raised when one is removed, renamed or changes its meaning."""


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui schema``."""
    result = args.of_verb("schema", _DESCRIPTION)
    result.add_argument("name", nargs="?", metavar="NAME", help="name of the schema")
    return args.completed(result)


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui schema`` with its arguments and return the exit status."""
    name = parser().parse_args(arguments).name
    if name is None:
        rows = [[name, document.printed_by] for name, document in DOCUMENTS.items()]
        write_report(text_bytes(table(["schema", "of"], rows)), None)
    elif name in DOCUMENTS:
        write_report(schema_text(name), None)
    else:
        raise GrammarError(f"no schema {name[:80]!r}; there are {', '.join(DOCUMENTS)}")
    return exit_codes.OK
