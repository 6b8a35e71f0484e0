"""Tables with columns that are known only later: patients, pupils, calls, voices, wages, storms."""

from __future__ import annotations

from os import PathLike

from sklearn.utils import Bunch

from experiments.data_files import checked_file, data_folder

# name -> file, SHA-256, target, privileged columns, columns left out (they leak or identify), column of groups
TABLES = {
    "support2": (
        "support2.csv",
        "0e1c2000cabaf927098f776ec335ea9f1ff31f37820f054ba039ad428489966d",
        "hospdead",
        ["slos", "charges", "totcst", "totmcst", "avtisst", "surv2m", "surv6m", "prg2m", "prg6m", "dnr", "dnrday"],
        ["Index", "death", "d.time", "sfdm2"],
        None,
    ),
    "parkinsons": (
        "parkinsons.data",
        "742c51c827d62e5d6b2dc8c092ce48fe275d932d8c651752436b681ab903341d",
        "status",
        ["RPDE", "DFA", "spread1", "spread2", "D2", "PPE"],
        ["name"],
        "name",
    ),
    "bank_marketing": (
        "bank-additional.csv",
        "e71826c3e6d8bd64097ca3ff6230bf60eec5d4b1eb157607a8d54958220854e8",
        "y",
        ["duration"],
        [],
        None,
    ),
    "student_performance": (
        "student-por.csv",
        "af1195377c98f0847ff8355ca49763dc2ea8045916b0ebffb154e7edfdea7ad9",
        "G3",
        ["G1", "G2"],
        [],
        None,
    ),
}

# Ready tables of one folder: x... known at the start, z... measured in between, y the target. name -> SHA-256
FOLLOWUP = {
    "wagepan": "da78eef5e16c0f4fdd2a021ffcff6c1c99d4e7a421be7a7b6d066a8154b3eba0",
    "card": "46346c5d2a29d3e41cac5f4769cfdacaf8e18ae243cf876332439ba171f17db2",
    "star": "3ebc6815384eb78c8eb0c4558c7446de5e6a9027ced05a2099abb7fe8b33779c",
    "econmath": "59b6cea707ff1239f542dd15f5e1d4281fe345b42f6f43ae24db00ac9aa489c9",
    "rotterdam": "6c3c0898d0f4aa4afacfbe0a3efc7d744efe17902d17bdd602df7d496139f74a",
    "storms": "7aef311f90338fe4909addc9b984202bc8267e009b7945e8d7be51bf3f59b47f",
    "opt": "4e278c81abed14d4d565ed0d202df98c2c0117afb4e60d7f349d434581908293",
}


def load_research_table(name: str, root: str | PathLike[str] | None = None, *, verify: bool = True) -> Bunch:
    """Load one of eleven published tables with natural privileged columns.

    Parameters
    ----------
    name : {"support2", "parkinsons", "bank_marketing", "student_performance", "wagepan", "card", "star", "econmath", \
"rotterdam", "storms", "opt"}
        - support2: death in hospital from values at admission; privileged: length of stay, costs, doctors' estimates.
        - parkinsons: ill or not from voice measures; privileged: nonlinear measures. Several recordings of a person.
        - bank_marketing: subscription after a call; privileged: its duration.
        - student_performance: final grade (0 to 20) from background; privileged: earlier grades.
        - wagepan: wage of 1987 from the record of 1980; privileged: wages and hours of the years between.
        - card: wage from background at 14; privileged: schooling, tests, experience.
        - star: score in grade 3 from kindergarten; privileged: scores in grades 1 and 2.
        - econmath: exam from the school record; privileged: effort and average during the course.
        - rotterdam: death by 8 years of women alive at 3 years; privileged: recurrence by then.
        - storms: stronger in 24 hours, from the last 24; privileged: the next 18 hours.
        - opt: birth weight from the first visit; privileged: later visits and the outcome of the pregnancy.
    root : path-like, optional
        Folder of the file; by default the folder `name` (`followup` for the last seven) in the one that LUPI_DATA names.
    verify : bool, default=True
        Whether the file is compared with its known SHA-256.

    Returns
    -------
    Bunch
        Data frames `data` and `privileged` (words and gaps as in the file), `target`, `groups` (the person, or None), the
        names of the columns, and `DESCR`.

    Examples
    --------
    >>> from experiments.data import load_research_table
    >>> load_research_table("support2", "/no/such/folder")
    Traceback (most recent call last):
    FileNotFoundError: there is no folder /no/such/folder, where the data 'support2' were looked for.
    """
    import pandas as pd  # an optional dependency, as in scikit-learn

    if name in FOLLOWUP:
        folder, file, digest, target = "followup", f"{name}.csv", FOLLOWUP[name], "y"
        privileged, dropped, group = None, list[str](), None
    elif name in TABLES:
        folder, (file, digest, target, privileged, dropped, group) = name, TABLES[name]
    else:
        raise ValueError(f"`name` is {name!r}, but must be one of {', '.join([*TABLES, *FOLLOWUP])}.")
    path = checked_file(data_folder(root, folder), file, digest, verify)
    with path.open(encoding="utf-8") as opened:
        separator = max(",;", key=opened.readline().count)
    table = pd.read_csv(path, sep=separator)
    if privileged is None:
        privileged = [c for c in table.columns if c.startswith("z")]
    # "phon_R01_S01_1" is the first recording of person S01.
    groups = None if group is None else table[group].str.rsplit("_", n=1).str[0].to_numpy()
    ordinary = [c for c in table.columns if c not in {target, *privileged, *dropped}]
    return Bunch(
        data=table[ordinary],
        privileged=table[privileged],
        target=table[target].to_numpy(),
        groups=groups,
        feature_names=ordinary,
        privileged_names=list(privileged),
        DESCR=f"{name}: {len(table)} rows; target {target}; privileged {', '.join(privileged)}; not used {', '.join(dropped)}.",
    )
