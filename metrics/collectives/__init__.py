"""Collectives across ranks: matching, clocks, stragglers, bandwidth."""
