"""Properties of the readers, for whatever hypothesis comes up with; the same examples in every run."""

import csv
import io
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from attack.run_lengths import pack_counts, runs_of, slow_counts

pytest.importorskip("hypothesis")
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lupi.datasets import DataFormatError, load_boxes_csv
from lupi.vision import Box, ImageReadError, read_mask
from lupi.vision.images import RunLengthMask, unpack_counts

MASKS = arrays.arrays(bool, arrays.array_shapes(min_dims=2, max_dims=2, max_side=12))
repeatable = settings(derandomize=True, deadline=None, max_examples=60, database=None)


@repeatable
@given(MASKS)
def test_run_lengths_and_masks_are_the_same(mask):
    counts = runs_of(mask)
    assert unpack_counts(pack_counts(counts)) == counts
    for form in (tuple(counts), pack_counts(counts)):
        np.testing.assert_array_equal(RunLengthMask(form, mask.shape).read(), mask)


@repeatable
@given(st.text(st.characters(min_codepoint=40, max_codepoint=120), max_size=40))
def test_any_text_is_read_as_letter_by_letter_or_refused(text):
    try:
        counts = unpack_counts(text)
    except ImageReadError:
        return
    assert counts == slow_counts(text)


@repeatable
@given(
    MASKS.filter(np.any), st.sampled_from(["u1", "u2", "i4", "i8"]), st.sampled_from(["01", "full", "trimap", "bool"])
)
def test_masks_are_read_back_from_every_coding(mask, kind, coding):
    full = 255 if kind == "u1" else 65535
    coded = {"01": mask * 1, "full": mask * full, "trimap": np.where(mask, 1, 2), "bool": mask}[coding]
    np.testing.assert_array_equal(read_mask(coded if coding == "bool" else coded.astype(kind)), mask)


@repeatable
@given(
    st.text(min_size=1, max_size=20).filter(lambda name: name == name.strip()),
    st.tuples(*[st.floats(0, 1e6)] * 4),
)
def test_a_table_gives_back_what_was_written_or_refuses(name, edges):
    text = io.StringIO()
    csv.writer(text).writerows([["image", "top", "left", "bottom", "right"], [name, *edges]])
    with TemporaryDirectory() as folder:
        path = f"{folder}/boxes.csv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            try:
                file.write(text.getvalue())
            except UnicodeEncodeError:
                return
        try:
            found = load_boxes_csv(path)
        except DataFormatError:
            return
        assert found.boxes == [Box(*edges)]
        assert found.images[0] == f"{folder}/{name}" or "/" in name or name == "."
