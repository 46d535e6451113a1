"""Why a job stands: what flight recorders, watchdogs and RAS say, and who did not arrive."""
