"""Who waits for whom: by lateness where calls match, by own times of ranks and links where not."""
