"""Recognise one file by its first kilobytes; its name is only a hint."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import field, replace
from functools import lru_cache
from hashlib import blake2b

from ccltui.parsers import formats
from ccltui.parsers.discovery.sniff.unknown_files import foreign_problem, unknown_problem
from ccltui.parsers.errors import TraceError, internal_error
from ccltui.parsers.format import UNKNOWN, Format, Match, Priority, RankInfo
from ccltui.parsers.names import printable
from ccltui.parsers.side.unread_files import LOG, TEXT
from ccltui.parsers.system.quick_dataclass import dataclass
from ccltui.parsers.text import file_heads
from ccltui.parsers.text.compression import Compression
from ccltui.parsers.text.file_heads import Head, ends_of, head_of, read_tail
from ccltui.parsers.text.file_sample import SQLITE_MAGIC, FileSample

__all__ = ["Sniffed", "late_info", "sniff"]

_LATE_INFO_BYTES = 1 << 26  # compressed files beyond it are not read just to learn their rank
_TAIL_BYTES = 256
_NAME_LIKE = re.compile(r"[^\s{}\[\]<>:\"|][^{}\[\]<>:\"|\t]*\.[A-Za-z0-9_.]{1,20}")


@dataclass(frozen=True, slots=True)
class Sniffed:
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
        with file_heads.open_regular(path) as file:
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
