"""Units of work: where they run (`units`, `workers`), where results are kept (`store`), what they depend on (`identity`)."""
