"""Numbers of the second path of ``ccltui A B``; without one, what decodes them is not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ccltui.tui.state.compared import Compared, ComparedQuery
    from ccltui.tui.state.scene import Scene


def queries_of(scene: Scene) -> tuple[ComparedQuery, ...]:
    """Return the query for the numbers of B, none without a second path."""
    if scene.other is None:
        return ()
    from ccltui.tui.state.compared import query_of  # noqa: PLC0415  (rare)

    query = query_of(scene)
    return () if query is None else (query,)


def compared(scene: Scene) -> Compared | None:
    """Return the numbers of B under the filters of the view; None without a second path."""
    if scene.other is None:
        return None
    from ccltui.tui.state.compared import STILL, Compared, query_of  # noqa: PLC0415  (rare)

    found: Any = scene.answers.to(query_of(scene))
    return Compared(STILL) if found is None or found.answer is None else found.answer
