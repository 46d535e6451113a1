"""Read the part of a torchtitan ``train_config.toml`` (up to 0.2.x) that determines a job.

torchtitan itself rejects unknown keys but only warns of a value of the wrong type, so types are
checked here. Only the standard library is needed: this runs on login nodes.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

Value = str | int | bool


class ConfigError(ValueError):
    """Exception for an unusable configuration; the message has file and key."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its place, default and type."""

    name: str
    default: Value
    lowest: int | None = None


KEYS = (
    Key("job.dump_folder", "./outputs"),
    Key("model.name", "llama3"),
    Key("model.flavor", "debugmodel"),
    Key("model.hf_assets_path", "./tests/assets/tokenizer"),
    Key("profiling.enable_profiling", False),
    Key("profiling.save_traces_folder", "profile_traces"),
    Key("profiling.profile_freq", 10, 1),
    Key("profiling.profiler_active", 1, 1),
    Key("profiling.profiler_warmup", 3, 0),
    Key("training.steps", 10_000, 1),
    Key("training.local_batch_size", 8, 1),
    Key("training.global_batch_size", -1, -1),
    Key("training.seq_len", 2048, 1),
    Key("training.dataset", "c4_test"),
    Key("training.dataset_path", ""),
    Key("training.dtype", "float32"),
    Key("training.enable_cpu_offload", False),
    Key("optimizer.name", "AdamW"),
    Key("parallelism.data_parallel_replicate_degree", 1, 1),
    Key("parallelism.data_parallel_shard_degree", -1, -1),
    Key("parallelism.tensor_parallel_degree", 1, 1),
    Key("parallelism.pipeline_parallel_degree", 1, 1),
    Key("parallelism.pipeline_parallel_microbatch_size", 1, 1),
    Key("parallelism.pipeline_parallel_first_stage_less_layers", 1, 0),
    Key("parallelism.pipeline_parallel_last_stage_less_layers", 1, 0),
    Key("parallelism.context_parallel_degree", 1, 1),
    Key("parallelism.expert_parallel_degree", 1, 1),
    Key("activation_checkpoint.mode", "selective"),
    Key("experimental.custom_import", ""),
)
_KEYS = {key.name: key for key in KEYS}
_DEGREES = (
    "parallelism.data_parallel_replicate_degree",
    "parallelism.data_parallel_shard_degree",
    "parallelism.tensor_parallel_degree",
    "parallelism.pipeline_parallel_degree",
    "parallelism.context_parallel_degree",
)
_LONGEST = 60
"""Characters of a wrong value in a message."""
_TOO_LARGE = "is an integer of more than 64 bits"


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """The values of ``KEYS``; torchtitan's defaults for those absent from the file."""

    path: str
    values: Mapping[str, Value]

    def number(self, name: str) -> int:
        """Return an integer by its dotted name."""
        return int(self.values[name])

    def text(self, name: str) -> str:
        """Return a text by its dotted name."""
        return str(self.values[name])

    def flag(self, name: str) -> bool:
        """Return a boolean by its dotted name."""
        return bool(self.values[name])

    def ranks(self) -> int | None:
        """Return the product of the parallel degrees; None if one of them is -1."""
        degrees = [self.number(name) for name in _DEGREES]
        return None if -1 in degrees else math.prod(degrees)

    def shard_degree(self, world_size: int) -> int:
        """Return the ranks that shard parameters; -1 is resolved by ``world_size``."""
        stated = self.number("parallelism.data_parallel_shard_degree")
        others = math.prod(self.number(name) for name in _DEGREES if "shard" not in name)
        return stated if stated != -1 else max(1, world_size // others)


def read_train_config(path: Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read ``path``; ``overrides`` are torchtitan's own arguments, ``--training.steps 20``.

    Raises ConfigError naming the file and the line or key.
    """
    document = read_document(path)
    given = _overridden(overrides)
    values = {key.name: _value(path, key, document, given) for key in KEYS}
    return TrainConfig(str(path), values)


def read_document(path: Path) -> dict[str, Any]:
    """Return all of a TOML file. Raises ConfigError where it is unreadable or no TOML.

    Integers beyond 64 bits, which TOML excludes, are refused: bash overflows with them, and Python
    neither reads nor prints those of thousands of digits.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply") from error
    except ValueError as error:  # by int()
        raise ConfigError(f"{path}: a number of thousands of digits") from error
    for name, value in _leaves(document):
        if isinstance(value, int) and not _fits(value):
            raise ConfigError(f"{path}: {name} {_TOO_LARGE}")
    return document


def _leaves(document: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield every value that is no table and no list, with its dotted key."""
    waiting: list[tuple[str, object]] = [(name, value) for name, value in document.items()]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{name}.{key}", below) for key, below in value.items()]
        elif isinstance(value, list):
            waiting += [(name, one) for one in value]
        else:
            yield name, value


def _fits(value: int) -> bool:
    return -(2**63) <= value < 2**63


def effective_values(path: Path, overrides: Sequence[str] = ()) -> dict[str, Value | float]:
    """Return all scalars of the file, by dotted key, overridden by the arguments.

    Raises ConfigError like `read_train_config`.
    """
    document = read_document(path)
    found = {
        f"{section}.{name}": value
        for section, table in document.items()
        if isinstance(table, dict)
        for name, value in table.items()
        if isinstance(value, (str, int, float, bool))
    }
    return found | {
        name: _scalar(text) for name, text in _overridden(overrides).items() if "." in name
    }


def _scalar(text: str) -> Value:
    """Parse a value as TOML; an argument without a value is True."""
    if not text or text.startswith("--"):
        return True
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text


def _overridden(words: Sequence[str]) -> dict[str, str]:
    """Return the arguments of the training program that set ``KEYS``."""
    given: dict[str, str] = {}
    words = [part for word in words for part in _halves(word)]
    for name, value in pairwise([*words, ""]):
        if name.startswith("--"):
            given[name[2:].replace("-", "_")] = value
    return given


def _halves(word: str) -> list[str]:
    return word.split("=", 1) if word.startswith("--") and "=" in word else [word]


def _value(path: Path, key: Key, document: Mapping[str, Any], given: Mapping[str, str]) -> Value:
    if key.name in given:
        value: Any = _parsed(key, given[key.name])
        where = f"the argument --{key.name}"
    else:
        section, _, name = key.name.partition(".")
        table = document.get(section, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: [{section}] is no table")
        value = table.get(name, key.default)
        where = f"{path}: {key.name}"
    # bool is an int in Python, but `steps = true` is a mistake.
    if type(value) is not type(key.default):
        expected = {str: "a text", int: "a whole number", bool: "true or false"}[type(key.default)]
        raise ConfigError(f"{where} is {_shown(value)}, not {expected}")
    # The shell scripts read these texts line by line, and paths are made of them.
    if isinstance(value, str) and not value.isprintable():
        raise ConfigError(
            f"{where} is {_shown(value)}: a text of one line without control characters"
        )
    if isinstance(value, int) and not _fits(value):
        raise ConfigError(f"{where} {_TOO_LARGE}")
    if isinstance(value, int) and not _in_range(key, value):
        raise ConfigError(f"{where} is {value}, less than {max(1, key.lowest or 0)}")
    return value


def _shown(value: object) -> str:
    """Return the beginning of a value, escaped."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _in_range(key: Key, value: int) -> bool:
    """Check the range of a degree; where -1 means the remaining ranks, 0 is invalid."""
    if key.lowest is None:
        return True
    return value >= key.lowest and not (key.lowest == -1 and value == 0)


def _parsed(key: Key, text: str) -> Value:
    if isinstance(key.default, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(key.default, int):
        try:
            return int(text)
        except ValueError:
            return text
    return text
