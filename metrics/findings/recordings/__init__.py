"""The answer for each kind of recording: devices, hosts, logs, printed totals, several captures."""
