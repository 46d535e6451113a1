"""``ccltui schema``: print the JSON Schema of a document that a command prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, NotRequired, get_args, get_origin, get_type_hints

import msgspec

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.parsers.errors import GrammarError
from ccltui.report import compared_documents, documents
from ccltui.report.documents import DOCUMENTS
from ccltui.report.output import write_report
from ccltui.report.text_layout import table, text_bytes


def schema_text(name: str) -> bytes:
    """Return the text of a schema. Raises KeyError where no document has this name."""
    document = DOCUMENTS[name]
    forms, types = msgspec.json.schema_components(document.types, ref_template="#/$defs/{name}")
    for type_name, schema in types.items():
        _describe(
            schema, getattr(documents, type_name, None) or getattr(compared_documents, type_name)
        )
    if "Details" in types:  # the keys of each metric are beside the envelope
        types["Details"]["additionalProperties"] = True
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:ccltui:schema:{name}",
        "title": document.title,
        "description": document.printed_by,
        **(forms[0] if len(forms) == 1 else {"anyOf": list(forms)}),
        "$defs": types,
    }
    return (json.dumps(schema, indent=1, ensure_ascii=False) + "\n").encode()


def _describe(schema: dict[str, Any], of: Any) -> None:
    """Add to the members of a type the texts of their annotations."""
    for member, hint in get_type_hints(of, include_extras=True).items():
        inner = get_args(hint)[0] if get_origin(hint) is NotRequired else hint
        texts = get_args(inner)[1:] if get_origin(inner) is Annotated else ()
        for text in texts:
            if isinstance(text, str):
                schema["properties"][member]["description"] = text


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
