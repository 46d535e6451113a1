"""Command line, headless reports, drawing and explorer over the shared parsers and metrics."""

__version__ = "0.1.0"
