"""Counts typed before a key: how often its action is repeated.

Digits open panes, so a count begins with alt and a digit, as in the shell: ``alt+5 ]`` goes to the
fifth worst collective from the cursor. In the command palette a count is typed as it is: ``:5]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ccltui.tui.actions.action import Action, Effect

if TYPE_CHECKING:
    from ccltui.tui.state.scene import Scene

MAX_COUNT: Final = 9999
_ALT: Final = "alt+"


def append_digit(count: str, key: str) -> str:
    """Return the count with one more digit, an empty text if the key is no digit."""
    digit = key.removeprefix(_ALT)
    began = bool(count) or key.startswith(_ALT)
    if not began or len(digit) != 1 or digit not in "0123456789":
        return ""
    return str(min(int(count + digit), MAX_COUNT))


def repeated(action: Action, scene: Scene, times: int) -> tuple[Scene, str]:
    """Repeat an action until it has been done ``times`` times, cannot act, or changes nothing.

    Returns:
        The scene after that, and why it stopped early, empty if it did not. An action with an
        `Effect` is left to the application, which performs it once: the scene is unchanged.
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
