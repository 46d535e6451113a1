"""Join the calls of different ranks: match them, put them on one clock, compare arrivals."""
