"""Kineto: any valid Chrome-trace JSON, as streams of events, into the columns.

Bytes come from :mod:`parsers.compression`; ``document`` cuts them into events, ``event``
types them, ``builder`` fills the columns, ``collectives`` joins what the profiler wrote
about communication, ``reader`` is the whole.
"""

PARSER_VERSION = 6
"""Raised whenever the same bytes would give other columns: stored columns become invalid.

Here, because who finds columns in the store needs no reader.
"""
