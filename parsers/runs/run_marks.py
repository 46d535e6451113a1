"""``launcher_metadata.json`` and ``RUN_COMPLETE.txt``: how a run started and ended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.text.json_fields import Fields, finite, read_object

_MARK_BYTES: Final = 1 << 16
_PAIR: Final = re.compile(r"(?:^|(?<=\s))([A-Za-z_]\w{0,60})=(\S*)")


@dataclass(frozen=True, slots=True)
class Launch:
    """Launch settings of a run; ``switches`` are the job's variables as they took effect.

    ``arguments`` are those of the training program besides its configuration file,
    ``configuration`` the values that file and arguments make, by dotted key.
    """

    world_size: int | None = None
    host: str = ""
    hosts: tuple[str, ...] = ()
    git_commit: str = ""
    job_id: str = ""
    started_utc: str = ""
    switches: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    def is_on(self, switch: str) -> bool | None:
        """Whether a switch was on, None where it is not stated."""
        value = self.switches.get(switch)
        return None if value is None else value.strip().lower() not in ("", "0", "false", "no")


@dataclass(frozen=True, slots=True)
class Completion:
    """Mark that a run writes at its end; None where it does not state a value."""

    world_size: int | None = None
    tokens_per_s: float | None = None
    total_wall_s: float | None = None
    timestamp_utc: str = ""


def read_launch(path: Path, *, shown: str) -> Launch:
    """``launcher_metadata.json``. Raises TraceError where it is no JSON object."""
    fields = Fields(read_object(path, shown_path=shown))
    hosts = fields.raw("slurm.hosts")
    words = fields.raw("train_arguments")
    named = hosts.split() if isinstance(hosts, str) else hosts if isinstance(hosts, list) else []
    return Launch(
        world_size=fields.count("world_size"),
        host=fields.text("rank0_host") or fields.text("host"),
        hosts=tuple(str(host) for host in named[:100_000]),
        git_commit=fields.text("git_commit"),
        job_id=fields.text("slurm.job_id") or fields.text("slurm.SLURM_JOB_ID"),
        started_utc=fields.text("started_utc"),
        switches={**fields.texts("nccl_env"), **fields.texts("switches")},
        arguments=tuple(map(str, words)) if isinstance(words, list) else (),
        configuration=fields.texts("train_config"),
        notes=tuple(fields.notes),
    )


def read_completion(path: Path, *, shown: str) -> Completion:
    """``RUN_COMPLETE.txt``, its pairs in one line or one a line. Raises TraceError unread."""
    try:
        with path.open("rb") as file:
            text = file.read(_MARK_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror}", path=shown) from error
    pairs = dict(_PAIR.findall(text))
    world_size = finite(pairs.get("world_size"))
    return Completion(
        world_size=None if world_size is None or world_size < 0 else int(world_size),
        tokens_per_s=finite(pairs.get("tokens_per_sec")),
        total_wall_s=finite(pairs.get("total_wall_time_sec")),
        timestamp_utc=pairs.get("timestamp_utc", ""),
    )
