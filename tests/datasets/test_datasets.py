from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits

from lupi.datasets import load_breast_cancer_followup, load_digits_lowres, load_young_men, make_privileged

LOADERS = [
    load_digits_lowres,
    load_breast_cancer_followup,
    load_young_men,
    lambda **options: make_privileged(random_state=0, **options),
]


@pytest.mark.parametrize("load", LOADERS)
def test_bunch_is_complete_and_consistent(load):
    bunch = load()
    n = len(bunch.target)
    assert bunch.data.shape == (n, len(bunch.feature_names))
    assert bunch.privileged.shape == (n, len(bunch.privileged_names))
    assert set(bunch.target) == set(range(len(bunch.target_names)))
    assert str(n) in bunch.DESCR
    assert bunch.frame is None
    assert not set(bunch.feature_names) & set(bunch.privileged_names)


@pytest.mark.parametrize("load", LOADERS)
def test_frames_and_tuples_hold_the_same_values(load):
    bunch, framed = load(), load(as_frame=True)
    pd.testing.assert_frame_equal(framed.frame[bunch.feature_names], framed.data)
    pd.testing.assert_frame_equal(framed.frame[bunch.privileged_names], framed.privileged)
    pd.testing.assert_series_equal(framed.frame["target"], framed.target)
    np.testing.assert_array_equal(framed.data, bunch.data)
    np.testing.assert_array_equal(framed.privileged, bunch.privileged)
    X, y, privileged = load(return_X_y_privileged=True)
    np.testing.assert_array_equal(X, bunch.data)
    np.testing.assert_array_equal(y, bunch.target)
    np.testing.assert_array_equal(privileged, bunch.privileged)
    assert isinstance(load(return_X_y_privileged=True, as_frame=True)[2], pd.DataFrame)


@pytest.mark.parametrize("resolution", [1, 2, 4])
def test_low_resolution_is_the_mean_of_blocks(resolution):
    digits = load_digits_lowres(resolution=resolution)
    picture = load_digits().images[7]
    k = 8 // resolution
    expected = [picture[i : i + k, j : j + k].mean() for i in range(0, 8, k) for j in range(0, 8, k)]
    np.testing.assert_allclose(digits.data[7], expected)
    np.testing.assert_array_equal(digits.privileged[7], picture.ravel())


def test_choice_of_digits():
    digits = load_digits_lowres(classes=(8, 3))
    source = load_digits()
    assert set(digits.target) == {3, 8}
    assert digits.target_names.tolist() == [3, 8]
    np.testing.assert_array_equal(digits.privileged, source.data[np.isin(source.target, [3, 8])])


def test_breast_cancer_columns():
    cancer, source = load_breast_cancer_followup(), load_breast_cancer()
    assert len(cancer.feature_names) == 10
    assert len(cancer.privileged_names) == 20
    assert all(name.startswith("worst") or name.endswith("error") for name in cancer.privileged_names)
    np.testing.assert_array_equal(np.hstack([cancer.data, cancer.privileged]), source.data)
    assert "This is a construction" in cancer.DESCR


def test_made_data_repeat_with_the_seed():
    first, second, other = (make_privileged(random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.data, second.data)
    np.testing.assert_array_equal(first.privileged, second.privileged)
    assert not np.array_equal(first.data, other.data)


def test_made_slack_is_what_the_hidden_direction_leaves():
    made = make_privileged(500, 4, 2, random_state=0)
    y = 2 * made.target - 1
    np.testing.assert_allclose(np.linalg.norm(made.direction), 1)
    np.testing.assert_allclose(made.slack, np.maximum(0, 1 - 2 * y * (made.data @ made.direction)))


@pytest.mark.parametrize("informativeness", [0.0, 0.5, 1.0])
def test_informativeness_is_the_squared_correlation_with_the_slack(informativeness):
    made = make_privileged(20000, 4, 2, informativeness=informativeness, random_state=0)
    for column in made.privileged.T:
        assert np.corrcoef(column, made.slack)[0, 1] ** 2 == pytest.approx(informativeness, abs=0.02)


def test_privileged_features_are_standardized():
    made = make_privileged(20000, 4, 2, informativeness=0.5, random_state=0)
    np.testing.assert_allclose(made.privileged.mean(axis=0), 0, atol=0.02)
    np.testing.assert_allclose(made.privileged.std(axis=0), 1, atol=0.02)


def test_one_example_is_enough():
    made = make_privileged(1, 1, 1, random_state=0)
    assert made.data.shape == made.privileged.shape == (1, 1)
    assert np.isfinite(made.privileged).all()


def test_noise_and_flips_make_the_classes_overlap():
    def wrong_side(**options):
        made = make_privileged(20000, 4, 2, random_state=0, **options)
        return np.mean(made.slack > 1)

    assert wrong_side(noise=0, flip_y=0) == 0
    assert wrong_side(noise=0, flip_y=0.2) == pytest.approx(0.2, abs=0.001)
    assert wrong_side(noise=1, flip_y=0) == pytest.approx(0.25, abs=0.01)  # angle of 45 degrees between u.x and the sum


def test_missing_rows_change_nothing_else():
    whole, made = make_privileged(random_state=0), make_privileged(random_state=0, missing=0.3)
    missing = np.isnan(made.privileged).any(axis=1)
    assert missing.sum() == 60
    assert np.isnan(made.privileged[missing]).all()
    np.testing.assert_array_equal(made.privileged[~missing], whole.privileged[~missing])
    np.testing.assert_array_equal(made.target, whole.target)


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (lambda: load_digits_lowres(resolution=3), r"`resolution` must be 1, 2 or 4, got 3"),
        (lambda: load_digits_lowres(classes=[3]), r"`classes` must hold at least two different digits.*got \[3\]"),
        (lambda: load_digits_lowres(classes=[3, 12]), r"from 0 to 9, got \[3, 12\]"),
        (lambda: make_privileged(0), "`n_samples` must be at least 1, got 0"),
        (lambda: make_privileged(n_privileged=0), "`n_privileged` must be at least 1, got 0"),
        (lambda: make_privileged(missing=1.2), "`missing` must be between 0 and 1, got 1.2"),
        (lambda: make_privileged(flip_y=-0.1), "`flip_y` must be between 0 and 1, got -0.1"),
        (lambda: make_privileged(noise=-1), "`noise` must be at least 0, got -1"),
    ],
)
def test_messages(load, message):
    with pytest.raises(ValueError, match=message):
        load()


def test_young_men_are_those_of_the_study():
    # Means of Card (1995), Table 1 (3010 men), as linearmodels' table gives them.
    men = load_young_men(fill_gaps=False, as_frame=True)
    assert men.frame["schooling"].mean() == pytest.approx(13.263455, abs=1e-6)
    assert men.frame["experience"].mean() == pytest.approx(8.856146, abs=1e-6)
    assert men.frame["near_four_year_college"].mean() == pytest.approx(0.682060, abs=1e-6)
    assert men.frame["iq_test"].mean() == pytest.approx(102.449782, abs=1e-6)
    regions = [f"region_{k}" for k in range(1, 10)]
    assert (men.frame[regions].sum(axis=1) == 1).all()
    # Experience is defined by age and schooling, so that a column that was mixed up would show.
    np.testing.assert_array_equal(men.frame["experience"], men.frame["age"] - men.frame["schooling"] - 6)
    assert load_young_men(regression=True).target.mean() == pytest.approx(6.261832, abs=1e-6)


def test_gaps_of_young_men_are_kept_or_filled_as_said():
    raw, filled = load_young_men(fill_gaps=False, as_frame=True), load_young_men(as_frame=True)
    gaps = {
        "father_schooling": 690,
        "mother_schooling": 353,
        "library_card": 13,
        "work_test": 47,
        "iq_test": 949,
        "married": 7,
    }
    counts = raw.frame.isna().sum()
    assert counts[counts > 0].to_dict() == gaps
    assert not filled.frame.isna().to_numpy().any()
    for name in gaps:
        assert f"{name} {gaps[name]}" in raw.DESCR
        known = raw.frame[name].notna()
        np.testing.assert_array_equal(filled.frame.loc[known, name], raw.frame.loc[known, name])
        assert set(filled.frame.loc[~known, name]) == {raw.frame[name].median()}
        if gaps[name] > 301:
            np.testing.assert_array_equal(filled.frame[f"{name}_known"], known)
        else:
            assert f"{name}_known" not in filled.frame
    assert (filled.data.shape[1], filled.privileged.shape[1]) == (23, 8)


def test_wages_of_young_men_agree_in_both_forms():
    above, log_wage = load_young_men().target, load_young_men(regression=True).target
    np.testing.assert_array_equal(above, log_wage > np.median(log_wage))
    assert above.mean() == 0.5


def test_license_of_bundled_data_lies_beside_them():
    folder = files("lupi.datasets").joinpath("bundled")
    text = folder.joinpath("young_men.LICENSE.txt").read_text("utf-8")
    assert folder.joinpath("young_men.csv.bz2").is_file()
    assert "Card (1995)" in text
    assert "Kevin Sheppard" in text
