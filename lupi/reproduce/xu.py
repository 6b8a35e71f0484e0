"""Xu et al. (2016): SVM2+ on pictures with class texts."""

from lupi.reproduce._entry import Entry

_NETWORK = (
    "it used 4096 network features of pictures and texts that cannot be had here; nothing is made up in their place"
)
ENTRIES = tuple(Entry(f"xu-table{k}", f"Xu et al. 2016, Table {k}", "-", missing=_NETWORK) for k in (2, 3, 4))
