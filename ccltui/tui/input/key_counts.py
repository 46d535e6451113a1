"""A count before a key: how often its action is done.

Digits open panes, so a count begins with alt and a digit, as in the shell: ``alt+5 ]`` is the
fifth worst from here. In the command line a count is typed as it is: ``:5]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ccltui.tui.actions.action import Action, Effect

if TYPE_CHECKING:
    from ccltui.tui.state.scene import Scene

MOST: Final = 9999
_ALT: Final = "alt+"


def longer(count: str, key: str) -> str:
    """The count with a further digit; the empty text where the key is none."""
    digit = key.removeprefix(_ALT)
    began = bool(count) or key.startswith(_ALT)
    if not began or len(digit) != 1 or digit not in "0123456789":
        return ""
    return str(min(int(count + digit), MOST))


def repeated(action: Action, scene: Scene, times: int) -> tuple[Scene, str]:
    """The scene after an action was done up to so many times, and what stopped it before that.

    What asks or leaves is done by the application, once: its scene comes back as it is.
    """
    if isinstance(action.act, Effect):
        return scene, ""
    for done in range(times):
        why = action.why_not(scene)
        if why is not None:
            return scene, why if not done else f"{done:,} of {times:,}: {why}"
        state = action.act(scene)
        if state == scene.state:
            break
        scene = scene.with_state(state)
    return scene, ""
