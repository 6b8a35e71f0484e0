"""Units of work: where they run (`units`, `workers`), where results are kept and what they depend on (`store`)."""
