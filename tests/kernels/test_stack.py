"""Several privileged blocks as one: the kernel is the weighted sum of the kernels of the blocks."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from lupi import SVM2K, SVM2Plus
from lupi.inputs.training_set import check_training_set
from lupi.kernels.kernel import BlockStack

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(12, 2)), np.arange(12) % 2
FIRST, SECOND = rng.normal(size=(12, 3)), rng.normal(size=(12, 2))
SECOND[3] = np.nan
HAS_SECOND = np.arange(12) != 3


def stacked(model, privileged):
    data = check_training_set(model, X, Y, privileged)
    stack = BlockStack.of(model, data.privileged)
    joined = stack.join(data.privileged)
    return stack, joined, stack.kernel(model, joined, data.weight)


def padded(matrix):
    out = np.zeros((12, 12))
    out[np.ix_(HAS_SECOND, HAS_SECOND)] = matrix
    return out


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("kernels", ["linear", ["rbf", "linear"], "precomputed"])
def test_kernel_over_lam_is_the_sum_over_blocks(kernels, as_sparse):
    model = SVM2Plus(lam={"a": 2.0, "b": 0.5}, privileged_kernel=kernels, privileged_gamma=0.3)
    known = SECOND[HAS_SECOND]
    first = rbf_kernel(FIRST, gamma=0.3) if isinstance(kernels, list) else FIRST @ FIRST.T
    second = padded(known @ known.T)
    tables = {"a": sparse.csr_array(FIRST) if as_sparse else FIRST, "b": SECOND}
    if kernels == "precomputed":
        tables = {"a": first, "b": np.where(HAS_SECOND[:, None], second, np.nan)}
    elif isinstance(kernels, list):
        model.privileged_kernel = dict(zip("ab", kernels))
    stack, joined, kernel = stacked(model, tables)
    np.testing.assert_allclose(kernel(joined.rows.values) / stack.lam(model), first / 2.0 + second / 0.5, atol=1e-12)
    assert joined.available.all()
    if kernels == "linear":
        np.testing.assert_allclose(stack.read(model, tables).rows.values @ np.ones(5), joined.rows.values @ np.ones(5))


def test_a_single_block_is_itself():
    model = SVM2Plus(lam=3.0)
    stack, joined, kernel = stacked(model, SECOND)
    assert stack.lam(model) == pytest.approx(3.0)
    assert kernel.gamma == pytest.approx(1 / (2 * SECOND[HAS_SECOND].var()))
    np.testing.assert_array_equal(joined.available, HAS_SECOND)


def test_one_lam_for_all_blocks_is_the_same_for_each():
    stack, _, _ = stacked(SVM2Plus(lam=3.0), [FIRST, SECOND])
    assert stack.lam(SVM2Plus(lam=3.0)) == pytest.approx(1.5)
    assert stack.weights == (0.5, 0.5)
    assert stacked(SVM2K(), [FIRST, SECOND])[0].weights == (1.0, 1.0)


def test_gamma_of_a_block_uses_the_weights_of_its_examples():
    model = SVM2Plus()
    weight = np.arange(1.0, 13.0)
    data = check_training_set(model, X, Y, [FIRST, SECOND], weight)
    stack = BlockStack.of(model, data.privileged)
    kernel = stack.kernel(model, stack.join(data.privileged), data.weight)
    rows = np.repeat(SECOND[HAS_SECOND], weight[HAS_SECOND].astype(int), axis=0)
    assert kernel.parts[1].gamma == pytest.approx(1 / (2 * rows.var()))


def test_kernel_matrices_for_some_blocks_only():
    model = SVM2Plus(privileged_kernel=["precomputed", "rbf"])
    with pytest.raises(ValueError, match="`privileged_kernel` is 'precomputed' for some spaces only"):
        stacked(model, [FIRST @ FIRST.T, SECOND])
