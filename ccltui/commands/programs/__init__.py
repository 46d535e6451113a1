"""Verbs for programs that use ccltui: the server for agents, the schemas of JSON outputs."""
