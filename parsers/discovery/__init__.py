"""Find the files of a directory, identify each, and group traces into captures."""
