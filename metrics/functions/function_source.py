"""Find functions ``metric_cal`` in files and folders without running any code of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from ccltui.parsers.errors import GrammarError

FUNCTION: Final = "metric_cal"
"""Name of the function, as in the metric tools of CCL-Bench."""
CHECKOUT_FOLDERS: Final = ("metrics", "tools")
"""Folders of a checkout that hold a folder for each metric."""
_MOST_BYTES: Final = 4_000_000
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
        if file.stat().st_size > _MOST_BYTES:
            return "", f"larger than {_MOST_BYTES:,} bytes"
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
