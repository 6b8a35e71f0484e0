"""Noisy labels: a follow-up that knows better.

A share of the training labels is wrong: the wrong class was written down. The later years of the young men do not
depend on the slip of the pen, so that a teacher who sees them gives every man a score with less noise than his label, and the
student learns the score. The test labels are right. Run it with

    python examples/noisy_labels.py
"""

import argparse

import numpy as np
from _protocol import mean_and_error
from sklearn.metrics import roc_auc_score

from lupi import SurrogateClassifier
from lupi.datasets import load_young_men

SHARES = (0.0, 0.1, 0.2, 0.3)
N_TRAIN = 300


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="two splits")
    arguments = parser.parse_args()
    X, y, Z = load_young_men(return_X_y_privileged=True)
    print(f"{'wrong labels':14}{'plain':>8}{'surrogate':>12}{'gain':>18}{'shuffled':>18}")
    for share in SHARES:
        scores = []
        for seed in range(2 if arguments.quick else arguments.splits):
            rng = np.random.default_rng(seed)
            train, test = np.split(rng.permutation(len(y)), [N_TRAIN])
            written = np.where(rng.random(N_TRAIN) < share, 1 - y[train], y[train])
            privileged = (None, Z[train], rng.permutation(Z[train]))
            models = [SurrogateClassifier("ridge").fit(X[train], written, privileged=part) for part in privileged]
            scores.append([100 * roc_auc_score(y[test], model.decision_function(X[test])) for model in models])
        plain, surrogate, shuffled = np.transpose(scores)
        gains = [mean_and_error(part - plain) for part in (surrogate, shuffled)]
        cells = "".join(f"{mean:+11.2f} +- {error:.2f}" for mean, error in gains)
        print(f"{f'{share:.0%}':14}{plain.mean():8.2f}{surrogate.mean():12.2f}{cells}")


if __name__ == "__main__":
    main()
