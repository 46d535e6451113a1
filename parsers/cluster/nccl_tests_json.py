"""The JSON that nccl-tests write with ``-J FILE``.

The file holds the environment and the arguments of the process. Of the arguments the name of the
program is read, of the environment nothing: it is not even decoded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from ccltui.parsers.cluster.nccl_tests import (
    MOST,
    NcclTest,
    OpenTest,
    made_test,
    number,
    test_name,
    version_name,
)
from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.names import printable
from ccltui.parsers.text.side_json import read_text

_MAX_BYTES: Final = 1 << 28
_MOST_CUTS: Final = 64
"""Places that are tried as the end of a document that is cut off, from the last one back."""


class _Document(msgspec.Struct):
    args: Any = None
    nccl_version: Any = None
    config: Any = None
    devices: Any = None
    results: Any = None
    out_of_bounds: Any = None
    average_bus_bandwidth: Any = None
    errors: Any = None


def read_nccl_tests_json(path: Path, *, shown: str) -> tuple[NcclTest, ...]:
    """Return the test of a file, of one that is cut off the rows that are whole.

    Raises TraceError for a file that cannot be read or is no JSON of nccl-tests.
    """
    document, notes = _decoded(read_text(path, shown, _MAX_BYTES), shown)
    if not isinstance(document.results, list):
        raise TraceError("JSON of nccl-tests without results", path=shown)
    arguments = document.args if isinstance(document.args, list) else []
    one = OpenTest(collective=test_name(str(arguments[0])) if arguments else "", headers=1)
    one.version = _version(document.nccl_version)
    one.range = _range(document.config)
    _add_devices(one, document)
    for row in document.results:
        _add_row(one, row)
    one.average = _value(document.average_bus_bandwidth, "bandwidth")
    wrong = _value(document.out_of_bounds, "count")
    one.out_of_bounds = None if wrong is None else int(wrong)
    errors = [text for text in document.errors or [] if isinstance(text, str) and text]
    one.problem = printable(errors[0][:160]) if errors else ""
    return (made_test(one, notes),)


def _decoded(text: bytes, shown: str) -> tuple[_Document, tuple[Note, ...]]:
    try:
        return msgspec.json.decode(text, type=_Document), ()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    end = len(text)
    for _ in range(_MOST_CUTS):
        end = text.rfind(b"}", 0, end)
        if end < 0:
            break
        try:
            document = msgspec.json.decode(text[: end + 1] + b"]}", type=_Document)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        return document, (Note("cut_file", "the file is cut off: its whole rows are read"),)
    raise TraceError("not valid JSON", path=shown)


def _version(code: Any) -> str:
    is_code = isinstance(code, int) and not isinstance(code, bool) and 0 < code < 10**9
    return version_name(code) if is_code else ""


def _range(config: Any) -> tuple[int, int, bool] | None:
    most = _value(config, "maximum_bytes")
    factor, step = _value(config, "step_factor"), _value(config, "step_bytes")
    if most is None or (factor is None and step is None):
        return None
    return (int(most), int(factor or step or 0), factor is not None)


def _add_devices(one: OpenTest, document: _Document) -> None:
    """Devices are inside the configuration, at the top level in other versions."""
    inside = document.config.get("devices") if isinstance(document.config, dict) else None
    listed = document.devices if isinstance(document.devices, list) else inside
    for device in listed if isinstance(listed, list) else []:
        if isinstance(device, dict) and isinstance(device.get("rank"), int):
            host, name = (str(device.get(key, "")) for key in ("hostname", "device_info"))
            one.devices[device["rank"]] = (host, name.strip())


def _add_row(one: OpenTest, row: Any) -> None:
    size = _value(row, "size")
    if size is None or not 0 <= size < MOST:
        one.bad += 1
        return
    sides = [row.get(name) for name in ("out_of_place", "in_place")]
    if not any(isinstance(side, dict) for side in sides):
        one.bad += 1
        return
    wrong = [found for side in sides if (found := _value(side, "nwrong")) is not None]
    cells = [_number(side, name) for side in sides for name in ("time", "alg_bw", "bus_bw")]
    total = sum(wrong) if wrong and 0 <= sum(wrong) < MOST else -1.0
    one.rows.append((size, *cells, total))
    one.dtypes.append(str(row.get("type", "")))


def _value(part: Any, key: str) -> float | None:
    found = _number(part, key)
    return found if found == found and abs(found) != float("inf") else None  # noqa: PLR0124 (NaN)


def _number(part: Any, key: str) -> float:
    """A number; nccl-tests write NaN as text."""
    value = part.get(key) if isinstance(part, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return number("")
    return number(str(value))
