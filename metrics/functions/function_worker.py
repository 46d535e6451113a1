"""Run one ``metric_cal`` in a process of its own, and write what it returns as JSON.

The process is started by `function_metric`. It writes to the descriptor of the request alone; what
the function prints goes to standard error. When the process that started it ends, however that
ends, standard input closes, and this process ends with all that it has started.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import math
import numbers
import os
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

_FUNCTION: Final = "metric_cal"
_DEEPEST: Final = 20


class _UnusableError(Exception):
    """The function or what it returned cannot be used; the message is the reason."""


def work(request: Mapping[str, Any]) -> None:
    """Run the function of a request and write the outcome."""
    output = int(request["output"])
    os.set_inheritable(output, False)
    _end_with_parent()
    outcome = _outcome(request)
    with open(output, "wb") as file:
        file.write(json.dumps(outcome, allow_nan=False).encode())
    sys.stdout.flush()
    os._exit(0)  # threads that the function has left would keep the process


def _end_with_parent() -> None:
    lifeline = os.dup(0)
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.close(devnull)

    def watch() -> None:
        while os.read(lifeline, 1):
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _outcome(request: Mapping[str, Any]) -> dict[str, Any]:
    sys.path.extend(path for path in request["search"] if path not in sys.path)
    sys.dont_write_bytecode = True
    try:
        function = _function(request["kind"], request["target"])
        takes_mode, arguments = _arguments(function, request)
        value = function(*arguments)
        not_finite: list[str] = []
        returned = _plain(value, "", not_finite, 0)
    except _UnusableError as error:
        return {"error": str(error)}
    except BaseException as error:
        if request["debug"]:
            traceback.print_exc()
        return {"error": _described(error, request)}
    return {"returned": returned, "not_finite": not_finite, "takes_mode": takes_mode}


def _function(kind: str, target: str) -> Callable[..., Any]:
    if kind == "installed":
        module, _, names = target.partition(":")
        found: Any = importlib.import_module(module)
        for name in filter(None, names.split(".")):
            found = getattr(found, name)
    else:
        path = Path(target)
        found = _of_folder(path) if kind == "folder" else _member(_loaded(path.stem, path))
    if not callable(found):
        raise _UnusableError(f"{_FUNCTION} is a {type(found).__name__}, not a function")
    result: Callable[..., Any] = found
    return result


def _of_folder(folder: Path) -> Any:
    """The function of a package: what its ``__init__`` exports, else that of NAME.py."""
    name, start = folder.name, folder / "__init__.py"
    if start.is_file():
        package = _loaded(name, start, search=str(folder))
        found = getattr(package, _FUNCTION, None)
        if callable(found):
            return found
    else:
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    return _member(importlib.import_module(f"{name}.{name}"))


def _loaded(name: str, file: Path, *, search: str | None = None) -> types.ModuleType:
    """Run a file as a module of a name that no library module has."""
    unique = name.replace("-", "_")
    if search is None and (unique in sys.modules or unique in sys.stdlib_module_names):
        unique += "_metric"
    places = None if search is None else [search]
    spec = importlib.util.spec_from_file_location(unique, file, submodule_search_locations=places)
    if spec is None or spec.loader is None:
        raise _UnusableError("it cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module
    spec.loader.exec_module(module)
    return module


def _member(module: types.ModuleType) -> Any:
    if not hasattr(module, _FUNCTION):
        raise _UnusableError(f"it defines no function {_FUNCTION}")
    return getattr(module, _FUNCTION)


def _arguments(
    function: Callable[..., Any], request: Mapping[str, Any]
) -> tuple[bool, tuple[str, ...]]:
    """Whether the function takes a profile mode, and its arguments.

    The older metrics of CCL-Bench take the directory alone.
    """
    both = (request["directory"], request["profile_mode"])
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin: try it
        return True, both
    for arguments in (both, both[:1]):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return len(arguments) == 2, arguments
    raise _UnusableError(f"{_FUNCTION}{signature} does not accept (directory, profile_mode)")


def _plain(value: Any, place: str, not_finite: list[str], depth: int) -> Any:
    """A value of JSON for a returned one; numbers that are not finite become None, and a place."""
    if value is None or isinstance(value, bool | str):
        return value
    value = _unboxed(value)
    if isinstance(value, int | bool | str):
        return value
    if isinstance(value, numbers.Real):
        return _finite(float(value), place, not_finite)
    if depth >= _DEEPEST:
        raise _UnusableError(f"returned values nested more than {_DEEPEST} deep at {_at(place)}")
    if isinstance(value, Mapping):
        return {
            _key(key, place): _plain(item, f"{place}.{key}", not_finite, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(v, f"{place}.{n}", not_finite, depth + 1) for n, v in enumerate(value)]
    raise _UnusableError(
        f"returned a {type(value).__name__} {_at(place)}; numbers, texts, lists and dictionaries "
        "of these are accepted"
    )


def _unboxed(value: Any) -> Any:
    """Arrays and scalars of numpy and torch as lists and numbers."""
    convert = getattr(value, "tolist", None)
    return convert() if callable(convert) and not isinstance(value, type) else value


def _finite(value: float, place: str, not_finite: list[str]) -> float | None:
    if math.isfinite(value):
        return value
    not_finite.append(place.lstrip(".") or "the value")
    return None


def _key(key: Any, place: str) -> str:
    plain = _unboxed(key)
    if isinstance(plain, str | int | float) or plain is None:
        return str(plain)
    raise _UnusableError(f"returned a key that is a {type(key).__name__} {_at(place)}")


def _at(place: str) -> str:
    return f"at {place.lstrip('.')}" if place else "as its value"


def _described(error: BaseException, request: Mapping[str, Any]) -> str:
    """Type, text and the innermost line of the user's own code."""
    text = " ".join(str(error).split())[:500]
    named = f"{type(error).__name__}: {text}" if text else type(error).__name__
    root = request["target"].partition(":")[0]
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(root)]
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"{named} (line {error.lineno})"
    return f"{named} (line {own[-1].lineno} of {Path(own[-1].filename).name})" if own else named
