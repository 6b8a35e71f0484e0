"""Celik et al. (2015): the quadratic program of SVM+."""

from lupi.reproduce._entry import Entry

ENTRIES = (
    Entry(
        "celik-qp",
        "Celik et al. 2015, the quadratic program",
        "none",
        missing="not written yet; `lupi bench` compares SVM+ with general QP solvers",
    ),
)
