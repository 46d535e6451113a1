"""Jobs of many ranks: simulator and texts for all ranks that run the same program at once.

One pass over the program of a pipeline stage computes the times of all its ranks as arrays, and one
text, made by the writer of small jobs, is filled with the numbers of each rank. The files are byte
for byte those that ``ccltui.demo.build`` makes.
"""

from ccltui.demo.scale.large_spec import DEFAULT_MEGABYTES, large_spec
from ccltui.demo.scale.write_large import write_large

__all__ = ["DEFAULT_MEGABYTES", "large_spec", "write_large"]
