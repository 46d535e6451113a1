"""Explain in one sentence why a file that no format recognises cannot be used."""

from __future__ import annotations

from ccltui.parsers.errors import TraceError
from ccltui.parsers.names import listed, printable
from ccltui.parsers.nsys.sqlite.journal_files import unfinished
from ccltui.parsers.nsys.text_reports.first_bytes import PARQUET
from ccltui.parsers.text.file_sample import FileSample, JsonHead, useless_text

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (PARQUET, "a Parquet file; of an nsys export StringIds.parquet stands for all"),
    (b"ARROW1", "an Arrow file; of an nsys export StringIds.arrow stands for all"),
    (b"\xff\xff\xff\xff", "an Arrow stream; of an nsys export StringIds.arrow stands"),
    (b"\x89HDF", "an HDF5 file: export the nsys report to sqlite instead"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program or library"),
)


def foreign_problem(sample: FileSample) -> str | None:
    """Return what binary file of other programs it is, None where it may be text.

    Raises OSError.
    """
    if sample.is_sqlite:
        return _sqlite_problem(sample)
    known = [problem for magic, problem in _MAGIC if sample.data.startswith(magic)]
    return known[0] if known else None


def unknown_problem(sample: FileSample) -> str:
    """Return why a JSON text, another text or a binary file is of no use."""
    if _is_utf16(sample.data):
        return UTF16
    if sample.json is not None:
        return _json_problem(sample.json)
    if sample.text is None:
        return "binary data in no format known here"
    useless = useless_text(sample.text)
    if useless is not None:
        return useless
    if sample.is_named_yaml:
        return "YAML, but no workload card: neither `workload:` nor `metric_source:`"
    return "text in no format known here"


UTF16 = "text in UTF-16: convert it, iconv -f UTF-16 -t UTF-8"
_LOOKED_AT = 256
_ASCII_SHARE = 0.5
"""Of the first characters without a mark: tables, logs and JSON are nearly all ASCII. Accents are
not counted against them; numbers of two bytes in a binary file have fewer such characters."""


def _is_utf16(data: bytes) -> bool:
    """Whether bytes are text in UTF-16: by its mark, or a zero beside each first character."""
    head = data[:_LOOKED_AT]
    head = head[: len(head) // 2 * 2]
    for encoding, mark, zeros in (
        ("utf-16-le", b"\xff\xfe", head[1::2]),
        ("utf-16-be", b"\xfe\xff", head[::2]),
    ):
        if head.startswith(mark):
            return _is_plain(head[2:].decode(encoding, "replace"))
        if len(zeros) > 1 and not any(zeros):
            text = head.decode(encoding)
            return _is_plain(text) and sum(map(str.isascii, text)) >= _ASCII_SHARE * len(text)
    return False


def _is_plain(text: str) -> bool:
    """Whether no character is one that texts do not have; a pair may be cut at the end."""
    return all(char.isprintable() or char.isspace() for char in text[:-1])


def _sqlite_problem(sample: FileSample) -> str:
    if sample.head.compression != "none":
        return "a compressed SQLite file: unpack it first"
    problem = unfinished(sample.path)
    try:
        _ = sample.tables
    except TraceError as error:
        return error.message
    return problem or "an SQLite file without the tables of an nsys export"


def _json_problem(document: JsonHead) -> str:
    if document.is_list:
        if document.item == b"]":
            return "an empty JSON list"
        if document.item == b"[":
            return "a JSON list of lists, as memory timelines are: no trace"
        return "a JSON list, but not of trace events"
    if document.shape.find("traceEvents") is not None:
        return "its traceEvents is not a list"
    if document.shape.state == "broken":
        return f"not valid JSON: it breaks at byte {document.shape.end:,}"
    names = listed([printable(member.key[:40]) for member in document.shape.members], 6) or "none"
    return f"JSON, but nothing known here; its keys: {names}"
