"""What this machine offers to ccltui, without any trace: ``doctor --environment`` and ``--bundle``.

This module imports the standard library only, so that the checks work where nothing else is
installed, and report that. Installed packages that add metrics, formats, panes or writers are
loaded only where there are any.

A report of a mistake needs the lines of ``--version --verbose``, or a zip file to attach: for these
only metadata and names of files are read, and nothing is imported to find a version. The file holds
no text of traces: files of a directory are counted by kind with their sizes, and paths of the
user's home are shortened. ``with_names`` adds the names of files and what is wrong with them.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import io
import json
import os
import platform
import re
import resource
import shlex
import shutil
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ccltui import __version__, slow_path
from ccltui.config import default_path
from ccltui.parsers import machine_limits
from ccltui.parsers.numbers import decimal_size
from ccltui.parsers.plug_ins import WRITERS, Skipped, by_distribution, contents
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.report.crash_report import crash_reports

if TYPE_CHECKING:
    from ccltui.parsers.job import Job

State = Literal["ok", "warning", "problem"]

REQUIRED: Final[Mapping[str, str]] = {
    "numpy": "numpy",
    "msgspec": "msgspec",
    "orjson": "orjson",
    "pyyaml": "yaml",
    "isal": "isal",
    "zstandard": "zstandard",
    "textual": "textual",
    "rich": "rich",
    "jinja2": "jinja2",
}
"""Required distributions, and the module of each."""
_STANDARD_SINCE: Final[Mapping[str, tuple[int, int]]] = {"zstandard": (3, 14)}
"""Distributions that Python itself replaces from a version on."""
OPTIONAL: Final[Mapping[str, tuple[str, str, str]]] = {
    "pyarrow": ("pyarrow", "arrow", "Parquet and Arrow exports of nsys cannot be read"),
    "prometheus-client": (
        "prometheus_client",
        "openmetrics",
        "--format openmetrics is unavailable",
    ),
    "mcp": ("mcp", "mcp", "ccltui serve-mcp is unavailable"),
    "distributed": ("distributed", "dask", "ccltui index --engine dask is unavailable"),
    "dask-jobqueue": (
        "dask_jobqueue",
        "dask",
        "ccltui index --engine dask cannot ask Slurm for workers",
    ),
    "textual-serve": ("textual_serve", "serve", "--serve is unavailable"),
}
"""Optional distributions: module, extra of ccltui, and what is missing without it."""
_OLDEST_PYTHON: Final = (3, 11)
_FEW_DESCRIPTORS: Final = 256
_LITTLE_MEMORY: Final = 1 << 30
_SMALL_TERMINAL: Final = (80, 24)
_UNLIMITED: Final = 1 << 59
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)\s*(?P<versions>[^;\[]*?)\s*(?:;|$)")
_LEAST = re.compile(r">=\s*([\d.]+)")
_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class EnvironmentFinding:
    """Outcome of one check: one sentence, and one on what to do, "" where nothing is to be done."""

    check: str
    state: State
    message: str
    fix: str = ""


def environment_findings() -> tuple[EnvironmentFinding, ...]:
    """Return the findings of all checks; a check that fails is a finding itself."""
    found: list[EnvironmentFinding] = []
    for check in _CHECKS:
        try:
            found += check()
        except Exception as error:
            name = check.__name__.strip("_").replace("_", " ")
            found.append(
                EnvironmentFinding(name, "problem", f"{type(error).__name__}: {error}", _REPORT)
            )
    return tuple(found)


_REPORT: Final = "please report it with this table"


def _program() -> list[EnvironmentFinding]:
    place = Path(__file__).resolve().parents[1]
    return [EnvironmentFinding("ccltui", "ok", f"{__version__} in {place}")]


def _python() -> list[EnvironmentFinding]:
    version = platform.python_version()
    text = f"{version} ({platform.python_implementation()}), {sys.executable}, {_system()}"
    if sys.version_info >= _OLDEST_PYTHON:
        return [EnvironmentFinding("python", "ok", text)]
    fix = "use Python 3.11 or newer: module avail python, or conda create -n ccltui python=3.12"
    return [EnvironmentFinding("python", "problem", text, fix)]


def _system() -> str:
    return f"{platform.system()} {platform.machine()}"


def _packages() -> list[EnvironmentFinding]:
    required = [_required(name, module) for name, module in REQUIRED.items() if is_required(name)]
    return required + [_optional(name, *rest) for name, rest in OPTIONAL.items()]


def is_required(name: str) -> bool:
    """Whether this Python needs a distribution of `REQUIRED`."""
    return sys.version_info < _STANDARD_SINCE.get(name, (sys.version_info.major + 1,))


def _required(name: str, module: str) -> EnvironmentFinding:
    problem = _import_problem(module)
    version = version_of(name)
    needed = _needed(name)
    fix = f"run: {_pip()} --upgrade {shlex.quote(name + needed)}"
    if problem is None and version is not None and _is_older(version, needed):
        text = f"{version}; ccltui needs {name}{needed}"
        return EnvironmentFinding(name, "problem", text, fix)
    if problem is None:
        return EnvironmentFinding(name, "ok", version or "imported; its version is unknown")
    if version is None:
        return EnvironmentFinding(name, "problem", f"not installed ({problem})", fix)
    return EnvironmentFinding(name, "problem", f"{version} cannot be imported: {problem}", fix)


def _optional(name: str, module: str, extra: str, consequence: str) -> EnvironmentFinding:
    if version_of(name) is None:
        fix = f"if it is needed, run: {_pip()} {name}  (the extra ccltui[{extra}])"
        return EnvironmentFinding(name, "ok", f"not installed: {consequence}", fix)
    problem = _import_problem(module)
    if problem is None:
        return EnvironmentFinding(name, "ok", version_of(name) or "")
    return EnvironmentFinding(name, "warning", f"cannot be imported: {problem}: {consequence}")


def version_of(distribution: str) -> str | None:
    """Installed version of a distribution; None where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _needed(name: str) -> str:
    """Versions of a distribution that ccltui requires, as in ``>=2.0``; "" where it states none."""
    try:
        required = importlib.metadata.requires("ccltui") or []
    except importlib.metadata.PackageNotFoundError:  # a checkout that is not installed
        return ""
    for text in required:
        match = _REQUIREMENT.match(text)
        if match is not None and match["name"].lower() == name:
            return match["versions"]
    return ""


def _is_older(version: str, needed: str) -> bool:
    """Whether a version is below the least one of a requirement."""
    least = _LEAST.search(needed)
    return least is not None and _parts(version) < _parts(least[1])


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, _NUMBERS.findall(version)[:3]))


def _import_problem(module: str) -> str | None:
    try:
        importlib.import_module(module)
    except Exception as error:  # a library that is built for another machine may raise anything
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return None


def _pip() -> str:
    """Command that installs a package where this Python looks for it."""
    user = "" if _can_install() else "--user "
    return f"{shlex.quote(sys.executable)} -m pip install {user}".rstrip()


def _can_install() -> bool:
    return sys.prefix != sys.base_prefix or os.access(sysconfig.get_path("purelib"), os.W_OK)


def _compiled_modules() -> list[EnvironmentFinding]:
    check = "compiled modules"
    total = len(slow_path.EVERY)
    if not machine_limits.wants_compiled_code():
        return [
            EnvironmentFinding(
                check,
                "warning",
                "turned off by CCLTUI_ACCEL=0; the slower path gives the same numbers",
                "unset CCLTUI_ACCEL",
            )
        ]
    reasons = {name: why for name in slow_path.EVERY if (why := _absence(name)) is not None}
    if not reasons:
        return [EnvironmentFinding(check, "ok", f"all {total}: the fast path is used")]
    count = f"{total - len(reasons)} of {total}: the slower path is used, with the same numbers"
    rows = [EnvironmentFinding(check, "warning", count, _way_to_compile())]
    return rows + [
        EnvironmentFinding(name.removeprefix("ccltui."), "warning", why)
        for name, why in reasons.items()
    ]


def _absence(name: str) -> str | None:
    """Why a compiled module is not in use, None where it is."""
    problem = _import_problem(name)
    if problem is None:
        return None
    folder, stem = Path(__file__).resolve().parents[1], name.rpartition(".")[2]
    for part in name.split(".")[1:-1]:
        folder /= part
    built = sorted(file.name for file in folder.glob(f"{stem}*.so"))
    usable = [stem + suffix for suffix in importlib.machinery.EXTENSION_SUFFIXES]
    if not built:
        return "not built: there was no C compiler, or it failed, when ccltui was installed"
    if not set(built) & set(usable):
        return f"built for another Python or machine: {', '.join(built)}"
    return f"cannot be loaded: {problem}"


def _way_to_compile() -> str:
    """What is missing to compile the modules here, and the command that does it."""
    missing = []
    if _compiler() is None:
        missing.append("install a C compiler (on a cluster: module load gcc)")
    include = sysconfig.get_path("include")
    if include is None or not Path(include, "Python.h").is_file():
        missing.append("install the headers of Python (python3-dev or python3-devel)")
    command = f"run: {slow_path.install_command()}"
    return f"{' and '.join(missing)}, then {command}" if missing else command


def _compiler() -> str | None:
    stated = os.environ.get("CC", "").split()
    names = [*stated[:1], "cc", "gcc", "clang"]
    return next((found for name in names if (found := shutil.which(name)) is not None), None)


def _terminal() -> list[EnvironmentFinding]:
    name, encoding = os.environ.get("TERM", ""), getattr(sys.__stderr__, "encoding", None) or ""
    facts = [f"TERM={name or 'not set'}"]
    facts += [f"{key}={os.environ[key]}" for key in ("COLORTERM", "NO_COLOR") if key in os.environ]
    facts += [key.lower() for key in ("TMUX", "STY") if os.environ.get(key)]
    facts.append(f"encoding {encoding or 'unknown'}")
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        facts.append(
            "input or output is no terminal: metrics are printed, the explorer is not opened"
        )
        return [EnvironmentFinding("terminal", "ok", ", ".join(facts))]
    size = os.get_terminal_size(sys.stdout.fileno())
    facts.append(f"{size.columns} columns, {size.lines} lines")
    problem, fix = _terminal_problem(name, encoding, (size.columns, size.lines))
    text = ", ".join([*facts, *([problem] if problem else [])])
    return [EnvironmentFinding("terminal", "warning" if problem else "ok", text, fix)]


def _terminal_problem(name: str, encoding: str, size: tuple[int, int]) -> tuple[str, str]:
    if name in ("", "dumb"):
        return "it cannot place a cursor", "run in a terminal, or use --metric"
    if size[0] < _SMALL_TERMINAL[0] or size[1] < _SMALL_TERMINAL[1]:
        return "it is small", "enlarge it to 80 columns and 24 lines or more"
    if not encoding.lower().startswith("utf"):
        return "drawn with ASCII characters", "set a UTF-8 locale: export LC_ALL=C.UTF-8"
    return "", ""


def _cache() -> list[EnvironmentFinding]:
    place = default_cache_dir()
    problem = write_problem(place)
    temporary = Path(tempfile.gettempdir())
    rows = []
    if problem is None:
        rows.append(EnvironmentFinding("cache", "ok", f"{place}, {_free(place)}"))
    else:
        text = (
            f"{place} cannot be written ({problem}): columns go to {temporary} and are removed "
            "afterwards"
        )
        fix = "set CCLTUI_STORE or --store to a folder of yours, for example on $SCRATCH"
        rows.append(EnvironmentFinding("cache", "warning", text, fix))
    problem = write_problem(temporary)
    if problem is None:
        rows.append(EnvironmentFinding("temporary files", "ok", f"{temporary}, {_free(temporary)}"))
    else:
        fix = "set TMPDIR to a folder of yours"
        text = f"{temporary} cannot be written ({problem})"
        rows.append(EnvironmentFinding("temporary files", "problem", text, fix))
    return rows


def write_problem(folder: Path) -> str | None:
    """Why no file can be written in a folder that may have to be made; None where it can be.

    Nothing is left behind: a folder that does not exist is checked through its nearest parent.
    """
    try:
        while not folder.exists():
            if folder.parent == folder:
                return "no such folder"
            folder = folder.parent
        if not folder.is_dir():
            return f"{folder} is no folder"
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _free(folder: Path) -> str:
    while not folder.exists():
        folder = folder.parent
    return f"{decimal_size(shutil.disk_usage(folder).free)} free"


def _limits() -> list[EnvironmentFinding]:
    return [_descriptors(), _memory(), _cpus()]


def _descriptors() -> EnvironmentFinding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{_limit(soft)} open files (ulimit -n), at most {_limit(hard)}"
    if 0 <= soft < _FEW_DESCRIPTORS:
        return EnvironmentFinding("descriptors", "warning", text, f"run: ulimit -n {_limit(hard)}")
    return EnvironmentFinding("descriptors", "ok", text)


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def _memory() -> EnvironmentFinding:
    available = machine_limits.available_memory()
    address, _ = resource.getrlimit(resource.RLIMIT_AS)
    facts = [f"{decimal_size(available)} available" if available < _UNLIMITED else "unknown"]
    if address != resource.RLIM_INFINITY:
        facts.append(f"address space limited to {decimal_size(address)} (ulimit -v)")
        available = min(available, address)
    text = ", ".join(facts)
    if available < _LITTLE_MEMORY:
        fix = "run on a compute node (srun --pty, or sbatch/analysis/submit.sh), with --jobs 1"
        return EnvironmentFinding("memory", "warning", text, fix)
    return EnvironmentFinding("memory", "ok", text)


def _cpus() -> EnvironmentFinding:
    allowed = machine_limits.allowed_cpus()
    workers = min(allowed, machine_limits.MAX_WORKERS)
    text = f"{allowed} of {os.cpu_count() or 1} may be used: up to {workers} worker processes"
    return EnvironmentFinding("CPUs", "ok", text)


def _nsys() -> list[EnvironmentFinding]:
    stated = os.environ.get("CCLTUI_NSYS")
    # As where reports are exported: a relative entry of PATH could name a file beside the traces.
    entries = [
        one for one in os.environ.get("PATH", "").split(os.pathsep) if Path(one).is_absolute()
    ]
    found = shutil.which(stated or "nsys", path=os.pathsep.join(entries))
    if found is not None:
        return [EnvironmentFinding("nsys", "ok", f"{found} exports .nsys-rep files")]
    fix = "set CCLTUI_NSYS, or export them elsewhere: nsys export --type sqlite FILE.nsys-rep"
    if stated:
        text = f"CCLTUI_NSYS={stated} is no program"
        return [EnvironmentFinding("nsys", "warning", text, fix)]
    text = "not on PATH: .nsys-rep files cannot be exported, .sqlite and text can be read"
    return [EnvironmentFinding("nsys", "ok", text, fix)]


def _plug_ins() -> list[EnvironmentFinding]:
    """Check all packages. Metrics, formats and writers are loaded; panes are only listed."""
    packages = by_distribution()
    if not packages:
        return []
    from ccltui.metrics import registry  # noqa: PLC0415  (numpy)
    from ccltui.parsers.formats import plug_in_problems  # noqa: PLC0415  (msgspec)
    from ccltui.report.writers import plugged_writer  # noqa: PLC0415  (msgspec)

    problems = [*(one.text for one in registry.broken()), *plug_in_problems()]
    rows = []
    for name, entries in packages.items():
        found = [text for text in problems if f" of {name} is skipped" in text]
        writers = (plugged_writer(one) for one in entries if one.group == WRITERS)
        found += [one.text for one in writers if isinstance(one, Skipped)]
        text = "; ".join((contents(entries), *found))
        package = shlex.quote(name.split()[0])
        remove = f"update it, or run: {shlex.quote(sys.executable)} -m pip uninstall {package}"
        state: State = "problem" if found else "ok"
        rows.append(EnvironmentFinding(f"plug-in {name}", state, text, remove if found else ""))
    return rows


_CHECKS: Final[tuple[Callable[[], list[EnvironmentFinding]], ...]] = (
    _program,
    _python,
    _packages,
    _compiled_modules,
    _terminal,
    _cache,
    _limits,
    _nsys,
    _plug_ins,
)


_ROOT = Path(__file__).resolve().parents[1]


def version_details() -> list[str]:
    """Return one line for each fact: its name, padded, and the fact."""
    required = [name for name in REQUIRED if is_required(name)]
    libc = " ".join(platform.libc_ver()).strip() or "libc unknown"
    facts = {
        "installed in": str(_ROOT),
        "python": f"{platform.python_version()} ({platform.python_implementation()}), "
        f"{sys.executable}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}, {libc}",
        "packages": _versions(required),
        "optional": _versions(list(OPTIONAL)),
        "compiled": _compiled(),
        "store": str(default_cache_dir()),
        "settings": _with_presence(default_path()),
        "crash reports": f"{len(crash_reports())} in the store's folder",
        "to report": "ccltui doctor --bundle FILE.zip writes a file to attach",
    }
    return [f"{name:<14} {fact}" for name, fact in facts.items()]


def _versions(names: list[str]) -> str:
    found = ((name, version_of(name)) for name in names)
    return ", ".join(f"{name} {version or 'not installed'}" for name, version in found)


def _compiled() -> str:
    """Which compiled modules have a file that this Python would load."""
    absent = [name for name in slow_path.EVERY if not _is_built(name)]
    count = f"{len(slow_path.EVERY) - len(absent)} of {len(slow_path.EVERY)} modules"
    names = ", ".join(name.removeprefix("ccltui.") for name in absent)
    text = f"{count}; not built: {names}" if absent else count
    return text if machine_limits.wants_compiled_code() else f"{text}; turned off by CCLTUI_ACCEL=0"


def _is_built(name: str) -> bool:
    stem = _ROOT.joinpath(*name.split(".")[1:])
    suffixes = importlib.machinery.EXTENSION_SUFFIXES
    return any(stem.with_name(stem.name + suffix).is_file() for suffix in suffixes)


def _with_presence(path: Path) -> str:
    return str(path) if path.is_file() else f"{path} (absent)"


_MOST_BYTES: Final = 1 << 20
"""Of one crash report; a longer one is none of ours."""


def bundle_bytes(job: Job | None, *, with_names: bool) -> tuple[bytes, list[str]]:
    """Return the zip file and the names of what is in it.

    Args:
        job: The job of a directory, discovered; None for this machine alone.
        with_names: Whether names of files, and problems that quote them, may be in it.
    """
    parts = {"environment.json": _json({"environment": _environment()})}
    if job is not None:
        parts["files.json"] = _json(_files(job, with_names=with_names))
    for path in crash_reports():
        try:
            if path.stat().st_size <= _MOST_BYTES:
                parts[path.name] = path.read_bytes()
        except OSError:
            continue
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return target.getvalue(), list(parts)


def _json(document: object) -> bytes:
    return f"{json.dumps(document, indent=1)}\n".encode()


def _environment() -> list[dict[str, str]]:
    return [
        {"check": one.check, "state": one.state, "message": _without_home(one.message)}
        for one in environment_findings()
    ]


def _without_home(text: str) -> str:
    try:
        home = str(Path.home())
    except RuntimeError:  # no HOME and no entry in the password file
        return text
    return text.replace(home, "~") if len(home) > 1 else text


def _files(job: Job, *, with_names: bool) -> dict[str, Any]:
    files = []
    for found in job.discovery.files:
        entry: dict[str, Any] = {
            "kind": found.kind,
            "compression": found.compression,
            "size_bytes": found.size_bytes,
            "rank": found.rank,
            "rank_source": found.rank_source,
            "opened": found in job.capture.files,
            "repeats_another": found.duplicate_of is not None,
            "has_problem": found.problem is not None,
        }
        if with_names:
            entry |= {"path": found.path, "problem": found.problem}
        files.append(entry)
    notes: list[dict[str, Any]] = [{"code": note.code, "count": note.count} for note in job.notes]
    if with_names:
        notes = [
            {**entry, "message": note.message} for entry, note in zip(notes, job.notes, strict=True)
        ]
    return {"num_captures": len(job.discovery.captures), "files": files, "notes": notes}
