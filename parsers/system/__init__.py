"""Limits and services of this machine: memory, CPUs, compiled code."""
