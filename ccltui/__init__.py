"""The command line, the reports, the drawing and the explorer over one core."""

__version__ = "0.1.0"
