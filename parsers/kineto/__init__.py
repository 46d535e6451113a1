"""Kineto: any valid Chrome-trace JSON, as streams of events, into the columns.

Bytes come from :mod:`parsers.compression`; ``document`` cuts them into events, ``event``
types them, ``builder`` fills the columns, ``collectives`` joins what the profiler wrote
about communication, ``reader`` is the whole.
"""

from parsers.kineto.reader import read_kineto

__all__ = ["read_kineto"]
