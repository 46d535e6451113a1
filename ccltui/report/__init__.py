"""Reports: write results as bytes, one writer per format over the same rows."""
