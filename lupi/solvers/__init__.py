"""How it is solved: one file a solver, one registry, one ``Solution``."""
