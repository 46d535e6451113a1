"""Our ``parsers`` and ``metrics``, whatever lies in the current directory or on PYTHONPATH.

The two names are generic: a user's ``metrics.py`` beside the traces would be imported in
their place. Binding puts our packages into ``sys.modules`` before anything asks for them.
:mod:`ccltui.safe_path` has taken the working directory off ``sys.path``; absolute entries of
PYTHONPATH stay there.

A spawned worker starts with the main module of its parent, except where that is a package's
``__main__``, as with ``python -m ccltui``: then it would import what lies on the path. The
commands therefore name :mod:`ccltui.worker` as the module that workers start with.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

GUARDED: Final = ("parsers", "metrics")
WORKER: Final = "ccltui.worker"


def bind(home: Path | None = None) -> None:
    """Make ``parsers`` and ``metrics`` the packages of ``home``, the folder that holds ccltui.

    A package of the same name that was imported before is dropped with its submodules.
    Raises ImportError when a package is not in ``home``.
    """
    home = home or Path(__file__).resolve().parent.parent
    for name in GUARDED:
        if not _is_bound(name, home):
            _forget(name)
            _import_from(name, home)


def bind_workers() -> None:
    """Let every worker that this process spawns from now on bind our packages first."""
    # multiprocessing asks the main module's specification what a worker has to import.
    sys.modules["__main__"].__spec__ = importlib.util.find_spec(WORKER)


def _is_bound(name: str, home: Path) -> bool:
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and Path(file).resolve() == (home / name / "__init__.py").resolve()


def _forget(name: str) -> None:
    for module in [key for key in sys.modules if key == name or key.startswith(f"{name}.")]:
        del sys.modules[module]


def _import_from(name: str, home: Path) -> ModuleType:
    folder = home / name
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None or not (folder / "__init__.py").is_file():
        raise ImportError(f"{folder}: the package {name} of ccltui is not there", name=name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        _forget(name)
        raise
    return module
