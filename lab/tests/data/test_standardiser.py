import numpy as np
from sklearn.preprocessing import StandardScaler

from metricopt_lab.data import Standardiser


def test_it_agrees_with_scikit_learn_on_unseen_rows():
    rng = np.random.default_rng(0)
    train, test = (rng.normal(3000, [1, 10, 100], size=(500, 3)).astype(np.float32) for _ in range(2))
    expected = StandardScaler().fit(train.astype(np.float64)).transform(test.astype(np.float64))
    ours = Standardiser.fit(train).apply(test)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, expected, atol=2e-3)


def test_a_constant_column_is_only_shifted():
    # 0.1 is not exact in binary: summing it leaves a deviation that is tiny, not zero.
    train = np.full((1001, 2), [0.1, -7.3], np.float32)
    shifted = Standardiser.fit(train).apply(train + np.float32(1))
    np.testing.assert_allclose(shifted, 1, rtol=1e-5)
