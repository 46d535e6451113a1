"""Find functions ``metric_cal`` in files, run one in a process, and take its number as a metric.

A file of the user may hang, print, change global state or crash the interpreter. Its process
imports nothing from the working directory, receives and returns JSON (nothing is unpickled), and is
killed with all of its children after the time-out, on ctrl+c, and when the caller is interrupted.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from ccltui.metrics.metric import Metric
from ccltui.metrics.result import Reason, Result, unit_of
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.safe_text import listed, printable, safe_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.view_options import ViewOptions


FUNCTION: Final = "metric_cal"
"""Name of the function, as in the metric tools of CCL-Bench."""
CHECKOUT_FOLDERS: Final = ("metrics", "tools")
"""Folders of a checkout that hold a folder for each metric."""
_MOST_SOURCE_BYTES: Final = 4_000_000
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)

Kind = Literal["file", "folder", "installed"]


class FunctionSource(Struct, frozen=True):
    """A function that computes a metric, and where its code is.

    Attributes:
        name: Name of the metric.
        kind: A file, a folder with NAME.py, or an object that is installed.
        target: Absolute path of the file or folder, or ``module:attribute``.
        shown: The path as the user gave it, for messages.
        summary: First sentence of the function's or the module's docstring; "" without one.
        search: Absolute folders from which its code may import, after all installed packages.
    """

    name: str
    kind: Kind
    target: str
    shown: str
    summary: str = ""
    search: tuple[str, ...] = ()


class Found(Struct, frozen=True):
    """Functions below a path, and name and reason of those that cannot be used."""

    sources: tuple[FunctionSource, ...]
    broken: tuple[tuple[str, str], ...] = ()


def functions_in(path: Path) -> Found:
    """Return the functions of a file, of a folder NAME with NAME.py, or of a folder of these.

    A folder of metrics may itself be ``metrics`` or ``tools`` of the given one, as in a checkout
    of CCL-Bench.

    Raises:
        GrammarError: The path has no such function, or its single file cannot be used.
    """
    if path.is_dir():
        return _functions_of_folder(path)
    if not path.exists():
        raise GrammarError("no such file or directory", path=path)
    if path.suffix != ".py":
        raise GrammarError("not a Python file (.py), and no folder", path=path)
    name = _metric_name(path.stem)
    if name is None:
        raise GrammarError("the name of the file is no name of a metric", path=path)
    summary, problem = _inspected(path)
    if problem:
        raise GrammarError(problem, path=path)
    return Found((FunctionSource(name, "file", str(path.resolve()), str(path), summary),))


def _functions_of_folder(path: Path) -> Found:
    if _own_file(path) is not None:
        found = _of_folder(path, search=())
        if isinstance(found, str):
            raise GrammarError(found, path=path)
        return Found((found,))
    sources: list[FunctionSource] = []
    broken: list[tuple[str, str]] = []
    for folder in _metric_folders(path):
        # Helpers are imported as in the checkout: from the folder of metrics, and from its root.
        search = tuple(dict.fromkeys((str(folder.parent.resolve()), str(path.resolve()))))
        found = _of_folder(folder, search=search)
        if isinstance(found, str):
            broken.append((folder.name, f"{folder}: {found}"))
        else:
            sources.append(found)
    if not sources and not broken:
        raise GrammarError(
            "no metric: expected a file, a folder NAME with NAME.py, or a folder of these "
            f"(also as {' or '.join(CHECKOUT_FOLDERS)} of a checkout)",
            path=path,
        )
    return Found(tuple(sources), tuple(broken))


def _metric_folders(path: Path) -> Iterator[Path]:
    """Folders NAME with NAME.py, by name, in the folders of a checkout or in the path itself."""
    inner = [path / name for name in CHECKOUT_FOLDERS if (path / name).is_dir()]
    for folder in (*inner, path):
        if _own_file(folder) is None:  # a metric may itself be called like a folder of metrics
            yield from (one for one in sorted(folder.iterdir()) if one.is_dir() and _own_file(one))


def _own_file(folder: Path) -> Path | None:
    """NAME.py of a folder NAME."""
    name = folder.name or folder.resolve().name
    file = folder / f"{name}.py"
    return file if file.is_file() else None


def _of_folder(folder: Path, *, search: tuple[str, ...]) -> FunctionSource | str:
    """The function of a folder NAME, or the reason why there is none."""
    resolved = folder.resolve()
    name, file = _metric_name(resolved.name), _own_file(resolved)
    if name is None or name != resolved.name or file is None:
        return "the name of the folder is no name of a module"
    summary, problem = _inspected(file)
    if problem and (folder / "__init__.py").is_file():
        summary, problem = _inspected(folder / "__init__.py")
    if problem:
        return problem
    return FunctionSource(name, "folder", str(resolved), str(folder), summary, search)


def _metric_name(stem: str) -> str | None:
    name = stem.replace("-", "_")
    return name if _NAME.fullmatch(name) else None


def _inspected(file: Path) -> tuple[str, str]:
    """First sentence of the documentation, and the reason why the file cannot be used."""
    try:
        if file.stat().st_size > _MOST_SOURCE_BYTES:
            return "", f"larger than {_MOST_SOURCE_BYTES:,} bytes"
        tree = ast.parse(file.read_bytes(), str(file))
    except SyntaxError as error:
        return "", f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return "", f"not Python: {error}"
    except OSError as error:
        return "", f"cannot be read: {error.strerror or error}"
    if not any(_binds(statement) for statement in ast.walk(tree)):
        return "", f"it defines no function {FUNCTION}(directory, profile_mode)"
    defined = [
        one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == FUNCTION
    ]
    texts = [*map(ast.get_docstring, defined), ast.get_docstring(tree)]
    return _first_sentence(next(filter(None, texts), "")), ""


def _binds(node: ast.AST) -> bool:
    """Whether a statement defines, imports or assigns the function, or may do so by ``*``."""
    match node:
        case ast.FunctionDef(name=name):
            return name == FUNCTION
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return any((alias.asname or alias.name) in (FUNCTION, "*") for alias in names)
        case ast.Name(id=name, ctx=ast.Store()):
            return name == FUNCTION
    return False


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    return f"{paragraph.rstrip('.')}." if paragraph else ""


_MOST_BYTES: Final = 16 << 20
"""Most bytes of JSON that are read from a function."""
_CHUNK: Final = 1 << 16
_EXIT_POLLS: Final = 100
_EXIT_POLL_S: Final = 0.01
_BOOTSTRAP: Final = (
    "import json, sys; request = json.loads(sys.stdin.buffer.readline()); "
    "sys.path[:] = request['path']; "
    "from ccltui.metrics.functions.function_worker import work; work(request)"
)


class FunctionLimits(Struct, frozen=True):
    """How functions are run.

    Attributes:
        timeout_s: Seconds after which a function is stopped.
        debug: Print tracebacks on standard error.
        for_screen: Discard what functions print, and run each once for a directory: the explorer
            computes its metrics again whenever a rank is loaded or the view changes.
    """

    timeout_s: float = 300.0
    debug: bool = False
    for_screen: bool = False


class FunctionFailedError(Exception):
    """A function has returned nothing that can be used; the message is the reason."""


class Returned(Struct, frozen=True):
    """What a function returned.

    Attributes:
        value: A number, a dictionary or whatever else JSON can state.
        not_finite: Places whose numbers were not finite, and are None in the value.
        takes_mode: Whether the function took the profile mode.
    """

    value: Any
    not_finite: tuple[str, ...] = ()
    takes_mode: bool = True


_ended: Final[dict[tuple[FunctionSource, str, str], Returned | FunctionFailedError]] = {}


def call(
    source: FunctionSource, directory: str, profile_mode: str, limits: FunctionLimits
) -> Returned:
    """Run a function, or return how it ended before where the limits are those of a screen.

    See `run_function` for arguments and errors.
    """
    if not limits.for_screen:
        return run_function(source, directory, profile_mode, limits)
    key = (source, directory, profile_mode)
    if key not in _ended:
        try:
            _ended[key] = run_function(source, directory, profile_mode, limits)
        except FunctionFailedError as error:
            _ended[key] = error
    ended = _ended[key]
    if isinstance(ended, FunctionFailedError):
        raise FunctionFailedError(str(ended))
    return ended


def run_function(
    source: FunctionSource, directory: str, profile_mode: str, limits: FunctionLimits
) -> Returned:
    """Run a function.

    Args:
        source: The function.
        directory: Trace directory, passed to the function as an absolute path.
        profile_mode: ``auto``, ``torch`` or ``nsys``, passed on.
        limits: Time-out and output.

    Raises:
        FunctionFailedError: It raised, ran too long, ended without a result, or returned what has
            no form in JSON.
    """
    read_end, write_end = os.pipe()
    request = {
        "path": [entry for entry in sys.path if entry],
        "search": list(source.search),
        "kind": source.kind,
        "target": source.target,
        "directory": os.path.abspath(directory),  # noqa: PTH100  (links stay as they are)
        "profile_mode": profile_mode,
        "output": write_end,
        "debug": limits.debug,
    }
    with open(read_end, "rb", buffering=0) as results:  # noqa: PTH123  (a descriptor)
        try:
            process = _started(write_end, quiet=limits.for_screen)
        finally:
            os.close(write_end)
        try:
            _send(process, request)
            data = _received(results, process.pid, limits.timeout_s)
        finally:
            _end(process)
    return _returned(data, process.returncode)


def _started(write_end: int, *, quiet: bool) -> subprocess.Popen[bytes]:
    output = subprocess.DEVNULL if quiet or not _is_open(2) else 2
    # What this process ignores, the function's process ignores too.
    ignored = ["-E"] * sys.flags.ignore_environment + ["-s"] * sys.flags.no_user_site
    return subprocess.Popen(
        [sys.executable, "-P", "-B", *ignored, "-c", _BOOTSTRAP],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        pass_fds=(write_end,),
        start_new_session=True,  # a group of its own: ended with all that it starts
    )


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _send(process: subprocess.Popen[bytes], request: Mapping[str, Any]) -> None:
    """Write the request; standard input stays open, because its end is the end of the process."""
    if process.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError):  # it has died: its exit status is reported
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()


def _received(results: IO[bytes], pid: int, timeout_s: float) -> bytes:
    deadline = time.monotonic() + timeout_s
    parts: list[bytes] = []
    size = 0
    with selectors.DefaultSelector() as selector:
        selector.register(results, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                raise FunctionFailedError(f"ran longer than {timeout_s:g} s and was stopped")
            part = os.read(results.fileno(), _CHUNK)
            if not part:
                _await_exit(pid)
                return b"".join(parts)
            parts.append(part)
            size += len(part)
            if size > _MOST_BYTES:
                raise FunctionFailedError(f"returned more than {_MOST_BYTES >> 20} MiB")


def _await_exit(pid: int) -> None:
    """Give a process that has closed its output the time to end by itself, so that it has a status.

    It is not waited for in the sense of the system: its id stays that of its group.
    """
    for _ in range(_EXIT_POLLS):
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(_EXIT_POLL_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    # The group is killed before its leader is reaped: until then no other process has its id.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


def _returned(data: bytes, status: int) -> Returned:
    if not data:
        raise FunctionFailedError(f"ended without a result ({_ending(status)})")
    try:
        outcome = json.loads(data)
    except ValueError:
        raise FunctionFailedError(f"its result is cut off ({_ending(status)})") from None
    if "error" in outcome:
        raise FunctionFailedError(outcome["error"])
    return Returned(outcome["returned"], tuple(outcome["not_finite"]), outcome["takes_mode"])


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


VALUE: Final = "value"
"""Key of the number in the details of every function's result."""
_ENVELOPE: Final = frozenset(
    ("metric", "schema", "status", "reason", "reasons", "source", "basis", "inputs", "warnings")
)
"""Keys of the document that a result becomes; returned ones get a prefix."""
_UNITS: Final = ("unit", "units")
_NOTES: Final = ("error", "errors", "reason", "message")
_PREFIX: Final = "returned_"


class Reading(Struct, frozen=True):
    """What a returned value means.

    Attributes:
        value: The number, None where there is none.
        unit: Its unit as stated, or by its key; "" where neither tells.
        details: The returned dictionary with the number under ``value``.
        key: Key of the number, None where the function returned nothing but a number.
        problem: Reason why there is no number; "" where there is one.
        reservation: Reason why the number covers a part of the input only; "" without one.
    """

    value: float | int | None
    unit: str = ""
    details: Mapping[str, Any] = {}
    key: str | None = None
    problem: str = ""
    reservation: str = ""


def read_returned(name: str, returned: Any, not_finite: tuple[str, ...] = ()) -> Reading:
    """Find the number of a returned value.

    It is the returned number itself; of a dictionary the entry ``value``, ``metric_value`` or that
    of the metric's name, else the first entry that is a number or null. A later number never
    replaces a null: it would be another quantity.

    Args:
        name: Name of the metric.
        returned: A value of JSON.
        not_finite: Places whose numbers were not finite.
    """
    if _is_number(returned):
        return Reading(returned, details={VALUE: returned})
    if not isinstance(returned, Mapping):
        bad = f"{', '.join(not_finite)} is not finite" if not_finite else _kind(returned)
        return Reading(None, problem=f"returned no number: {bad}")
    key = _headline(name, returned)
    value = None if key is None else returned[key]
    if not _is_number(value):
        return Reading(None, key=key, problem=_no_number(returned, key, not_finite))
    details = {VALUE: value, **_renamed(returned, key)}
    reservation = _reservation(returned, not_finite)
    return Reading(value, _unit(returned, key), details, key, reservation=reservation)


def _headline(name: str, returned: Mapping[str, Any]) -> str | None:
    for key in (VALUE, "metric_value", name):
        if key in returned:
            return key
    entries = ((key, item) for key, item in returned.items() if key not in _ENVELOPE)
    return next((key for key, item in entries if item is None or _is_number(item)), None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _no_number(returned: Mapping[str, Any], key: str | None, not_finite: tuple[str, ...]) -> str:
    if key in not_finite:
        why = f"{key} is not finite"
    elif key is not None:
        why = f"{key} is {'null' if returned[key] is None else _kind(returned[key])}"
    else:
        why = f"none of {listed(list(returned))} is one" if returned else "the dictionary is empty"
    notes = [f"{note}: {returned[note]}" for note in _NOTES if returned.get(note)]
    return "; ".join([f"returned no number: {why}", *notes])


def _renamed(returned: Mapping[str, Any], key: str | None) -> dict[str, Any]:
    """The entries, except the number itself where it is called ``value`` already."""
    return {
        _PREFIX + name if name in _ENVELOPE or (name == VALUE and key != VALUE) else name: item
        for name, item in returned.items()
        if not (name == key == VALUE)
    }


def _unit(returned: Mapping[str, Any], key: str | None) -> str:
    stated = next((returned[name] for name in _UNITS if isinstance(returned.get(name), str)), "")
    return stated or ("" if key is None else unit_of(key))


def _reservation(returned: Mapping[str, Any], not_finite: tuple[str, ...]) -> str:
    parts = []
    if returned.get("status") in ("partial", "unavailable"):
        notes = [f"{note}: {returned[note]}" for note in _NOTES if returned.get(note)]
        parts.append("; ".join([f"the function states status {returned['status']}", *notes]))
    if not_finite:
        parts.append(f"not finite, and null here: {listed(list(not_finite))}")
    return "; ".join(parts)


CATEGORY: Final = "functions"
_UNIT: Final = "as returned"


class FunctionCompute(Struct, frozen=True):
    """Computes a metric by a function; it is sent between processes without any code."""

    name: str
    source: FunctionSource
    limits: FunctionLimits

    def __call__(self, view: View) -> Result:
        """Run the function on the directory of a view.

        Raises:
            Refusal: The view is a part of the directory, or the function returned no number.
        """
        directory = _directory_of(view)
        _check_whole(view.options)
        try:
            returned = call(self.source, directory, view.options.profile_mode, self.limits)
        except FunctionFailedError as error:
            raise self._failed(str(error)) from None
        reading = read_returned(self.name, returned.value, returned.not_finite)
        if reading.problem:
            raise self._failed(reading.problem)
        reasons = [Reason("function_partial", reading.reservation)] if reading.reservation else []
        return Result(
            metric=self.name,
            unit=reading.unit,
            definition=definition_of(self.source),
            status="partial" if reasons else "ok",
            value=reading.value,
            details=reading.details,
            reasons=reasons,
            warnings=_warnings(returned, view),
            source="function",
            basis={} if reading.key is None else {"value": f"the entry {reading.key}"},
            inputs=_inputs(self.source, directory, view),
        )

    def _failed(self, problem: str) -> Refusal:
        shown = self.source.shown
        message = f"{printable(Path(shown).name)}: {safe_text(problem)}"
        return refuse("function_failed", message, file=shown)


def metric_of(name: str, source: FunctionSource, limits: FunctionLimits) -> Metric:
    """Return the metric of a function under a name."""
    return Metric(
        name=name,
        unit=_UNIT,
        definition=definition_of(source),
        needs=("whatever the function reads",),
        keys=(VALUE,),
        headline=VALUE,
        compute=FunctionCompute(name, source, limits),
        label=name,
        category=CATEGORY,
        needs_traces=False,
        lists_measured=False,
    )


def definition_of(source: FunctionSource) -> str:
    """Definition by the documentation of the function, and where it is."""
    origin = f"The number that metric_cal of {printable(source.shown)} returns."
    return f"{source.summary} {origin}" if source.summary else origin


def _directory_of(view: View) -> str:
    path = Path(view.job.path)
    if not path.is_dir():
        raise refuse("not_applicable", f"the function measures a directory; {path} is a file")
    return str(path)


def _check_whole(options: ViewOptions) -> None:
    """Refuse a selection, which a function is not told of."""
    chosen: Sequence[tuple[str, Any]] = (
        ("--window", options.window),
        ("--steps", options.steps),
        ("--ranks", options.ranks),
        ("--group", options.group),
        ("--raw-clocks", options.raw_clocks),
        ("--set, --batch-size and --seq-len", options.overrides),
        ("--span", options.span != "steps"),
    )
    unusable = [option for option, value in chosen if value]
    if unusable:
        raise refuse(
            "not_applicable",
            f"the function measures the whole directory; it does not follow {', '.join(unusable)}",
        )


def _warnings(returned: Returned, view: View) -> list[str]:
    found = []
    if not returned.takes_mode and view.options.profile_mode != "auto":
        found.append("the function takes no profile mode: it chooses the files itself")
    if len(view.job.discovery.captures) > 1:
        found.append("the function is given the directory with all of its captures")
    return found


def _inputs(source: FunctionSource, directory: str, view: View) -> dict[str, Any]:
    return {
        "function": source.shown,
        "directory": directory,
        "profile_mode": view.options.profile_mode,
    }
