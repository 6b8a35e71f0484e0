"""Film reviews with the passages that an annotator found decisive."""

from __future__ import annotations

import json
from os import PathLike

import numpy as np
from sklearn.utils import Bunch

from experiments.data_files import checked_file, checked_files, data_folder
from lupi.datasets.annotations import FilesInside

_FILES = {
    "train.jsonl": "51df77ec6ed896e01f51924d5690d541a2f132b0f2cf41ece4fb85f352da712e",
    "test.jsonl": "40c0e4c095d6d1dc3bbf952515f7e68fe54ebf4d25400c9b656ee86c4f0e3a6f",
}
# Of the documents, in the order of these files.
_DOCUMENTS = "094f94e4c55328addc64b1944feaa2577410d8d34ff7b0b7a094d07453021bc9"
_LABELS = ("NEG", "POS")
_DESCR = """\
Film reviews with rationales (Zaidan, Eisner & Piatko 2007, in the layout of the ERASER benchmark)
--------------------------------------------------------------------------------------------------
{n} tokenized reviews, negative (0) or positive (1). Privileged: the passages that an annotator marked as reasons for the label,
joined to one text; empty where there is none. `part` is "train" (which contains ERASER's validation reviews) or "test"; the test
reviews were annotated in another way, with one long passage each.
"""


def load_movie_rationales(
    root: str | PathLike[str] | None = None, *, verify: bool = True, follow_links: bool = False
) -> Bunch:
    """Load film reviews with annotator rationales as texts.

    Parameters
    ----------
    root : path-like, optional
        Folder with `docs`, `train.jsonl` and `test.jsonl`; by default `movie_rationales` in the folder that LUPI_DATA names.
    verify : bool, default=True
        Whether the files are compared with their known SHA-256.
    follow_links : bool, default=False
        Whether names may lead out of the folder, by ``..``, as absolute paths or by symbolic links.

    Returns
    -------
    Bunch
        `data` and `privileged` (lists of str), `target`, `part` (array of str), `names` of the reviews, `target_names`, `DESCR`.

    Examples
    --------
    >>> from experiments.data import load_movie_rationales
    >>> load_movie_rationales("/no/such/folder")
    Traceback (most recent call last):
    FileNotFoundError: there is no folder /no/such/folder, where the data 'movie_rationales' were looked for.
    """
    folder = data_folder(root, "movie_rationales")
    texts, rationales, target, part, names, documents = [], [], [], [], [], []
    inside = FilesInside(folder, follow_links)
    for name, digest in _FILES.items():
        path = checked_file(folder, name, digest, verify)
        for k, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                row = json.loads(line)
                names.append(row["annotation_id"])
                target.append(_LABELS.index(row["classification"]))
                rationales.append("\n".join(span["text"] for group in row["evidences"] for span in group))
            except (ValueError, KeyError, TypeError) as problem:
                raise ValueError(
                    f"{path}, line {k}: expected a JSON object with annotation_id, classification (NEG or POS) and "
                    f"evidences ({type(problem).__name__}: {problem})."
                ) from None
            documents.append(inside("docs", str(names[-1]), path=path, line=k, part="annotation_id"))
            part.append(name.removesuffix(".jsonl"))
    for path in checked_files(documents, _DOCUMENTS, verify):
        texts.append(path.read_text(encoding="utf-8"))
    return Bunch(
        data=texts,
        privileged=rationales,
        target=np.array(target),
        part=np.array(part),
        names=names,
        target_names=list(_LABELS),
        DESCR=_DESCR.format(n=len(texts)),
    )
