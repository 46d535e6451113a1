"""Match calls of different ranks to collectives and transfers."""
