"""What a job ran with, by field of the card, and where its files contradict each other.

What the program itself tells comes first, then its arguments, its configuration file, the card.
An argument that replaces a value of the configuration file contradicts nothing: that is what it
is for. A card that states another value than the one that ran does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Final

from ccltui.metrics.model.dimensions import Degrees
from ccltui.parsers.discovery.run_settings import DEGREES, RunSource
from ccltui.parsers.names import printable

if TYPE_CHECKING:
    from ccltui.parsers.card.card_values import Card

MESH: Final = ("dp_replicate", "dp_shard", "tp", "pp", "cp")
"""Degrees whose product is the world; ``ep`` lies across them."""
WORLD: Final = "world_size"
PARALLEL: Final = frozenset({*DEGREES, WORLD})
BATCHES: Final = frozenset({*PARALLEL, "seq_len", "batch_size"})
PIPELINE: Final = frozenset({*PARALLEL, "pp_microbatches"})

_ORIGINS: Final = {"program": "log", "arguments": "launch_arguments", "config": "train_config"}
_LOCAL: Final = "local_batch"
_GLOBAL: Final = "global_batch"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two sources that state different values of a field, in one sentence."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class Ran:
    """A value that takes the place of the card's, None where none can be told, and its origin."""

    value: int | str | None
    origin: str


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Values by field of the card, only where the card says otherwise or nothing; conflicts."""

    values: Mapping[str, Ran] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()

    def of(self, fields: frozenset[str]) -> tuple[Conflict, ...]:
        """Conflicts of these fields."""
        return tuple(one for one in self.conflicts if one.field in fields)


def run_config(
    card: Card | None, sources: Sequence[RunSource], world_size: int | None = None
) -> RunConfig:
    """Merge all sources; ``world_size`` is that of the traces."""
    return _Merging(card, sources, world_size).merged()


def origin_of(source: RunSource) -> str:
    """The word for a source in the provenance of a value."""
    return _ORIGINS[source.standing]


def _says(source: RunSource, name: str, value: int) -> str:
    speaker = f"{_SPEAKERS[source.standing]} ({printable(source.path)})"
    if name in source.implied:
        return f"{speaker} leaves {name} at {value}"
    return f"{speaker} says {_SHOWN.get(name, name)} {value}"


_SPEAKERS: Final = {
    "program": "what the run wrote",
    "arguments": "the launch",
    "config": "the configuration",
}
_SHOWN: Final = {
    "local_batch": "local_batch_size",
    "global_batch": "global_batch_size",
    "micro_batch": "pipeline_parallel_microbatch_size",
}


class _Merging:
    def __init__(
        self, card: Card | None, sources: Sequence[RunSource], world_size: int | None
    ) -> None:
        self.card = card
        self.sources = sources
        self.best = dict(self._best())
        self.values: dict[str, Ran] = {}
        self.conflicts: list[Conflict] = []
        self.traced = world_size
        self.world = world_size or self._number(WORLD) or self._stated("total_count")

    def merged(self) -> RunConfig:
        """Work the fields out one after another: batches follow from degrees."""
        self._among_sources()
        self._world_size()
        degrees = self._degrees()
        if "seq_len" in self.best:
            self._take("seq_len", *self.best["seq_len"])
        self._batches(degrees)
        self._micro_batches(degrees)
        return RunConfig(self.values, tuple(self.conflicts))

    def _best(self) -> Iterator[tuple[str, tuple[int, RunSource]]]:
        """The first source of each field; an automatic batch size is none that is stated."""
        names = dict.fromkeys(name for source in self.sources for name in source.values)
        for name in names:
            value, source = self._all_of(name)[0]
            if value > 0 or name == "dp_shard":
                yield name, (value, source)

    def _all_of(self, name: str) -> list[tuple[int, RunSource]]:
        """All that state a field; the configuration file not where an argument replaces it."""
        found = [(one.values[name], one) for one in self.sources if name in one.values]
        if any(one.standing == "arguments" for _, one in found):
            found = [(value, one) for value, one in found if one.standing != "config"]
        return found

    def _number(self, name: str) -> int | None:
        value = self.best[name][0] if name in self.best else 0
        return value if value > 0 else None

    def _stated(self, name: str) -> int | None:
        return None if self.card is None else self.card.count(name)

    def _among_sources(self) -> None:
        """Where files of the run contradict each other."""
        for name, (value, first) in self.best.items():
            for other, source in self._all_of(name)[1:]:
                if value > 0 and other > 0 and other != value and name != WORLD:
                    text = f"{_says(first, name, value)}, {_says(source, name, other)}"
                    self._conflict(_FIELDS.get(name, name), f"{text}: {value} is taken")

    def _world_size(self) -> None:
        """The traces' word on the world counts; without it that of the files of the run."""
        world = self.traced or self._number(WORLD)
        who = "the traces say" if self.traced else "another file of the run says"
        for value, source in self._all_of(WORLD):
            if world and value > 0 and value != world:
                self._conflict(WORLD, f"{_says(source, WORLD, value)}, {who} {world}")
        stated = self._stated("total_count")
        if world and stated is not None and stated != world:
            origin = "trace" if self.traced else origin_of(self.best[WORLD][1])
            self.values["total_count"] = Ran(world, origin)
            text = f"{self._card_says('total_count', stated)}, {who} {WORLD} {world}"
            self._conflict(WORLD, f"{text}: {world} is taken")

    def _degrees(self) -> dict[str, int | None]:
        """Degrees that ran, those of the card where no file of the run states them."""
        found = {name: self._number(name) or self._stated(name) for name in DEGREES}
        told = [name for name in MESH if name in self.best]
        if not told:
            return found
        if "dp_shard" in self.best and self.best["dp_shard"][0] < 1:
            found["dp_shard"] = self._rest(found)
        self._drop_what_does_not_fit(found, told)
        for name in (*told, *(["ep"] if "ep" in self.best else [])):
            value = found[name]
            if value is not None:
                self._take(name, value, self.best[name][1])
        return found

    def _rest(self, degrees: Mapping[str, int | None]) -> int | None:
        others = prod(degrees[name] or 1 for name in MESH if name != "dp_shard")
        return None if not self.world or self.world % others else self.world // others

    def _drop_what_does_not_fit(self, degrees: dict[str, int | None], told: Sequence[str]) -> None:
        """The card's degrees are of another run where they do not make the world with the rest."""
        product = prod(degrees[name] or 1 for name in MESH)
        if not self.world or product == self.world:
            return
        source = self.best[told[0]][1]
        stale = [name for name in MESH if name not in told and (degrees[name] or 1) > 1]
        if not stale:
            factors = " · ".join(f"{name} {degrees[name] or 1}" for name in MESH)
            text = (
                f"the degrees that ran multiply to {product} ({factors}; {printable(source.path)})"
            )
            if product > self.world or all(degrees[name] for name in MESH):
                self._conflict(WORLD, f"{text}, the world has {self.world} ranks")
            return
        changed = " and ".join(_says(self.best[name][1], name, degrees[name] or 1) for name in told)
        for name in stale:
            says = self._card_says(name, degrees[name])
            text = f"{says}, which does not fit {self.world} ranks where {changed}"
            self._conflict(name, f"{text}: it is not taken")
            self.values[name] = Ran(None, origin_of(source))
            degrees[name] = None

    def _batches(self, degrees: Mapping[str, int | None]) -> None:
        """Sequences of a step, of the job or of a data-parallel rank as the card counts them."""
        local, whole = self.best.get(_LOCAL), self.best.get(_GLOBAL)
        full = Degrees(**degrees).completed(self.world)
        replicas = None if full is None else (full.dp_replicate or 1) * (full.dp_shard or 1)
        made = None if replicas is None or local is None else local[0] * replicas * self._passes()
        stated = self._stated("batch_size")
        is_global = self.card is not None and self.card.batch_size_scope == "global"
        if whole is not None and (is_global or stated is None):
            self._take("batch_size", *whole, told=_GLOBAL)
        elif is_global and made is not None and local is not None and stated != made:
            how = f"{_says(local[1], _LOCAL, local[0])} on {replicas} data-parallel ranks"
            says = self._card_says("batch_size", stated)
            self._conflict("batch_size", f"{says}, {how}: {made} is taken")
            self.values["batch_size"] = Ran(made, origin_of(local[1]))
        elif local is not None and not is_global:
            self._take("batch_size", *local, told=_LOCAL)
        self._scope(stated, replicas, is_global=is_global)

    def _scope(self, stated: int | None, replicas: int | None, *, is_global: bool) -> None:
        """A stated batch of the job also tells how often gradients are accumulated."""
        local = self._number(_LOCAL) or stated
        if _GLOBAL in self.best and not is_global:
            value, source = self.best[_GLOBAL]
            if replicas is None or local is None or local * replicas != value:
                self.values["batch_size"] = Ran(value, origin_of(source))
                self.values["batch_size_scope"] = Ran("global", origin_of(source))
        elif stated is None and "batch_size" in self.values and not is_global:
            self.values["batch_size_scope"] = Ran("local", self.values["batch_size"].origin)

    def _passes(self) -> int:
        return self._number("gradient_accumulation") or 1

    def _micro_batches(self, degrees: Mapping[str, int | None]) -> None:
        local, micro = self.best.get(_LOCAL), self.best.get("micro_batch")
        if local is None or micro is None or (degrees["pp"] or 1) < 2 or local[0] < micro[0]:
            return
        stated, made = self._stated("pp_microbatches"), local[0] // micro[0]
        if stated == made:
            return
        self.values["pp_microbatches"] = Ran(made, origin_of(local[1]))
        if stated is not None:
            says = self._card_says("pp_microbatches", stated)
            how = f"{_says(local[1], _LOCAL, local[0])} in micro-batches of {micro[0]}"
            self._conflict("pp_microbatches", f"{says}, {how}: {made} is taken")

    def _take(self, name: str, value: int, source: RunSource, told: str = "") -> None:
        """A value that ran; where the card states another, that is a conflict."""
        stated = self._stated(name)
        if stated == value:
            return
        self.values[name] = Ran(value, origin_of(source))
        if stated is not None:
            says = f"{self._card_says(name, stated)}, {_says(source, told or name, value)}"
            self._conflict(name, f"{says}: {value} is taken")

    def _card_says(self, name: str, value: object) -> str:
        place = name if self.card is None else self.card.provenance(name)
        return f"the card says {name} {printable(str(value))} ({place})"

    def _conflict(self, name: str, message: str) -> None:
        self.conflicts.append(Conflict(name, message))


_FIELDS: Final = {
    _LOCAL: "batch_size",
    _GLOBAL: "batch_size",
    "gradient_accumulation": "batch_size",
    "micro_batch": "pp_microbatches",
}
"""Field of a source -> field of the card that follows from it."""
