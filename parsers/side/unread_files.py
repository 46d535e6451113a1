"""Files that are recognised and not read: archives, pickles, other logs and texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import Format, Match, Priority, Rule, binary_suffix
from ccltui.parsers.safe_text import listed, printable
from ccltui.parsers.text.file_sample import is_pickle

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample


_MEMBERS_LISTED = 6
_ARCHIVE_BYTES_READ = 1 << 25
_PIECE_BYTES = 1 << 16

_UNPACK = "unpack it first"
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", f"a zip archive or PyTorch checkpoint; an archive: {_UNPACK}"),
    (b"BZh", f"compressed with bzip2: {_UNPACK}"),
    (b"\xfd7zXZ\0", f"compressed with xz: {_UNPACK}"),
    (b"\x04\x22\x4d\x18", f"compressed with lz4: {_UNPACK}"),
    (b"7z\xbc\xaf\x27\x1c", f"a 7z archive: {_UNPACK}"),
    (b"\x1f\x8b", f"compressed twice: {_UNPACK}"),
    (b"\x28\xb5\x2f\xfd", f"compressed twice: {_UNPACK}"),
)
_PICKLE_BYTES: Final = 1 << 12
_PICKLE = "a pickle of no known program: never loaded, it could run code"
_LOG_SUFFIXES = (".log", ".out", ".err")
_LOG_WORDS: Final = frozenset(
    {"log", "logs", "out", "output", "err", "error", "errors", "stdout", "stderr", "console"}
    | {"slurm", "train", "training", "rank", "job", "run"}
)
"""Words in the name of a ``.txt`` that a program wrote while it ran."""
_LOGGED_CHARACTERS: Final = 1 << 13
_LOGGED: Final = re.compile(
    r"""
      \b\d{4}-\d\d-\d\d[T ]\d\d:\d\d | ^\[?\d\d:\d\d:\d\d\b   # times
    | \b(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL)\b
    | ^Traceback\ \(most\ recent\ call\ last\) | ^\[rank\s?\d
    | \b(?:step|iteration|iter|epoch)\b[\s:=\[#]*\d | \bloss\b[\s:=]*\d
    | ^(?:srun|slurmstepd|torchrun|mpirun):
    """,
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
_CLOCK: Final = re.compile(r"\d\d:\d\d")
_MARKS: Final = (
    *("info", "warn", "error", "debug", "critical", "traceback", "[rank", "step", "iter"),
    *("epoch", "loss", "srun:", "slurmstepd:", "torchrun:", "mpirun:"),
)
"""Without one of them or a time there is no match of `_LOGGED`, which is ten times slower."""


def _archive(sample: FileSample) -> Match | None:
    if _is_tar(sample.data):
        return Match(archive_problem(sample.path))
    known = [problem for magic, problem in _MAGIC if sample.data.startswith(magic)]
    return Match(known[0]) if known else None


def _pickle(sample: FileSample) -> Match | None:
    if not is_pickle(sample.data):
        return None
    from ccltui.parsers.text.plain_pickle import read_plain_pickle  # noqa: PLC0415  (few files need it)

    try:
        read_plain_pickle(sample.data[:_PICKLE_BYTES], shown="")
    except TraceError as error:
        return Match(f"{_PICKLE} (at byte {error.offset or 0:,}: {error.message})")
    return Match(_PICKLE)


def _log(sample: FileSample) -> Match | None:
    """A text with the suffix of a log; a ``.txt`` by what its name or its lines say."""
    text = sample.prose
    if text is None or sample.looks_like_json:
        return None
    name = _unpacked_name(sample)
    if name.endswith(_LOG_SUFFIXES):
        return Match()
    if not name.endswith(".txt"):
        return None
    words = set(re.split(r"[^a-z]+", name.removesuffix(".txt")))
    # A prefix of a line, such as a time or a rank, is itself the mark of a log.
    pieces = {text, sample.unescaped or ""}
    logged = any(_is_logged(piece[:_LOGGED_CHARACTERS]) for piece in pieces)
    return Match() if words & _LOG_WORDS or logged else None


def _is_logged(text: str) -> bool:
    lower = text.lower()
    has_time = ":" in text and _CLOCK.search(text) is not None
    if not has_time and not any(mark in lower for mark in _MARKS):
        return False
    return _LOGGED.search(text) is not None


def _text(sample: FileSample) -> Match | None:
    is_text = sample.prose is not None and not sample.looks_like_json
    return Match() if is_text and _unpacked_name(sample).endswith(".txt") else None


def _unpacked_name(sample: FileSample) -> str:
    """Return the name of a file in lower case without the suffix of its compression."""
    return sample.lower_name.removesuffix(".gz").removesuffix(".zst")


ARCHIVE: Final = Format(
    kind="archive",
    description="an archive, or a compressed file of a form that is not read",
    sniff=(Rule(Priority.BINARY, _archive),),
)
PICKLE: Final = Format(
    kind="pickle",
    description="a pickle of no known program; loading one can run code",
    sniff=(
        Rule(Priority.BINARY, _pickle),
        binary_suffix(".pickle", ".pkl", problem=_PICKLE),
    ),
    rank_in_name=True,
)
LOG: Final = Format(
    kind="log",
    description="output of no known program, by the name of the file or its lines",
    sniff=(Rule(Priority.SUFFIX, _log),),
    read_by_line=True,
)
TEXT: Final = Format(
    kind="text",
    description="a .txt file without the marks of a log: requirements, notes, results",
    sniff=(Rule(Priority.SUFFIX, _text),),
)


def _is_tar(data: bytes) -> bool:
    """True when the first 512 bytes are a tar header (by its checksum)."""
    if len(data) < 512 or not data[:512].strip(b"\0") or not _has_checksum(data):
        return False
    import tarfile  # noqa: PLC0415  (5 ms; hardly a file comes so far)

    try:
        tarfile.TarInfo.frombuf(data[:512], "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        return False
    return True


def _has_checksum(data: bytes) -> bool:
    """Whether the field of the checksum holds octal digits, or a number in base 256."""
    field = data[148:156]
    digits = field.partition(b"\0")[0].strip()
    return field[0] in (0x80, 0xFF) or not digits.translate(None, b"01234567")


def archive_problem(path: str) -> str:
    """One sentence that names the first members of a tar archive; nothing is unpacked."""
    import tarfile  # noqa: PLC0415

    from ccltui.parsers.text.compression import text_pieces  # noqa: PLC0415

    names: list[str] = []
    complete = True
    try:
        with (
            closing(text_pieces(path, _PIECE_BYTES)) as pieces,
            tarfile.open(
                fileobj=cast("BinaryIO", _Limited(pieces)), mode="r|", errors="surrogateescape"
            ) as archive,
        ):
            # extend() keeps what it got before an error ends the archive
            names.extend(printable(entry.name[:120]) for entry in archive if entry.isfile())
    except (
        tarfile.TarError,
        RecursionError,
        IndexError,
        OverflowError,
        OSError,
        EOFError,
        ValueError,
    ):
        complete = False
    count = f"{len(names)}" if complete else f"at least {len(names)}"
    inside = f" ({listed(names, _MEMBERS_LISTED)})" if names else ""
    return f"an archive of {count} file{'' if len(names) == 1 else 's'}{inside}: {_UNPACK}"


class _Limited:
    """A reader that fails after a fixed number of bytes: a listing must not cost minutes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""
        self._left = _ARCHIVE_BYTES_READ

    def read(self, size: int) -> bytes:
        """Exactly ``size`` bytes, fewer at the end only."""
        self._left -= size
        if self._left < 0:
            raise OSError("the archive is longer than what is read for a listing")
        while len(self._held) < size and (piece := next(self._pieces, b"")):
            self._held += piece
        part, self._held = self._held[:size], self._held[size:]
        return part


_ASCEND: Final = (
    "a timeline of Ascend's profiler (torch_npu), whose device events are not read: CUDA, ROCm "
    "and MTIA are"
)
_KINETO_KEYS: Final = frozenset({"schemaVersion", "deviceProperties", "distributedInfo"})
"""Keys before the events that only PyTorch's profiler writes."""
_OTHER_PROGRAMS: Final[tuple[tuple[re.Pattern[bytes], str], ...]] = (
    (
        re.compile(rb'"name"\s*:\s*"(?:CANN|Ascend Hardware)"|"cat"\s*:\s*"async_npu"|"AscendCL@'),
        _ASCEND,
    ),
    (
        re.compile(rb'"tid"\s*:\s*"(?:worker|driver|raylet):|"cat"\s*:\s*"task::?[\w.:<>]+"'),
        "a timeline of Ray's tasks, without device events: profile the workers with torch.profiler",
    ),
    (
        re.compile(rb'"pid"\s*:\s*"(?:CPU|CUDA) functions"'),
        "an export of torch.autograd.profiler, without streams, launches and ranks: record with "
        "torch.profiler",
    ),
    (
        re.compile(rb'"viztracer_metadata"|"cat"\s*:\s*"(?:fee|FEE)"'),
        "a trace of Python functions by VizTracer, without device events",
    ),
    (
        re.compile(rb'"/job:[a-z]+/replica:\d+/task:\d+|"/host:CPU|"/device:CPU:\d'),
        "a timeline of TensorFlow or JAX, of which only profiles of TPUs and GPUs are read",
    ),
    (
        re.compile(rb'"NPKIT_EVENT_'),
        "a trace of NPKit, of what happens inside kernels of NCCL: it is not read",
    ),
    (
        re.compile(rb'"NEGOTIATE_(?:ALLREDUCE|ALLGATHER|BROADCAST|ALLTOALL|REDUCESCATTER)'),
        "a timeline of Horovod, without device events: record with torch.profiler",
    ),
)


def _other_trace(sample: FileSample) -> Match | None:
    document = sample.json
    if document is None:
        return None
    if document.shape.keys & _KINETO_KEYS and not document.is_list:
        return None
    if document.is_list:
        is_trace = "ph" in document.shape.keys or {"name", "ts"} <= document.shape.keys
    else:
        is_trace = document.shape.find("traceEvents") is not None
    if not is_trace:
        return None
    for mark, problem in _OTHER_PROGRAMS:
        if mark.search(document.data):
            return Match(problem)
    if document.is_list and sample.lower_name.startswith("trace_view.json"):
        return Match(_ASCEND)
    return None


OTHER_TRACE: Final = Format(
    kind="other_trace",
    description="a list of trace events of another program than PyTorch's profiler: not read",
    sniff=(Rule(Priority.JSON_CONTENT, _other_trace),),
)
