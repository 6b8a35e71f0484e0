"""Tables with columns that are known only later: patients, pupils, calls, voices."""

from lupi.datasets.files import checked_file, data_folder

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


def load_research_table(name, root=None, *, verify=True):
    """Load one of four published tables with natural privileged columns.

    Parameters
    ----------
    name : {"support2", "parkinsons", "bank_marketing", "student_performance"}
        - support2: death in hospital from values at admission; privileged: length of stay, costs, doctors' estimates.
        - parkinsons: ill or not from voice measures; privileged: nonlinear measures. Several recordings of a person.
        - bank_marketing: subscription after a call; privileged: its duration.
        - student_performance: final grade (0 to 20) from background; privileged: earlier grades.
    root : path-like, optional
        Folder of the file; by default the folder `name` in the one that LUPI_DATA names.
    verify : bool, default=True
        Whether the file is compared with its known SHA-256.

    Returns
    -------
    Bunch
        Data frames `data` and `privileged` (words and gaps as in the file), `target`, `groups` (the person, or None), the
        names of the columns, and `DESCR`.

    Examples
    --------
    >>> from lupi.datasets import load_research_table
    >>> load_research_table("support2", "/no/such/folder")
    Traceback (most recent call last):
    FileNotFoundError: there is no folder /no/such/folder, where the data 'support2' were looked for.
    """
    import pandas as pd  # an optional dependency, as in scikit-learn
    from sklearn.utils import Bunch

    if name not in TABLES:
        raise ValueError(f"`name` is {name!r}, but must be one of {', '.join(TABLES)}.")
    file, digest, target, privileged, dropped, group = TABLES[name]
    path = checked_file(data_folder(root, name), file, digest, verify)
    with path.open(encoding="utf-8") as opened:
        separator = max(",;", key=opened.readline().count)
    table = pd.read_csv(path, sep=separator)
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
