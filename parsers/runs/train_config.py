"""The configuration of a training program: sections of keys in TOML, as torchtitan read until 0.2.

Only what the file states is kept; what a program takes where a key is absent depends on its
version and is not guessed here.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ccltui.parsers.errors import TraceError
from ccltui.parsers.names import printable

MAX_BYTES: Final = 1 << 20

Value = str | int | float | bool


class ConfigError(TraceError):
    """A configuration file cannot be used."""


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Stated values by dotted key: ``parallelism.tensor_parallel_degree``."""

    path: str
    values: Mapping[str, Value]

    def integer(self, key: str) -> int | None:
        """A whole number, None where the key is absent. Raises ConfigError for anything else."""
        value = self.values.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise ConfigError(
            f"{printable(key)} is {_quoted(value)}, not a whole number", path=self.path
        )

    def count(self, key: str) -> int | None:
        """A whole number above 0, None where absent or otherwise (-1 means automatic)."""
        number = self.integer(key)
        return number if number is not None and number > 0 else None

    def text(self, key: str) -> str | None:
        """A text, None where absent or empty. Raises ConfigError for anything else."""
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value or None
        raise ConfigError(f"{printable(key)} is {_quoted(value)}, not a text", path=self.path)


def read_train_config(path: Path) -> TrainConfig:
    """Read one file. Raises ConfigError with the file, and the line where TOML gives it."""
    where = printable(str(path))
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=where) from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"larger than {MAX_BYTES:,} bytes: no configuration", path=where)
    try:
        document = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError("not valid UTF-8", path=where, offset=error.start) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {printable(str(error))}", path=where) from None
    except (RecursionError, ValueError):
        raise ConfigError("not valid TOML", path=where) from None
    return TrainConfig(where, dict(_flat(document, "")))


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Value]]:
    """Leaves by dotted key; lists, dates and what is nested deeper than sections are left out."""
    for key, value in table.items():
        if isinstance(value, dict) and not prefix:
            yield from _flat(value, f"{key}.")
        elif isinstance(value, (str, int, float, bool)):
            yield f"{prefix}{key}", value


def _quoted(value: Value) -> str:
    return printable(repr(value)[:60])
