"""Surrogate learning: teachers see the privileged features, and students learn the teachers' calibrated scores from X."""
