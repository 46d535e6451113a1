"""Recognise one file by its first kilobytes, or say why not; its name is only a hint."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.parsers import formats
from ccltui.parsers.errors import TraceError, internal_error
from ccltui.parsers.format import UNKNOWN, Format, Match, Priority, RankInfo
from ccltui.parsers.nsys import PARQUET
from ccltui.parsers.nsys.sqlite.database import unfinished
from ccltui.parsers.safe_text import listed, printable
from ccltui.parsers.side.unread_files import LOG, TEXT
from ccltui.parsers.text import compression
from ccltui.parsers.text.compression import Compression, Head, ends_of, head_of, read_tail
from ccltui.parsers.text.file_sample import SQLITE_MAGIC, FileSample, JsonHead, useless_text

__all__ = ["Sniffed", "late_info", "sniff"]

_LATE_INFO_BYTES = 1 << 26  # compressed files beyond it are not read just to learn their rank
_TAIL_BYTES = 256
_NAME_LIKE = re.compile(r"[^\s{}\[\]<>:\"|][^{}\[\]<>:\"|\t]*\.[A-Za-z0-9_.]{1,20}")


class Sniffed(Struct, frozen=True):
    """The format of a file by its bytes, and what they state.

    Attributes:
        kind: Kind of the format.
        problem: Why the file cannot be used, None where it can.
        compression: Compression of the file.
        info: Rank and world size as the beginning states them.
        head_digest: Digest of the beginning; files in which it differs differ.
        open_end: Whether a plain text lacks the end that its format has.
        link: Target, where the file is a symlink that was stored as text.
        late: What the end of a plain text states, where the format has it there; None: not read.
        digest: What distinguishes the content of a file that is read into columns, or adds to
            them (`RawEnds.digest`); "" for other files.
        content: Digest of all of its text, b"" where that was not needed.
        lasts: Whether the same holds until the file itself changes.
    """

    kind: str
    problem: str | None = None
    compression: Compression = "none"
    info: RankInfo = field(default_factory=RankInfo)
    head_digest: bytes = b""
    open_end: bool = False
    link: str | None = None
    late: RankInfo | None = None
    digest: str = ""
    content: bytes = b""
    lasts: bool = False

    @property
    def format(self) -> Format:
        """The format of its kind."""
        return formats.format_of(self.kind)


def sniff(path: str, name: str, size_bytes: int) -> Sniffed:
    """Recognise the regular file at ``path``; never raises for what the file holds."""
    if size_bytes == 0:
        return Sniffed("unknown", "an empty file", lasts=True)
    try:
        with compression.open_regular(path) as file:
            return _sniffed(file, path, name)
    except OSError as error:
        return Sniffed("unknown", f"cannot be read: {error.strerror or error}")
    except MemoryError:
        return Sniffed("unknown", "cannot be read: not enough memory")
    except TraceError as error:  # a function of a format of another package
        return Sniffed("unknown", printable(str(error)))
    except Exception as error:  # one file must not hide the others
        return Sniffed("unknown", printable(internal_error(error)))


def late_info(path: str, sniffed: Sniffed, size_bytes: int) -> RankInfo:
    """Return the rank that the end of a file states, where its format has it there."""
    if sniffed.late is not None:
        return sniffed.late
    info_at_end, compression = sniffed.format.info_at_end, sniffed.compression
    if info_at_end is None or (compression != "none" and size_bytes > _LATE_INFO_BYTES):
        return RankInfo()
    return _info_at_end(sniffed.format, read_tail(path, compression))


def _sniffed(file: io.FileIO, path: str, name: str) -> Sniffed:
    """Recognise an open file, and take what is needed of its end. Raises OSError."""
    head = head_of(file, path)
    if not head.data:
        problem = printable(head.error or "no text at all")
        return Sniffed("unknown", problem, head.compression, lasts=True)
    # What an SQLite file holds also depends on the log and the journal beside it.
    found = replace(_classify(path, name, head), lasts=not head.data.startswith(SQLITE_MAGIC))
    known = found.format
    if not (known.is_trace or known.completes is not None):
        return found
    file.seek(0)
    ends = ends_of(file)
    found = replace(found, digest=ends.digest)
    if head.compression != "none":
        return found
    is_open = known.is_finished is not None and not known.is_finished(ends.last[-_TAIL_BYTES:])
    has_late = known.info_at_end is not None and found.info.rank is None
    late = _info_at_end(known, ends.last) if has_late else None
    return replace(found, open_end=is_open, late=late)


def _info_at_end(known: Format, tail: bytes) -> RankInfo:
    try:
        return RankInfo() if known.info_at_end is None else known.info_at_end(tail)
    except Exception:  # the reader of the whole file reports the same
        return RankInfo()


def _classify(path: str, name: str, head: Head) -> Sniffed:
    sample = FileSample.of(path, name, head)
    found = _first_match(sample, Priority.BINARY, Priority.JSON_CONTENT)
    if found is None and (problem := foreign_problem(sample)) is not None:
        return Sniffed("unknown", problem, head.compression)
    if found is None:
        found = _first_match(sample, Priority.JSON_CONTENT, Priority.TEXT_BANNER)
        is_open = found is None or found[1].undecided
        if is_open and sample.json is not None and sample.json.is_cut:
            sample = sample.with_longer_json()
            found = _first_match(sample, Priority.JSON_CONTENT, Priority.TEXT_BANNER)
    if found is None:
        found = _first_match(sample, Priority.TEXT_BANNER, None)
    if found is None:
        problem = unknown_problem(sample)
        return Sniffed("unknown", problem, head.compression, link=_link(sample, UNKNOWN))
    known, match = found
    return Sniffed(
        known.kind,
        match.problem,
        head.compression,
        match.info,
        blake2b(head.data, digest_size=16).digest() if known.compares_content else b"",
        link=_link(sample, known),
    )


@lru_cache(maxsize=4)
def _tests(
    known: tuple[Format, ...], least: Priority, below: Priority | None
) -> tuple[tuple[Callable[[FileSample], Match | None], Format], ...]:
    """Tests of the rules of all formats in the order in which they are tried."""
    rules = [
        (rule, one)
        for one in known
        for rule in one.sniff
        if rule.priority >= least and (below is None or rule.priority < below)
    ]
    return tuple((rule.test, one) for rule, one in sorted(rules, key=lambda one: one[0].priority))


def _first_match(
    sample: FileSample, least: Priority, below: Priority | None
) -> tuple[Format, Match] | None:
    """Try the rules from priority ``least`` up to ``below`` (None: all further ones)."""
    for test, one in _tests(formats.all_formats(), least, below):
        match = test(sample)
        if match is not None:
            return one, match
    return None


def _link(sample: FileSample, known: Format) -> str | None:
    """The path in a symlink that was stored as text (by a version control system, say)."""
    data, head = sample.data, sample.head
    could_be = known in (UNKNOWN, LOG, TEXT)
    if not could_be or not head.whole or head.compression != "none":
        return None
    if sample.text is None or sample.looks_like_json:
        return None
    if not 0 < len(data) <= 4096 or b"\n" in data.rstrip(b"\r\n") or b"\0" in data:
        return None
    target = data.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
    if target != target.strip() or target.startswith("/") or not _NAME_LIKE.fullmatch(target):
        return None
    return target


_MAGIC: tuple[tuple[bytes, str], ...] = (
    (PARQUET, "a Parquet file; of an nsys export open StringIds.parquet for all of them"),
    (b"ARROW1", "an Arrow file; of an nsys export open StringIds.arrow for all of them"),
    (b"\xff\xff\xff\xff", "an Arrow stream; of an nsys export open StringIds.arrow"),
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
        return "YAML, but not a workload card: neither `workload:` nor `metric_source:`"
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
    return problem or "an SQLite file without the tables of an nsys export or of rocprofv3"


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
