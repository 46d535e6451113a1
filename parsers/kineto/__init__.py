"""Read Kineto traces: any valid Chrome-trace JSON, as a stream of events, into columns.

`parsers.text.compression` gives the bytes; `trace_document` cuts them into events, `json_text`
decodes them (`scanner` does both in compiled code), `tables` holds their rows, `rank_builder` fills
the columns of a rank, and `kineto_reader` runs it all.
"""

PARSER_VERSION = 6
"""Raised whenever the same bytes would give other columns: stored columns become invalid.

Here, because who finds columns in the store needs no reader.
"""
