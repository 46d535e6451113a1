"""Which kind of recording it is (`answer`), and the answer of each kind."""
