"""An explorer of a job in memory as a program, for tests that drive a real terminal.

``python fake_app.py slim|plain|FILE [RANKS] [COLLECTIVES A STEP]``; with a FILE the driver is
the slim one, and what the plain one would have sent goes to the file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    os.environ["TEXTUAL_COLOR_SYSTEM"] = "256"
    from fakes import FakeLoad, Plan, literal_analyst

    from ccltui.tui.options import ExplorerOptions
    from ccltui.tui.start import prepare_environment, run_until_left
    from ccltui.tui.terminal.driver import SlimDriver

    options = ExplorerOptions(color="256")
    prepare_environment(options)
    from ccltui.tui.app import Explorer

    driver, *sizes = sys.argv[1:]
    ranks, per_step = (*map(int, sizes), 8, 14)[:2] if sizes else (8, 14)

    class Twice(SlimDriver):
        """Keeps the whole stream beside the slim one."""

        def write(self, data: str) -> None:
            with Path(driver).open("ab") as file:
                file.write(data.encode())
            super().write(data)

    app = Explorer(
        "/nowhere/run-0421",
        options,
        {"slim": SlimDriver, "plain": None}.get(driver, Twice),
        FakeLoad(Plan(ranks=ranks, per_step=per_step)),
        literal_analyst,
    )
    sys.exit(run_until_left(app, mouse=False))
