"""Few labels, many follow-ups: what are men worth whose wage nobody asked for?

3010 young men: background at 14 decides, schooling, tests and experience of later years are privileged, the target is a
wage above the median (Card 1995, bundled). Here the wage of 60 men is known; of 1000 others, background and later years
only. `SurrogateClassifier` takes them as they are, with NaN in place of the label. Beside it stand plain learners on the
60 men, surrogate learning on the 60 men, and a control: the later years of other men. Run it with

    python examples/few_labels_many_followups.py
"""

import argparse

import numpy as np
from _protocol import mean_and_error
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lupi import SurrogateClassifier
from lupi.datasets import load_young_men

N_LABELED, N_UNLABELED = 60, 1000


def fit_all(X, y, Z, seed):
    """The methods by name, fitted: the first 60 rows have a label, the others do not."""
    labeled = slice(N_LABELED)
    known = y.astype(float)
    known[N_LABELED:] = np.nan
    others = np.random.default_rng(seed).permutation(Z)
    grid = {"logisticregression__C": np.logspace(-3, 1, 5)}
    logistic = GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), grid, cv=3, scoring="roc_auc")
    forest = RandomForestClassifier(200, min_samples_leaf=3, random_state=seed)
    surrogate = {"random_state": seed}
    return {
        "logistic regression": logistic.fit(X[labeled], y[labeled]),
        "random forest": forest.fit(X[labeled], y[labeled]),
        "plain student": SurrogateClassifier(**surrogate).fit(X[labeled], y[labeled]),
        "surrogate, 60 men": SurrogateClassifier(**surrogate).fit(X[labeled], y[labeled], privileged=Z[labeled]),
        "surrogate, 60 + 1000 men": SurrogateClassifier(**surrogate).fit(X, known, privileged=Z),
        "the same, shuffled": SurrogateClassifier(**surrogate).fit(X, known, privileged=others),
        "plain student, 1060 labels": SurrogateClassifier(**surrogate).fit(X, y),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="two splits")
    arguments = parser.parse_args()
    X, y, Z = load_young_men(return_X_y_privileged=True)
    scores = {}
    for seed in range(2 if arguments.quick else arguments.splits):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = np.split(order, [N_LABELED + N_UNLABELED])
        for name, model in fit_all(X[train], y[train], Z[train], seed).items():
            scores.setdefault(name, []).append(100 * roc_auc_score(y[test], model.predict_proba(X[test])[:, 1]))
    print(f"{'':28}{'AUC x 100':>16}{'over the plain student':>26}")
    for name, values in scores.items():
        mean, error = mean_and_error(values)
        gain, gain_error = mean_and_error(np.subtract(values, scores["plain student"]))
        print(f"{name:28}{mean:9.2f} +- {error:.2f}{gain:+18.2f} +- {gain_error:.2f}")


if __name__ == "__main__":
    main()
