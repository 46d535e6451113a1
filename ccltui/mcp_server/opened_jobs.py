"""Jobs that the server has opened, the most recent ones kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, get_args

from ccltui.mcp_server.roots import Roots
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.job import (
    LoadSettings,
    ProfileMode,
    load_job,
    require_one_recording,
    start_job,
)
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.parsers.window import parse_ranks, parse_steps, parse_window

KEPT: Final = 4
"""Jobs kept open: a comparison needs two, and what follows it goes back to either."""


class OpenedJobs:
    """Views of whole jobs by path, capture and profiler."""

    def __init__(self, roots: Roots, cache_dir: Path | None) -> None:
        self._roots = roots
        self._cache_dir = cache_dir
        self._views: OrderedDict[tuple[str, str | None, str], View] = OrderedDict()

    def view(
        self, path: str, source: Mapping[str, Any], selection: Mapping[str, Any] | None = None
    ) -> View:
        """Return the view of a job, which is opened where it is not yet.

        Args:
            path: the directory or file, as the agent wrote it.
            source: ``capture`` and ``profile_mode``; what is absent is the default.
            selection: texts of ``steps``, ``ranks``, ``window`` and ``group``.

        Raises:
            TraceError: the path is refused, or holds nothing to open.
            GrammarError: a text of the selection does not follow its grammar.
        """
        options = view_options(selection or {})
        key = self._key(path, source)
        view = self._views.get(key)
        if view is None:
            view = self._opened(key)
        self._views[key] = view
        self._views.move_to_end(key)
        while len(self._views) > KEPT:
            self._views.popitem(last=False)
        return view.with_options(**options) if options else view

    def forget(self, path: str, source: Mapping[str, Any]) -> None:
        """Close a job, so that it is read again: its files may have grown."""
        self._views.pop(self._key(path, source), None)

    def _key(self, path: str, source: Mapping[str, Any]) -> tuple[str, str | None, str]:
        mode = source.get("profile_mode") or "auto"
        if mode not in get_args(ProfileMode):
            raise GrammarError(f"profile_mode is one of {', '.join(get_args(ProfileMode))}")
        return self._roots.resolved(path), source.get("capture"), mode

    def _opened(self, key: tuple[str, str | None, str]) -> View:
        path, capture, mode = key
        modes: dict[str, ProfileMode] = {name: name for name in get_args(ProfileMode)}
        store = default_cache_dir() if self._cache_dir is None else self._cache_dir
        job = start_job(path, capture=capture, profile_mode=modes[mode], store=store)
        if capture is None:
            require_one_recording(job, path)
        settings = LoadSettings(self._cache_dir, inline=True, for_other_processes=False)
        return View(load_job(job, settings), ViewOptions(profile_mode=modes[mode]))


def view_options(selection: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `ViewOptions` that texts of an agent set.

    Raises:
        GrammarError: a text does not follow the grammar that the commands have.
    """
    parse: dict[str, Callable[[str], object]] = {
        "steps": parse_steps,
        "ranks": parse_ranks,
        "window": parse_window,
        "group": str,
    }
    return {name: parse[name](text) for name, text in selection.items() if text}
