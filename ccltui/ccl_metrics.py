"""``python -m ccltui.ccl_metrics``: the command ``ccl-metrics``."""

# This import takes the working directory off the path on which modules are found.
from ccltui.__main__ import run_ccl_metrics

if __name__ == "__main__":
    run_ccl_metrics()
