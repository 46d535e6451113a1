"""Textual has the private names that the explorer uses: a new version fails here first."""

from __future__ import annotations

import inspect

import pytest
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen

ATTRIBUTES = (
    "_clipboard",
    "_disable_notifications",
    "_disable_tooltips",
    "_driver",
    "_exception",
    "_exception_event",
    "_return_code",
)
METHODS = (
    (App, "_close_messages_no_wait"),
    (App, "_handle_exception"),
    (LinuxDriver, "_disable_mouse_support"),
    (LinuxDriver, "_enable_mouse_support"),
    (LinuxDriver, "_get_terminal_size"),
    (LinuxDriver, "run_input_thread"),
    (LinuxDriver, "start_application_mode"),
    (Screen, "_screen_resized"),
    (XTermParser, "_sequence_to_key_events"),
    (XTermParser, "parse_mouse_code"),
)


async def test_an_application_has_the_attributes_that_compat_sets() -> None:
    app: App[None] = App()

    assert [name for name in ATTRIBUTES if not hasattr(app, name)] == []


async def test_a_screen_has_the_size_that_it_was_laid_out_for() -> None:
    app: App[None] = App()
    async with app.run_test(size=(90, 30)):
        assert app.screen._size == (90, 30)


@pytest.mark.parametrize(("owner", "name"), METHODS)
def test_a_method_that_is_called_or_replaced_exists(owner: type, name: str) -> None:
    assert inspect.isfunction(getattr(owner, name, None))


def test_a_driver_is_made_with_the_arguments_that_ours_passes_on() -> None:
    assert {"app", "debug", "mouse", "size"} <= set(inspect.signature(Driver).parameters)
    assert set(inspect.signature(XTermParser._sequence_to_key_events).parameters) == {
        "self",
        "sequence",
        "alt",
    }
