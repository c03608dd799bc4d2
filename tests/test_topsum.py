"""The incremental order of |x| against sorting anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import scaled
from counterpoise.kernels.concave import TopSum
from counterpoise.kernels.topsum import others, reposition, sort_by_magnitude, top_tail
from naive import top_sum


def fresh(x):
    n = len(x)
    order, rank, key = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n)
    sort_by_magnitude(x, order, rank, key)
    return order, rank, key


def assert_in_order(x, order, rank, key):
    assert sorted(order) == list(range(len(x)))
    np.testing.assert_array_equal(order[rank], np.arange(len(x)))
    np.testing.assert_array_equal(key, np.abs(x)[order])
    assert (np.diff(key) <= 0).all()


@settings(max_examples=scaled(300, 100), deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.25, -0.25, 0.5, 1.0]), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 11), st.sampled_from([0.0, 0.25, -0.5, 0.3, 2.0])), max_size=30),
)
def test_reposition_keeps_the_order(values, moves):
    x = np.array(values)
    order, rank, key = fresh(x)
    assert_in_order(x, order, rank, key)
    for i, value in moves:
        i %= len(x)
        x[i] = value
        reposition(order, rank, key, i, abs(value))
        assert_in_order(x, order, rank, key)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 1000])
def test_sort_of_any_length(n, rng):
    x = np.round(rng.standard_normal(n), 1)
    assert_in_order(x, *fresh(x))


def test_the_change_of_a_pair_needs_only_two_order_statistics(rng):
    for _ in range(scaled(2000, 300)):
        n = int(rng.integers(2, 9))
        s = int(rng.integers(1, n + 1))
        x = np.round(rng.standard_normal(n), 1)
        order, rank, key = fresh(x)
        i, j = (int(k) for k in rng.permutation(n)[:2])
        first, second = others(TopSum(s, 1.0, True, order, rank, key), i, j)
        moved = x.copy()
        moved[i], moved[j] = np.round(rng.standard_normal(2), 1)
        before = top_tail(first, second, abs(x[i]), abs(x[j]))
        after = top_tail(first, second, abs(moved[i]), abs(moved[j]))
        assert after - before == pytest.approx(top_sum(moved, s) - top_sum(x, s), abs=1e-12)
