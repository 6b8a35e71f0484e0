"""Sun et al. (2018) and Feyereisl et al. (2014): boxes around birds."""

from lupi.reproduce._entry import Entry

_STRUCTURED = "the estimators are here (lupi.tasks, JKSE, StructuralSVMPlus), but this run is not wired up yet"
ENTRIES = (
    Entry("sun-table2", "Sun et al. 2018, Table 2", "cub_200_2011", missing=_STRUCTURED),
    Entry("feyereisl-table1", "Feyereisl et al. 2014, Table 1 and Figure 2", "cub_200_2011", missing=_STRUCTURED),
)
