"""Mutators that keep the structure of an input: JSON trees, lines and cells, databases, bytes.

A mutator takes a random generator and the bytes of an input, and returns other bytes. Those of a
structure change bytes where the input does not have it.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Any, Final

import zstandard

from ccltui.parsers.pftrace.trace_state import LENGTH, WireError, fields

Mutator = Callable[[random.Random, bytes], bytes]

MOST_BYTES: Final = 1 << 16
"""Longest input that a mutator returns: long ones are slow, and find what short ones find."""

RAW: Final = (
    *(b"1e400", b"-1e400", b"1e-400", b"NaN", b"Infinity", b"-Infinity", b"-0", b"-0.0", b"01"),
    *(b"1.", b".5", b"+1", b"0x10", b"1_000", b"9007199254740993", b"9223372036854775807"),
    *(b"9223372036854775808", b"-9223372036854775809", b"18446744073709551616", b"4294967296"),
    *(b"1" * 30, b"9" * 400, b"7" * 5000, b"0." + b"3" * 60, b"1e308", b"5e-324", b"2147483648"),
    *(b"[" * 50 + b"]" * 50, b"[" * 2000 + b"]" * 2000, b'{"a":' * 300 + b"1" + b"}" * 300),
    *(b'"\xff\xfe"', b'"\\ud800"', b'"\\u0000"', b"true", b"null", b"tru", b"'x'", b"// x\n1"),
)
"""Values of JSON, and what looks like one, that readers have failed on."""

TEXTS: Final = (
    *(
        "",
        " ",
        "\x00",
        "\x1b[31mred\x1b[0m",
        "\x9b31m",
        "\u202eevil",
        "\u200b",
        "\ud800",
        "\n",
        "\r",
    ),
    *("=1+1", "@x", "-1", "0", "1", "-", ".", "..", "../../x", "/etc/passwd", "a" * 300, "é" * 40),
    *("١٢٣", "²", "１２", "1,234", "1.234,5", "1 234", "12e3", "inf", "nan", "1e400", "9" * 400),
    *("9" * 5000, "18446744073709551615", "9007199254740993", "True", "None", "null", "\ufeff"),
    *("[0, 1, ...]", "[0,1", "{}", "[]", "a,b", 'a"b', "a\\", "<x>", "&amp;", "%s", "${x}", "$(x)"),
    *("\u2028", "\u0085", "\u00a0", "\u202f", "\v", "\f", "\x1c", "0x7f", "1_0", "nccl", "kernel"),
)
"""Words with meaning to a reader, a terminal, a spreadsheet or a number parser."""

_NUMBER: Final = re.compile(rb"-?\d[\d.,eE+-]*")
_WORD: Final = re.compile(rb"[^\s,:;|\"'\[\]{}()=]+")
_NUMBERS: Final = (
    *(b"0", b"-1", b"1e400", b"nan", b"inf", b"-0", b"1,2,3", b"1.2.3", b"1e5", b"00012", b"-"),
    *(b"9223372036854775808", b"18446744073709551616", b"9" * 400, b"9" * 5000, b"1e-320"),
    *(
        b"4294967296",
        b"2147483647",
        b"0.1",
        b"99999999",
        b"1_000",
        b"1'000",
        b"12 345",
        b"\xd9\xa1",
    ),
)


def any_bytes(dice: random.Random, data: bytes) -> bytes:
    """Change, remove, repeat, move or insert a few bytes; at times cut the rest off."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 3, 6, 12))):
        place = dice.randrange(len(changed) or 1)
        kind = dice.randrange(8)
        if kind == 0 and changed:
            changed[place] = dice.randrange(256)
        elif kind == 1 and changed:
            changed[place] ^= 1 << dice.randrange(8)
        elif kind == 2:
            del changed[place : place + dice.choice((1, 1, 2, 5, 30))]
        elif kind == 3:
            changed[place:place] = dice.choice(RAW)[:200]
        elif kind == 4:
            changed[place:place] = bytes([dice.randrange(256)]) * dice.choice((1, 2, 8))
        elif kind == 5:
            other = dice.randrange(len(changed) or 1)
            changed[place:place] = changed[other : other + dice.randrange(60)]
        elif kind == 6:
            value = dice.choice((0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF))
            width = dice.choice((1, 2, 4, 8))
            order = dice.choice(("big", "little"))
            number = (value % (1 << 8 * width)).to_bytes(width, "big")
            changed[place : place + width] = number if order == "big" else number[::-1]
        elif dice.random() < 0.25:
            del changed[place:]
    return bytes(changed[:MOST_BYTES])


def json_tree(dice: random.Random, data: bytes) -> bytes:
    """Change the tree of a JSON document, or that of one line of a text of several."""
    lines = data.split(b"\n")
    place = dice.randrange(len(lines)) if len(lines) > 1 and dice.random() < 0.5 else None
    try:
        document = json.loads(data if place is None else lines[place])
    except (ValueError, RecursionError):
        return any_bytes(dice, data)
    raws: dict[str, bytes] = {}
    for _ in range(dice.choice((1, 1, 2, 3, 5))):
        document = _changed(dice, document, raws)
    try:
        text = json.dumps(document, separators=dice.choice(((",", ":"), (", ", ": "))))
    except (ValueError, RecursionError):
        return any_bytes(dice, data)
    changed = text.encode()
    for mark, raw in raws.items():
        changed = changed.replace(b'"%b"' % mark.encode(), raw)
    if place is not None:
        lines[place] = changed
        changed = b"\n".join(lines)
    return changed if len(changed) <= MOST_BYTES else any_bytes(dice, data)


def _changed(dice: random.Random, document: Any, raws: dict[str, bytes]) -> Any:
    """Change one place of a tree, found by a random walk."""
    holders: list[tuple[Any, Any]] = []
    node = document
    while isinstance(node, dict | list) and node:
        key: Any = dice.choice(list(node)) if isinstance(node, dict) else dice.randrange(len(node))
        holders.append((node, key))
        node = node[key]
        if dice.random() < 0.15:
            break
    if not holders:
        return _value(dice, raws)
    holder, key = dice.choice(holders) if dice.random() < 0.3 else holders[-1]
    kind = dice.randrange(7)
    if kind <= 2:
        holder[key] = _value(dice, raws)
    elif kind == 3:
        del holder[key]
    elif kind == 4:
        other, at = dice.choice(holders)
        holder[key] = json.loads(json.dumps(other[at])) if _is_small(other[at]) else 1
    elif isinstance(holder, list):
        copies = [holder[key]] * dice.choice((1, 2, 9)) if _is_small(holder[key]) else []
        holder[key:key] = copies
    elif kind == 5:
        holder[dice.choice(TEXTS)] = holder.pop(key)
    else:
        holder[dice.choice([*holder, "extra"])] = _value(dice, raws)
    return document


def _is_small(node: Any) -> bool:
    with suppress(ValueError, RecursionError):
        return len(json.dumps(node)) < 4000
    return False


def _value(dice: random.Random, raws: dict[str, bytes]) -> Any:
    kind = dice.randrange(6)
    if kind == 0:
        mark = f"@raw{len(raws)}@"
        raws[mark] = dice.choice(RAW)
        return mark
    if kind == 1:
        return dice.choice(TEXTS)
    if kind == 2:
        return dice.choice((0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30))
    if kind == 3:
        return dice.choice((0.5, -1.5, 1e300, 1e-9, float("nan"), float("inf"), -0.0, 1e19))
    if kind == 4:
        return dice.choice((None, True, False, [], {}, [[]], [None], {"": {}}, [[1], [2, [3]]]))
    return [_value(dice, raws) for _ in range(dice.randrange(4))]


def lines(dice: random.Random, data: bytes) -> bytes:
    """Change lines, words, numbers and columns of a text."""
    rows = data.split(b"\n")
    for _ in range(dice.choice((1, 1, 2, 3, 6))):
        place = dice.randrange(len(rows))
        kind = dice.randrange(9)
        if kind == 0 and len(rows) > 1:
            del rows[place]
        elif kind == 1:
            rows[place:place] = [rows[place]] * dice.choice((1, 1, 3, 20))
        elif kind == 2:
            other = dice.randrange(len(rows))
            rows[place], rows[other] = rows[other], rows[place]
        elif kind in (3, 4):
            rows[place] = _replaced(dice, rows[place], _NUMBER, _NUMBERS)
        elif kind in (5, 6):
            words = [text.encode("utf-8", "surrogatepass") for text in TEXTS]
            rows[place] = _replaced(dice, rows[place], _WORD, words)
        elif kind == 7:
            old, new = dice.choice(b" ,\t:|=-[]\"'"), dice.choice(b' ,\t:|=-;"\r\0')
            rows[place] = rows[place].replace(bytes([old]), bytes([new]), dice.choice((1, -1)))
        else:
            rows[place] = any_bytes(dice, rows[place])
    joint = b"\r\n" if dice.random() < 0.03 else b"\n"
    return joint.join(rows)[:MOST_BYTES]


def _replaced(
    dice: random.Random, row: bytes, pattern: re.Pattern[bytes], words: Sequence[bytes]
) -> bytes:
    found = list(pattern.finditer(row))
    if not found:
        return row
    match = dice.choice(found)
    return row[: match.start()] + dice.choice(words) + row[match.end() :]


_SMALLEST_DATABASE: Final = 512
CELLS: Final = (
    *(None, 0, 1, -1, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 0.5, 1e300, float("inf")),
    *("", "text", "9" * 400, "\x1b[31m", "\x00", "12", b"", b"\xff\x00", "é" * 200, "x" * 5000),
)


def database(dice: random.Random, data: bytes) -> bytes:
    """Change rows or the schema of an SQLite file by SQL, or its pages by their structure."""
    if dice.random() < 0.5 or len(data) < _SMALLEST_DATABASE:
        return pages(dice, data)
    with (
        suppress(sqlite3.Error, UnicodeError, OverflowError),
        closing(sqlite3.connect(":memory:")) as opened,
    ):
        opened.deserialize(data)
        for _ in range(dice.choice((1, 1, 2, 4))):
            with suppress(sqlite3.Error):
                _changed_by_sql(dice, opened)
        opened.commit()
        return bytes(opened.serialize())
    return pages(dice, data)


def _changed_by_sql(dice: random.Random, opened: sqlite3.Connection) -> None:
    tables = [row[0] for row in opened.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    if not tables:
        return
    table = dice.choice(tables)
    columns = [row[1] for row in opened.execute(f'PRAGMA table_info("{table}")')]
    column = dice.choice(columns)
    kind = dice.randrange(9)
    if kind <= 2:
        where = dice.choice(("1", "rowid = 1", "rowid % 3 = 0", "rowid > 5"))
        opened.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {where}', [dice.choice(CELLS)])
    elif kind == 3:
        opened.execute(f'DELETE FROM "{table}" WHERE rowid % ? = 0', [dice.choice((1, 2, 5))])
    elif kind == 4:
        opened.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}"')
    elif kind == 5:
        opened.execute(dice.choice((
            f'ALTER TABLE "{table}" DROP COLUMN "{column}"',
            f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "renamed"',
            f'ALTER TABLE "{table}" ADD COLUMN "added" DEFAULT 7',
            f'ALTER TABLE "{table}" RENAME TO "renamed"',
        )))  # fmt: skip
    elif kind == 6:
        opened.execute(f'DROP TABLE "{table}"')
    elif kind == 7:
        kept = ", ".join(f'"{one}"' for one in columns)
        opened.execute(f'ALTER TABLE "{table}" RENAME TO "original"')
        opened.execute(dice.choice((
            f'CREATE VIEW "{table}" AS SELECT * FROM "original"',
            f'CREATE TABLE "{table}" ({kept}, PRIMARY KEY ("{column}")) WITHOUT ROWID',
            f'CREATE TABLE "{table}" ({kept}, "g" AS (1))',
            f'CREATE TABLE "{table}" AS SELECT * FROM "original"',
        )))  # fmt: skip
    else:
        opened.execute(f'UPDATE "{table}" SET rowid = rowid * ?', [dice.choice((-1, 1 << 40, 7))])


def pages(dice: random.Random, data: bytes) -> bytes:
    """Damage an SQLite file where its format has a field: header, page heads, cells, pointers."""
    changed = bytearray(data)
    if len(changed) < _SMALLEST_DATABASE:
        return any_bytes(dice, data)
    size = int.from_bytes(changed[16:18], "big") or 1
    size = 65536 if size == 1 else size if size >= 512 else 4096
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        first = size * dice.randrange(max(len(changed) // size, 1))
        head = first + (100 if first == 0 else 0)
        kind = dice.randrange(8)
        if kind == 0:
            place = dice.choice((16, 17, 18, 19, 20, 28, 29, 31, 44, 47, 56, 59, 100))
        elif kind <= 2:
            place = head + dice.randrange(12)
        elif kind == 3:
            place = head + 8 + dice.randrange(40)
        elif kind == 4:
            other = size * dice.randrange(max(len(changed) // size, 1))
            changed[first : first + size] = changed[other : other + size]
            continue
        elif kind == 5 and dice.random() < 0.3:
            del changed[first + dice.randrange(size) :]
            continue
        else:
            place = first + dice.randrange(size)
        if place < len(changed):
            changed[place] = dice.choice((dice.randrange(256), 0, 0xFF, 0x80, 2, 5, 10, 13))
    return bytes(changed[: 4 * MOST_BYTES])


def packets(dice: random.Random, data: bytes) -> bytes:
    """Damage a message of protocol buffers at the tags, numbers and lengths of its fields.

    Lengths of what encloses a change are not mended: one half of the changes keeps the size.
    """
    places = _places(data, 0, len(data), 6)
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 4))):
        if not places:
            return any_bytes(dice, data)
        place = min(dice.choice(places), len(changed) - 1)
        kind = dice.randrange(6)
        if kind == 0:
            changed[place] = changed[place] & 0xF8 | dice.randrange(8)  # another wire type
        elif kind == 1:
            changed[place] = dice.randrange(256)
        elif kind == 2:
            changed[place + 1 : place + 2] = bytes([dice.choice((0, 1, 0x7F, 0x80, 0xFF))])
        elif kind == 3:
            changed[place:place] = b"\xff" * dice.choice((1, 9, 10, 11))
        elif kind == 4:
            other = dice.choice(places)
            end = min(other + dice.randrange(80), len(changed))
            changed[place:place] = changed[other:end]
        elif dice.random() < 0.3:
            del changed[place:]
            break
    return bytes(changed[:MOST_BYTES])


def _places(data: bytes, begin: int, end: int, levels: int) -> list[int]:
    """Return where the fields of a message begin, and those of messages inside it."""
    found: list[int] = []
    try:
        for _, kind, _, span in fields(data, begin, end):
            if kind == LENGTH and span[1] > span[0]:
                found += [span[0], *(_places(data, *span, levels - 1) if levels else ())]
    except WireError:
        return found
    return found


def packed(inner: Mutator) -> Mutator:
    """Return a mutator of compressed text: of the text, then of the compressed bytes or neither."""

    def mutate(dice: random.Random, data: bytes) -> bytes:
        text = data
        if data.startswith(b"\x1f\x8b"):
            with suppress(EOFError, OSError, zlib.error, MemoryError):
                text = gzip.decompress(data)
        elif data.startswith(b"\x28\xb5\x2f\xfd"):
            with suppress(zstandard.ZstdError, MemoryError):
                text = zstandard.ZstdDecompressor().decompress(data, max_output_size=MOST_BYTES)
        if dice.random() < 0.5:
            return any_bytes(dice, data)
        text = inner(dice, text)
        form = dice.randrange(4)
        if form == 0:
            return text
        if form == 1:
            return zstandard.compress(text)
        cut = dice.randrange(len(text) + 1) if form == 2 else 0
        members = [part for part in (text[:cut], text[cut:]) if part]
        return b"".join(gzip.compress(part, 1, mtime=0) for part in members)

    return mutate


def mixed(*ways: Mutator) -> Mutator:
    """Return a mutator that applies one of ``ways``, or two in turn."""

    def mutate(dice: random.Random, data: bytes) -> bytes:
        for _ in range(dice.choice((1, 1, 1, 2))):
            data = dice.choice(ways)(dice, data)
        return data

    return mutate
