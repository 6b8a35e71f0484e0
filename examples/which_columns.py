"""Which privileged columns are worth collecting?

Follow-ups cost money. The later years of the young men come in four groups: schooling and experience, two tests, where
they lived, and whether they married. Each group is left out in turn, the model is fitted anew, and the loss on test men is
measured, split by split. Beside it stands what `explain()` says after one fit, without any test rows: how much
evidence for the teacher each column carries. Run it with

    python examples/which_columns.py
"""

import argparse

import numpy as np
from _protocol import mean_and_error
from sklearn.metrics import roc_auc_score

from lupi import SurrogateClassifier
from lupi.datasets import load_young_men

GROUPS = {
    "schooling and experience": ["schooling", "experience"],
    "two tests": ["work_test", "iq_test", "iq_test_known"],
    "where he lived": ["city_1976", "south_1976"],
    "married": ["married"],
}
N_LABELED, N_UNLABELED = 100, 1000


def fit(X, y, Z, seed):
    known = y.astype(float)
    known[N_LABELED:] = np.nan
    return SurrogateClassifier("ridge", random_state=seed).fit(X, known, privileged=Z)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="two splits")
    arguments = parser.parse_args()
    men = load_young_men(as_frame=True)
    X, y, Z = men.data.to_numpy(), men.target.to_numpy(), men.privileged
    scores = {name: [] for name in ("all columns", *GROUPS, "no column")}
    evidence = []
    for seed in range(2 if arguments.quick else arguments.splits):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = np.split(order, [N_LABELED + N_UNLABELED])
        kept = {"all columns": Z, **{name: Z.drop(columns=columns) for name, columns in GROUPS.items()}}
        models = {name: fit(X[train], y[train], table.iloc[train], seed) for name, table in kept.items()}
        labeled = train[:N_LABELED]
        models["no column"] = SurrogateClassifier("ridge", random_state=seed).fit(X[labeled], y[labeled])
        for name, model in models.items():
            scores[name].append(100 * roc_auc_score(y[test], model.decision_function(X[test])))
        evidence.append(models["all columns"].explain()["columns"])
    print(f"{'without':26}{'AUC x 100':>10}{'change':>18}")
    for name, values in scores.items():
        change, error = mean_and_error(np.subtract(values, scores["all columns"]))
        print(f"{name:26}{np.mean(values):10.2f}{change:+10.2f} +- {error:.2f}")
    print("\nlog-evidence that the teacher loses without a column, mean over the splits:")
    mean = {name: np.mean([found[name] for found in evidence]) for name in Z.columns}
    for name in sorted(mean, key=mean.get, reverse=True):
        print(f"{name:26}{mean[name]:10.2f}")


if __name__ == "__main__":
    main()
