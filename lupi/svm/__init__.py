"""Kernel machines: estimators, their dual and primal problems, and the solvers of these."""
