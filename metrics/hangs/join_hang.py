"""One verdict from what several records of a job say: dumps, logs of watchdogs, reports of RAS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import structs

from ccltui.metrics.hangs.hang import Hang, Standing, Sure, sentence

_LEVELS: Final[tuple[Sure, ...]] = ("high", "medium", "low")
LAST: Final = frozenset({"nothing", "abstained", "late"})
"""Kinds that come after every other: they tell of no hang, or do not tell who."""
_ENTERED: Final = frozenset({"all_arrived", "never_completed"})
"""Kinds by which no rank is missing where it is waited for."""
_LONGEST: Final = 200
"""Characters of a first sentence; what does not fit follows it."""
_IN_BRACKETS: Final = {"flight recorder": "dumps", "watchdog": "log", "ras": "RAS"}
_SUBJECTS: Final = {
    "flight recorder": ("the dumps", "name"),
    "watchdog": ("the log", "names"),
    "ras": ("RAS", "names"),
}

_Relation = Literal["same", "others", "nobody", "unknown"]


def by_surety(hang: Hang) -> tuple[bool, bool, int]:
    """Return a key that sorts the surest hang first; what names nobody at all comes last."""
    return hang.kind in LAST, hang.kind == "nothing", _LEVELS.index(hang.sure)


def joined(found: Sequence[Hang], beside: Sequence[str] = ()) -> Hang:
    """Return one hang of what records of one job say, each statement with its record.

    The surest record gives the verdict, of equally sure ones the first. A record that names others,
    or by which all had arrived, lowers how sure it is.

    Args:
        found: What each record says, at least one.
        beside: What other records say of the ranks that are named, a clause each.
    """
    ordered = sorted(found, key=by_surety)
    narrowed = [_narrowed(one, [*ordered[:at], *ordered[at + 1 :]])
                for at, one in enumerate(ordered)]  # fmt: skip
    first, *rest = sorted(narrowed, key=by_surety)
    if not rest and not beside:
        return first
    relations = [_relation(first, one) for one in rest]
    against = sum(_is_against(first, one, how) for one, how in zip(rest, relations, strict=True))
    clauses = [clause for one, how in zip(rest, relations, strict=True)
               if (clause := _clause(first, one, how))]  # fmt: skip
    text, details = _first_sentence(first, [*clauses, *beside])
    sure = _LEVELS[min(_LEVELS.index(_confirmed(first, rest, relations)) + against, 2)]
    return structs.replace(
        first,
        text=sentence(text),
        more=tuple(map(sentence, (*details, *first.more, *_told(rest), *_limits(first, rest)))),
        sure=sure,
        record=", ".join(dict.fromkeys(one.record for one in ordered)),
        files=tuple(dict.fromkeys(path for one in ordered for path in one.files)),
        standing=first.standing or _standing(rest, relations),
        world_size=next((one.world_size for one in ordered if one.world_size), None),
        since_ns=next((one.since_ns for one in ordered if one.since_ns), None),
    )


def _standing(rest: Sequence[Hang], relations: Sequence[_Relation]) -> tuple[Standing, ...]:
    """Return what all ranks do by the first record that names the same and tells."""
    told = [one.standing for one, how in zip(rest, relations, strict=True) if how == "same"]
    return next((one for one in told if one), ())


def _narrowed(first: Hang, rest: Sequence[Hang]) -> Hang:
    """Return a verdict on ranks without a dump without those that another record shows to run.

    Who waits by another record is not at fault, whatever became of its dump.
    """
    if first.kind != "no_dump":
        return first
    waiting = {label for one in rest for label in one.waiting}
    alive = {label for one in rest for label in one.alive}
    if set(first.ranks) <= waiting:
        return structs.replace(first, kind="abstained", ranks=(), sure="low", standing=())
    heard = alive | waiting
    left = tuple(label for label in first.ranks if label not in heard)
    if not left or len(left) == len(first.ranks):
        return first
    return structs.replace(first, ranks=left, sure="medium", standing=())


def _relation(first: Hang, other: Hang) -> _Relation:
    if first.is_local != other.is_local and first.ranks and other.ranks:
        return "unknown"
    if not other.ranks or not first.ranks or "late" in (first.kind, other.kind):
        return "nobody"
    return "same" if set(first.ranks) & set(other.ranks) else "others"


def _is_against(first: Hang, other: Hang, how: _Relation) -> bool:
    """Whether a record contradicts the verdict; one that is unsure itself does not."""
    if how == "others":
        return other.sure != "low"
    if first.kind == "no_dump" and how != "same":
        return bool(set(first.ranks) & set(other.alive))
    return bool(first.ranks) and other.kind in _ENTERED and first.kind == "did_not_arrive"


def _confirmed(first: Hang, rest: Sequence[Hang], relations: Sequence[_Relation]) -> Sure:
    """Return how sure a verdict is that other records share.

    A rank without a dump that RAS does not reach is gone: each alone may be a lost file or a
    slow answer.
    """
    kinds = {one.kind for one, how in zip(rest, relations, strict=True) if how == "same"}
    is_gone = {first.kind, *kinds} >= {"no_dump", "peers_missing"}
    return "high" if is_gone else first.sure


def _clause(first: Hang, other: Hang, how: _Relation) -> str:
    """Return what another record says of the verdict, in a few words."""
    subject, names = _SUBJECTS[other.record]
    if how == "others" and other.sure != "low":
        word = "rank" if len(other.ranks) == 1 else "ranks"
        return f"{subject} {names} {word} {_short(other.ranks)} instead"
    if first.kind == "no_dump" and how == "nobody":
        running = [label for label in first.ranks if label in other.alive]
        it = "its process" if len(first.ranks) == 1 else f"rank {_short(running)}"
        said = "answers RAS" if other.record == "ras" else "printed to the log"
        return f"{it} {said}" if running else ""
    if _is_against(first, other, how) and how == "nobody":
        return f"by {subject} all had arrived"
    if how != "same":
        return ""
    it = "it" if len(first.ranks) == 1 else "them"
    if other.kind == "peers_missing":
        return f"RAS does not reach {it}"
    if other.kind == "behind":
        return f"RAS counts {it} behind too"
    if other.kind == "no_dump":
        return f"{'it' if it == 'it' else 'they'} left no dump"
    if other.kind == "printed_nothing":
        return f"{'it' if it == 'it' else 'they'} printed nothing"
    return f"{subject} {names} {it} too"


def _short(ranks: Sequence[str]) -> str:
    return ", ".join(ranks[:3]) + (f" and {len(ranks) - 3} more" if len(ranks) > 3 else "")


def _first_sentence(first: Hang, clauses: Sequence[str]) -> tuple[str, list[str]]:
    """Return the clause of who did not arrive, its record and what others say, and the rest."""
    text = first.text.removesuffix(".")
    head, _, rest = text.partition("; ")
    # the sentences of these name their record
    is_named = "left no dump" in head or "RAS" in head
    who = head if is_named else f"{head} ({_IN_BRACKETS[first.record]})"
    kept, left = [who], list[str]()
    for clause in clauses:
        fits = len("; ".join([*kept, clause])) < _LONGEST
        (kept if fits else left).append(clause)
    return "; ".join(kept), [*left, *([rest] if rest else [])]


def _told(rest: Sequence[Hang]) -> list[str]:
    """Return the sentence of each other record, with its first file."""
    told = []
    for one in rest:
        subject = _SUBJECTS[one.record][0]
        of = f" ({one.files[0]})" if one.files else ""
        told.append(f"{subject}{of}: {_inside(one.text)}")
    return told


def _inside(text: str) -> str:
    """Return a sentence as it continues another; RAS keeps its capitals."""
    return text if text[:2].isupper() else f"{text[:1].lower()}{text[1:]}"


def _limits(first: Hang, rest: Sequence[Hang]) -> list[str]:
    if any(one.is_local != first.is_local and one.ranks for one in rest):
        return ["RAS numbers ranks inside a communicator, and it is not known which these are in "
                "the job"]  # fmt: skip
    return []
