"""Find the hangs that records of a directory tell of, and join what they say to one verdict."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct, structs

from ccltui.metrics.hangs.hang import Hang, Standing, Sure, sentence
from ccltui.parsers.cluster import NCCL_LOG, NCCL_RAS
from ccltui.parsers.discovery.captures import is_rank_folder, rank_in_name
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.flight_recorder import FLIGHT_RECORD
from ccltui.parsers.inspector import NCCL_INSPECTOR
from ccltui.parsers.runs import TRAINING_LOG, WATCHDOG_LOG
from ccltui.parsers.side import NVPROF_TABLE
from ccltui.parsers.side.unread_files import LOG, TEXT

if TYPE_CHECKING:
    from ccltui.parsers.cluster.nccl_log import RasReport
    from ccltui.parsers.found_files import Discovery, FoundFile

LOGS: Final = (WATCHDOG_LOG, TRAINING_LOG, NCCL_LOG, NVPROF_TABLE, LOG, TEXT)
ATTEMPT: Final = re.compile(r"^attempt_(\d{1,6})$")
_RECORDS: Final = re.compile(
    r"(?:records?|torch|kineto|nsys|traces?|profil\w*|fr|flight[_-]?rec\w*|dumps?"
    r"|(?:comm|nccl)[_-](?:lib[_-])?traces?|ras|(?:nccl[_-])?inspector(?:[_-]\w+)*|watchdog|logs?"
    r"|outputs?|std(?:out|err))",
    re.IGNORECASE,
)
"""Names of folders that say what is recorded, and not of which job."""


class JobFiles(Struct, frozen=True):
    """Files of one job, by kind of record; ``where`` is its folder below the directory."""

    where: str
    dumps: tuple[FoundFile, ...]
    logs: tuple[FoundFile, ...]
    reports: tuple[FoundFile, ...]
    inspector: tuple[FoundFile, ...]


def jobs_of(files: Sequence[FoundFile]) -> list[JobFiles]:
    """Return the jobs that files are records of.

    A job is a folder, without what is named after a rank, an attempt or a kind of record. Folders
    that are named after records are of one job where no two hold the same kind, but for logs.
    """
    close: dict[str, list[FoundFile]] = defaultdict(list)
    for file in files:
        close[_joined(_folder(file.path))].append(file)
    jobs: dict[str, list[FoundFile]] = defaultdict(list)
    for where, held in close.items():
        several = _has_several(held)
        for file in held:
            jobs["/".join(_folder(file.path)) if several else where].append(file)
    return [_job(where, held) for where, held in jobs.items()]


def _job(where: str, files: Sequence[FoundFile]) -> JobFiles:
    return JobFiles(
        where,
        tuple(file for file in files if file.format is FLIGHT_RECORD),
        tuple(file for file in files if file.format in LOGS),
        tuple(file for file in files if file.format is NCCL_RAS),
        tuple(file for file in files if file.format is NCCL_INSPECTOR),
    )


def _has_several(files: Sequence[FoundFile]) -> bool:
    """Whether two folders hold the same kind of record: they may be of two jobs."""
    folders: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for file in files:
        if file.format not in LOGS:
            folders[file.kind].add(_folder(file.path))
    return any(len(places) > 1 for places in folders.values())


def _folder(path: str) -> tuple[str, ...]:
    """Return the folder of a file, without what is named after a rank or an attempt."""
    parts = list(PurePosixPath(path).parent.parts)
    while parts and _is_of_rank(parts[-1]):
        parts.pop()
    return tuple(parts)


def job_folder(path: str) -> str:
    """Return the folder of the job that a trace is of, without that of its iteration."""
    parts = _folder(path)
    while parts and _ITERATION.fullmatch(parts[-1]):
        parts = _folder("/".join(parts))
    return _joined(parts)


_ITERATION: Final = re.compile(r"iteration[_-]?\d{1,12}", re.IGNORECASE)


def _joined(parts: Sequence[str]) -> str:
    kept = list(parts)
    while kept and _RECORDS.fullmatch(kept[-1]):
        kept.pop()
    return "/".join(kept)


def _is_of_rank(folder: str) -> bool:
    return folder.isdecimal() or is_rank_folder(folder) or ATTEMPT.match(folder) is not None


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


_MOST_LOGS: Final = 4096
_MOST_BYTES: Final = 1 << 31
"""Logs beyond it are left out, the largest first: those of many ranks repeat each other."""


def hang_of(discovery: Discovery, store: Path | None = None) -> Hang | None:
    """Return the surest hang below a directory, None where no dump or log tells of one."""
    found = hangs_of(discovery, store)
    return found[0] if found else None


def hangs_of(discovery: Discovery, store: Path | None = None) -> tuple[Hang, ...]:
    """Return what the records of every job below a directory tell, the surest first.

    ``store`` keeps what NCCL Inspector's records come to, which may be of days.
    """
    files = [file for file in discovery.files if file.duplicate_of is None and file.problem is None]
    kinds = (*LOGS, NCCL_RAS, FLIGHT_RECORD, NCCL_INSPECTOR)
    return _found(tuple(file for file in files if file.format in kinds), store)


def hang_of_run(files: Sequence[FoundFile]) -> Hang | None:
    """Return the hang that the logs of one run tell of."""
    logs = tuple(file for file in files if file.format in LOGS and file.problem is None)
    found = [one for one in _found(logs, None) if one.kind != "nothing"]
    return found[0] if found else None


@lru_cache(maxsize=64)
def _found(files: tuple[FoundFile, ...], store: Path | None) -> tuple[Hang, ...]:

    found = [hang for job in jobs_of(files) if (hang := _of_job(job, store)) is not None]
    return tuple(sorted(found, key=by_surety))


def _of_job(job: JobFiles, store: Path | None) -> Hang | None:
    """Return what all records of a job tell; of equally sure ones dumps count, then logs."""
    unread: list[str] = []
    groups: list[tuple[int, ...]] = []
    judges: tuple[tuple[Sequence[FoundFile], _Judge, str], ...] = (
        (job.dumps, lambda files: _of_dumps(files, groups), "flight recorder"),
        ((*job.logs, *job.reports), lambda files: _of_logs(files, unread), "watchdog"),
        (job.reports, lambda files: _of_reports(files, groups, unread), "ras"),
    )
    found = [
        hang
        for files, judge, record in judges
        if files and (hang := _judged(judge, files, record)) is not None
    ]
    if not found:
        return None
    hang = joined(found, _of_inspector(job.inspector, found, store))
    return structs.replace(hang, where=job.where, more=(*hang.more, *unread))


_Judge = Callable[[Sequence["FoundFile"]], "Hang | None"]


def _judged(judge: _Judge, files: Sequence[FoundFile], record: str) -> Hang | None:
    """Return what a judge says; an error that nobody foresaw is one line, not the end of all."""
    from ccltui.metrics.hangs.hang import Hang, sentence  # noqa: PLC0415

    paths = tuple(file.path for file in files)
    try:
        with contained(paths[0]):
            return judge(files)
    except TraceError as error:
        text = sentence(f"the records of this job could not be judged: {error}")
        return Hang("abstained", text, sure="low", record=record, files=paths)


def _of_logs(files: Sequence[FoundFile], unread: list[str]) -> Hang | None:
    from ccltui.metrics.hangs.watchdog_hang import watchdog_hang  # noqa: PLC0415
    from ccltui.parsers.runs.watchdog_lines import read_watchdog_lines  # noqa: PLC0415

    chosen = _of_last_attempt(_within_limits(files))
    read = []
    for file in chosen:
        try:
            with contained(file.path):
                one = (Path(file.real_path), file.path, rank_in_name(file.path))
                if read_watchdog_lines([one]).attempts:
                    read.append(one)
        except TraceError as error:
            unread.append(_not_read(error))
    if not read:
        return None
    return watchdog_hang(read_watchdog_lines(read), tuple(shown for _, shown, _ in read))


def _within_limits(files: Sequence[FoundFile]) -> list[FoundFile]:
    held = 0
    kept: list[FoundFile] = []
    for file in sorted(files, key=lambda one: (one.format is not WATCHDOG_LOG, one.size_bytes)):
        held += file.size_bytes
        if held <= _MOST_BYTES and len(kept) < _MOST_LOGS:
            kept.append(file)
    return [file for file in files if file in kept]


def _of_last_attempt(files: Sequence[FoundFile]) -> list[FoundFile]:
    """Return the files of the last attempt: torchrun writes each into a folder of its own."""
    attempts = {
        file: int(match[1])
        for file in files
        for part in PurePosixPath(file.path).parts
        if (match := ATTEMPT.match(part)) is not None
    }
    last = max(attempts.values(), default=None)
    return [file for file in files if attempts.get(file, last) == last]


def _of_dumps(files: Sequence[FoundFile], groups: list[tuple[int, ...]]) -> Hang | None:
    """Judge dumps; add the members of groups that they state to ``groups``."""
    from ccltui.metrics.hangs.flight_hang import flight_hang  # noqa: PLC0415
    from ccltui.parsers.flight_recorder.read_dump import read_flight_dump  # noqa: PLC0415

    dumps, refused = [], []
    for file in files:
        try:
            with contained(file.path):
                path = Path(file.real_path)
                dumps.append(read_flight_dump(path, shown=file.path, rank=file.rank))
        except TraceError as error:
            refused.append(str(error))
    stated = {group.ranks for dump in dumps for group in dump.groups if group.ranks}
    groups += sorted(stated)
    return flight_hang(dumps, refused=refused, files=[file.path for file in files])


def _of_reports(
    files: Sequence[FoundFile], groups: Sequence[tuple[int, ...]], unread: list[str]
) -> Hang | None:
    from ccltui.metrics.hangs.hang import Hang, sentence  # noqa: PLC0415
    from ccltui.metrics.hangs.ras_hang import ras_hang  # noqa: PLC0415
    from ccltui.parsers.cluster.ras_json import read_ras  # noqa: PLC0415

    reports: list[RasReport] = []
    refused: list[str] = []
    for file in files:
        try:
            with contained(file.path):
                reports += read_ras(Path(file.real_path), shown=file.path)
        except TraceError as error:
            refused.append(_not_read(error))
    paths = tuple(file.path for file in files)
    if not reports and refused:
        text = sentence(f"no report of RAS can be read, of {len(files)}")
        return Hang("abstained", text, tuple(refused), sure="low", record="ras", files=paths)
    unread += refused
    # Reports in text state no time, and keep the order of their files.
    reports.sort(key=lambda one: one.timestamp)
    return ras_hang(reports, paths, groups)


def _not_read(error: TraceError) -> str:
    from ccltui.metrics.hangs.hang import sentence  # noqa: PLC0415

    return sentence(f"not read: {error}")


_APART_NS: Final = 900 * 10**9
"""The Inspector writes every minute at most; after a quarter of an hour it is of another time."""


def _of_inspector(
    files: Sequence[FoundFile], found: Sequence[Hang], store: Path | None
) -> list[str]:
    """Return what NCCL Inspector says of the ranks that other records name, a clause each."""
    first = min(found, key=by_surety)
    if not files or not first.ranks or first.is_local or first.kind == "late":
        return []
    from ccltui.metrics.inspector.inspector_job import rolled_job  # noqa: PLC0415

    try:
        with contained(files[0].path):
            job = rolled_job(tuple(files), store)
    except TraceError as error:
        return [f"the Inspector's records are not used: {error}"]
    facts, since_ns = job.facts, first.since_ns
    late = [(one.late_windows, one.lag_ms, label) for group in facts.groups
            for label, one in zip(group.labels, group.lags, strict=False)
            if one.late_windows]  # fmt: skip
    if since_ns is not None and abs(since_ns - facts.last_us * 1000) > _APART_NS:
        return ["the Inspector's records are of another time, and are not used"] if late else []
    last_window = int((facts.last_us - facts.first_us) // job.window_us)
    still = [one for one in late if one[0][-1] >= last_window - 1]
    if not still:
        return []
    windows, _, label = max(still, key=lambda one: (one[2] in first.ranks, one[1]))
    until_us = facts.last_us if since_ns is None else max(since_ns // 1000, facts.last_us)
    minutes = round((until_us - facts.first_us - windows[0] * job.window_us) / 60e6)
    for_long = f"for the {minutes} minutes before" if minutes > 1 else "just before"
    who = "" if label in first.ranks and len(first.ranks) == 1 else f"rank {label} was "
    return [f"Inspector: {who}slowest of its group {for_long}"]
