"""What one file is, from its first kilobytes; its name is only a hint."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

from ccltui.parsers.discovery.sniff.binary_kinds import (
    SQLITE_MAGIC,
    archive_problem,
    classify_binary,
    classify_opaque,
    classify_sqlite,
    is_recipe_table,
    is_tables_export,
    is_tar,
)
from ccltui.parsers.discovery.sniff.json_kinds import (
    DistributedInfo,
    classify_json,
    info_at_end,
    looks_like_json,
)
from ccltui.parsers.discovery.sniff.text_kinds import classify_text, decode, link_target
from ccltui.parsers.errors import internal_error
from ccltui.parsers.found_files import Kind
from ccltui.parsers.names import shown
from ccltui.parsers.text.compression import Compression
from ccltui.parsers.text.file_heads import LONG_HEAD_BYTES, Head, read_head, read_tail

__all__ = ["Sniffed", "late_info", "sniff"]

_LATE_INFO_BYTES = 1 << 26  # compressed files beyond it are not read just to learn their rank


@dataclass(frozen=True, slots=True)
class Sniffed:
    """What the bytes say. ``head_digest`` tells apart files whose beginnings differ.

    ``open_end``: a plain JSON text that does not end as JSON does. ``link``: the target, when
    the file is a symlink that was stored as text.
    """

    kind: Kind
    problem: str | None = None
    compression: Compression = "none"
    info: DistributedInfo = field(default_factory=DistributedInfo)
    head_digest: bytes = b""
    open_end: bool = False
    link: str | None = None


def sniff(path: str, name: str, size_bytes: int) -> Sniffed:
    """Kind of the regular file at ``path``; never raises for what the file holds."""
    if size_bytes == 0:
        return Sniffed("unknown", "an empty file")
    try:
        return _sniff_text(path, name, read_head(path))
    except OSError as error:
        return Sniffed("unknown", f"cannot be read: {error.strerror or error}")
    except MemoryError:
        return Sniffed("unknown", "cannot be read: not enough memory")
    except Exception as error:  # one file must not hide the others
        return Sniffed("unknown", shown(internal_error(error)))


def _sniff_text(path: str, name: str, head: Head) -> Sniffed:
    if not head.data:
        return Sniffed("unknown", shown(head.error or "no text at all"), head.compression)
    return _classify(path, name, head)


def late_info(path: str, compression: Compression, size_bytes: int) -> DistributedInfo:
    """``distributedInfo`` from the end of a trace whose head does not state it."""
    if compression != "none" and size_bytes > _LATE_INFO_BYTES:
        return DistributedInfo()
    try:
        return info_at_end(read_tail(path, compression))
    except Exception:  # its reader meets the same, and tells it
        return DistributedInfo()


def _classify(path: str, name: str, head: Head) -> Sniffed:
    if head.data.startswith(SQLITE_MAGIC):
        if head.compression != "none":
            return Sniffed("unknown", "a compressed SQLite file: unpack it first", head.compression)
        return Sniffed(*classify_sqlite(path))
    if is_tar(head.data):
        return Sniffed("archive", archive_problem(path), head.compression)
    if is_tables_export(name, head.data):
        return Sniffed("nsys_tables", None, head.compression)
    if is_recipe_table(name, head.data):
        return Sniffed("nsys_text", None, head.compression)
    known = classify_binary(head.data)
    if known is not None:
        return Sniffed(*known, head.compression)
    if looks_like_json(head.data):
        return _classify_document(path, name, head)
    return _classify_text(name, head)


def _classify_document(path: str, name: str, head: Head) -> Sniffed:
    document = classify_json(head.data, name, whole=head.whole)
    if document.undecided:
        longer = read_head(path, LONG_HEAD_BYTES)
        document = classify_json(longer.data, name, whole=longer.whole)
    if document.kind == "unknown":
        as_text = _classify_text(name, head)
        if as_text.kind not in ("unknown", "log"):
            return as_text
    return Sniffed(
        document.kind,
        document.problem,
        head.compression,
        document.info,
        blake2b(head.data, digest_size=16).digest(),
        document.kind == "kineto" and head.compression == "none" and _is_open(path),
    )


def _classify_text(name: str, head: Head) -> Sniffed:
    text = decode(head.data)
    if text is None:
        return Sniffed(*classify_opaque(name), head.compression)
    kind, problem = classify_text(text, name)
    link = None
    if head.whole and head.compression == "none" and kind in ("unknown", "log"):
        link = link_target(head.data)
    return Sniffed(kind, problem, head.compression, link=link)


def _is_open(path: str) -> bool:
    end = read_tail(path, "none", 256).rstrip()
    return not end.endswith((b"}", b"]"))
