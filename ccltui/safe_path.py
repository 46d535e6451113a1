"""Remove the working directory from the module search path, here and in child processes.

It is often a directory of traces, which another user may have written: a ``threading.py`` in it
must never run. Python puts it first on the path of ``python -m`` and ``python -c``, and
multiprocessing starts its children by the latter.

Only modules that the interpreter has already loaded are imported here: other imports would search
the working directory. Imports that Python does before any code of ccltui cannot be prevented here:
``./ccltui`` by ``python -m ccltui``, and start-up modules like ``sitecustomize`` where an entry of
PYTHONPATH is empty or relative. ``python -P -m ccltui`` and absolute entries prevent both.
"""

import os
import sys

_SAFE_PATH = "PYTHONSAFEPATH"
_SEARCH_PATH = "PYTHONPATH"


def leave_working_directory() -> None:
    """Prevent imports from the working directory, in this process and in those started later.

    Absolute entries of PYTHONPATH stay, because users list their installed packages there.
    """
    os.environ[_SAFE_PATH] = "1"
    unwanted = {"", os.curdir, *_relative_entries()}
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    first = sys.path[0] if sys.path and not sys.flags.safe_path else None
    ran_from = first is not None and first == _working_directory()
    sys.path[:] = [
        entry
        for at, entry in enumerate(sys.path)
        if entry not in unwanted and not (at == 0 and ran_from)
    ]
    if ran_from and first == home:  # a checkout that is not installed: last on the path
        sys.path.append(home)


def require_safe_children() -> None:
    """Restart this command with ``-P`` if Python ignores the environment (``-E``).

    Its child processes would ignore PYTHONSAFEPATH too.
    """
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        os.execv(sys.executable, [sys.executable, "-P", *sys.orig_argv[1:]])


def _relative_entries() -> set[str]:
    """Path entries from relative entries of PYTHONPATH; children get the absolute ones."""
    stated = os.environ.get(_SEARCH_PATH, "")
    if not stated or sys.flags.ignore_environment:
        return set()
    entries = stated.split(os.pathsep)
    kept = [entry for entry in entries if os.path.isabs(entry)]  # noqa: PTH117
    left_out = {entry for entry in entries if entry not in kept}
    if left_out and kept:
        os.environ[_SEARCH_PATH] = os.pathsep.join(kept)
    elif left_out:
        del os.environ[_SEARCH_PATH]
    here = _working_directory()
    if here is None:
        return left_out
    # Python has made them absolute.
    places = {os.path.normpath(os.path.join(here, entry)) for entry in left_out}  # noqa: PTH118
    return left_out | places.difference(kept)


def _working_directory() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:  # it was removed
        return None
