"""Workload card: compare it with traces and configuration, merge it with what ran, draft one."""
