"""Reports: results to bytes, one writer a format over the same rows. No screen, no colour."""
