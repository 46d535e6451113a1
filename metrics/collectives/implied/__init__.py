"""Infer communicators and clocks of jobs whose traces name no communicator."""
