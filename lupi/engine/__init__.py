"""Units of work: where they run, and where their results are kept."""
