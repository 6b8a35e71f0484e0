"""scikit-learn estimators, one family a file."""
