"""Take off what launchers and loggers put before each line of a program's output.

``srun -l``, ``mpirun --tag-output``, ``kubectl logs --timestamps``, ``docker compose logs``, Ray,
torchrun, torchx, pdsh, syslog and headers of loggers: one place for all readers of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Final

_DAY: Final = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CTIME: Final = rf"{_DAY} {_MONTH} [ \d]\d \d\d:\d\d:\d\d \d{{4}}"
_ISO: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_LEVEL: Final = r"(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)"
# What a trainer begins each of its lines with; a node of such a name is not known.
_STEP_WORD: Final = (
    r"(?i:(?:global_?)?(?:step|epoch|iter(?:ation)?|batch)s?|(?:train|eval|val|test)(?:ing|uation)?"
    r"|(?:train_|val_|eval_)?loss|time|tokens|lr)"
)
# Blanks before them are indentation by the same tool, so they go as well.
_CERTAIN: Final = (
    # mpirun --tag-output, --timestamp-output; Open MPI 5 names the job and adds a blank
    rf"(?:{_CTIME}|{_ISO})?[ ]?\[\d{{1,7}},(?P<mpi>\d{{1,7}})\]<std\w{{2,4}}>:",
    rf"(?:{_CTIME}|{_ISO})?[ ]?\[[\w.-]{{1,80}}@\d{{1,7}},(?P<mpi5>\d{{1,7}})\]"
    r"(?:\[[^\]\n]{1,80}\])?<std\w{2,4}>:[ ]?",
    # kubectl logs --timestamps, --prefix; logs of continuous integration
    rf"{_ISO}(?:Z|[+-]\d\d:?\d\d)(?:[ ]|$)",
    r"\[pod/[^\]\n]{1,300}\][ ]?",
    # Ray, and vLLM, which names its workers in the same way
    r"\((?:[\w.:<>]{1,80}(?:\[rank=(?P<ray>\d{1,7})\])?[ ])?pid=\d{1,10}"
    r"(?:,[ ]ip=[\w.:]{1,64})?\)[ ]?",
    # the C++ logger of torch with the global rank; torchrun --tee with the local one
    r"\[rank(?P<rank>\d{1,7})\]:[ ]?",
    r"\[(?:default|worker|trainer)\d{1,7}\]:[ ]?",
    # syslog
    rf"{_MONTH} [ \d]\d \d\d:\d\d:\d\d [\w.-]{{1,80}} [\w./-]{{1,80}}\[\d{{1,10}}\]: ",
    # I0102 12:34:56.789012 139 file.py:12] of glog and absl
    r"[DIWEF]\d{4} \d\d:\d\d:\d\d\.\d{1,9} {1,7}\d{1,10} [\w./-]{1,80}:\d{1,6}\] ",
    rf"\[NeMo [DIWEC] {_ISO} (?:rank\d{{1,7}} ?)?[\w./-]{{1,80}}:\d{{1,6}}\] ",
    # [date] [INFO] [file:line:function] of DeepSpeed and its like
    rf"\[{_ISO}(?:Z|[+-]\d\d:?\d\d)?\] ?(?:\[{_LEVEL}\] ?)?"
    r"(?:\[[\w./-]{1,80}(?::\d{1,6})?(?::[\w.<>-]{1,80})?\] ?)?",
    # 2025-10-28 12:00:01,123 - name - INFO - , and INFO 10-28 12:00:01 file.py:12]
    rf"{_ISO}[ ]?-[ ][\w.-]{{1,80}}[ ]-[ ]{_LEVEL}[ ]-[ ]",
    rf"{_LEVEL} \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./]{{1,80}}:\d{{1,6}}\] ",
)
_SHARED: Final = {
    "srun": r"[ ]{0,7}(?P<srun>\d{1,7}):(?:[ ]|$)",  # srun -l
    "compose": r"[\w.-]{1,80}[ ]{0,40}\|(?:[ ]|$)",  # docker compose logs
    "torchx": r"[A-Za-z][\w.-]{0,80}/(?P<torchx>\d{1,7})[ ]",  # role/replica, of NeMo-Run too
    "time": rf"{_ISO}[ ](?:{_LEVEL}:?[ ])?",
    "hydra": r"\[(?P<hydra>\d{1,7})\][ ]?",  # mpiexec -prepend-rank, -l
    "pdsh": rf"(?!{_LEVEL}\b|{_STEP_WORD}:)[A-Za-z][\w.-]{{0,80}}:(?:[ ]|$)",
}
"""Forms that other texts have too: they count only where nearly all lines begin so."""
_LEAST_SHARE: Final = {"srun": 0.5, "compose": 0.8, "torchx": 0.8, "time": 0.9, "hydra": 0.5} | {
    "pdsh": 0.9
}
"""A script prints its own lines around an srun; a host name could be any word before a colon."""
_BEHIND: Final[dict[str, tuple[str, ...]]] = {"time": ("srun", "hydra")}
"""Forms that may follow another, otherwise a time: a word behind a task is the program's own."""
_LEAST_LINES: Final = 3
_WORD_LINES: Final = 4  # a word is a host only where it begins several lines
_SAMPLED: Final = 1 << 16
_DEEPEST: Final = 4  # kubectl around mpirun around a logger
_RANK_NAMES: Final = ("mpi", "mpi5", "ray", "rank", "srun", "torchx", "hydra")
_NO_PROCESS: Final = re.compile(
    rf"{_CTIME}|{_MONTH} [ \d]\d \d\d:\d\d:\d\d|\[?{_ISO}(?:Z|[+-]\d\d:?\d\d)?\]?"
    rf"|<std\w{{2,4}}>|\[?\b{_LEVEL}\b\]?|\[[\w./-]+:\d+(?::[^\]]*)?\]"
)
_HINT: Final = re.compile(
    rf"^[ ]{{0,7}}(?:[\[(]|\d|[\w.-]{{1,80}}[ ]{{0,40}}[|:]|{_DAY} |{_MONTH} |{_LEVEL} "
    r"|[A-Za-z][\w.-]{0,80}/\d|[DIWEF]\d{4} )",
    re.MULTILINE,
)


class Prefixes:
    """The prefixes of the lines of one text."""

    def __init__(self, text: str) -> None:
        self._sample = text[:_SAMPLED]

    @cached_property
    def _one(self) -> re.Pattern[str]:
        """One prefix of the forms that this text has."""
        return re.compile("|".join((*_CERTAIN, *(_SHARED[name] for name in self._shared))))

    @cached_property
    def _all(self) -> re.Pattern[str]:
        """All prefixes of a line."""
        return _repeated(self._shared)

    @cached_property
    def _shared(self) -> tuple[str, ...]:
        lines = _repeated(()).sub("", self._sample).split("\n")[:-1]
        first = tuple(name for name in _SHARED if _is_shared(name, lines))[:1]
        if not first:
            return ()
        behind = _repeated(first).sub("", "\n".join(lines)).split("\n")
        second = [name for name in _BEHIND.get(first[0], ("time",)) if _is_shared(name, behind)]
        return (*first, *second[:1])

    @cached_property
    def _may_have(self) -> bool:
        return _HINT.search(self._sample) is not None

    def split(self, line: str) -> tuple[str, str]:
        """Return the prefixes of a line and the rest."""
        match = self._all.match(line) if self._may_have else None
        return ("", line) if match is None else (match[0], line[match.end() :])

    def plain(self, text: str) -> str:
        """Return a text without the prefixes of its lines."""
        return self._all.sub("", text) if self._may_have else text

    def lines(self, text: str) -> Iterator[tuple[str, str]]:
        """Return every line of a text as its prefixes and the rest."""
        return (self.split(line) for line in text.split("\n"))

    def source(self, prefix: str) -> str:
        """Return what prefixes state of the process that wrote a line, without times and levels."""
        return " ".join(_NO_PROCESS.sub(" ", prefix).split())

    def rank(self, prefix: str) -> int | None:
        """Return the rank or task that prefixes state, the innermost first; None without one."""
        found = None
        for match in self._one.finditer(prefix):
            numbers = match.groupdict()
            stated = [numbers[name] for name in _RANK_NAMES if numbers.get(name)]
            found = int(stated[0]) if stated else found
        return found


def plain_text(text: str) -> str:
    """Return a text without the prefixes of its lines."""
    return Prefixes(text).plain(text)


@lru_cache(maxsize=8)
def _repeated(shared: tuple[str, ...]) -> re.Pattern[str]:
    """All prefixes at the start of a line; each form that other texts have too counts once."""
    certain = f"(?:{'|'.join(_CERTAIN)})"
    pattern = f"{certain}{{1,{_DEEPEST}}}"
    if shared:
        each = [f"{_SHARED[name]}{certain}{{0,{_DEEPEST}}}" for name in shared]
        once = f"{each[0]}(?:{each[1]})?" if len(each) > 1 else each[0]
        pattern = f"(?:{pattern}(?:{once})?|{once})"
    return re.compile(f"^{re.sub(r'[?]P<[a-z0-9]+>', '?:', pattern)}", re.MULTILINE)


def _is_shared(name: str, lines: Sequence[str]) -> bool:
    """Return whether nearly all lines that are not blank begin with a form."""
    written = [line for line in lines if line.strip()]
    pattern = re.compile(_SHARED[name])
    heads = [match[0].strip() for line in written if (match := pattern.match(line))]
    if len(heads) < max(_LEAST_LINES, _LEAST_SHARE[name] * len(written)):
        return False
    return name not in ("pdsh", "compose", "torchx") or len(set(heads)) * _WORD_LINES <= len(heads)
