"""The order of |x|, from which ‖x‖_[s], the sum of the s largest |xᵢ|, is found in O(1) per trial.

``order[r]`` is the coordinate of rank r (0 is the largest), ``rank`` its inverse, ``key[r]`` the magnitude at rank r. A
step repositions two coordinates; bisection skips ties, so that a zero entering the support passes only smaller positive
entries, not the other zeros.
"""

import numpy as np

from counterpoise.kernels.basics import larger
from counterpoise.kernels.dispatch import kernel


@kernel
def sort_by_magnitude(x, order, rank, key):
    """Fill the three arrays from x, by a Shell sort with Tokuda's gaps.

    NumPy's sort takes five seconds to compile; this one takes hardly any, and is fast on nearly sorted entries.
    """
    n = len(x)
    for r in range(n):
        order[r] = r
    gap = 1.0
    while np.ceil(2.25 * gap + 1.0) < n:
        gap = np.ceil(2.25 * gap + 1.0)
    while gap >= 1.0:
        stride = int(gap)
        for start in range(stride, n):
            i, r = order[start], start
            while r >= stride and abs(x[order[r - stride]]) < abs(x[i]):
                order[r] = order[r - stride]
                r -= stride
            order[r] = i
        gap = np.ceil((gap - 1.0) / 2.25) if gap > 1.0 else 0.0
    for r in range(n):
        rank[order[r]] = r
        key[r] = abs(x[order[r]])


@kernel
def _place(order, rank, key, r, i, magnitude):
    order[r] = i
    rank[i] = r
    key[r] = magnitude


@kernel
def _first_rank(key, magnitude, below):
    """Return the smallest rank whose key is ≤ ``magnitude``, or < if ``below`` (keys descend)."""
    low, high = 0, len(key)
    while low < high:
        middle = (low + high) // 2
        if key[middle] > magnitude or (below and key[middle] == magnitude):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def reposition(order, rank, key, i, magnitude):
    """Give coordinate i its new magnitude and restore the order."""
    r = rank[i]
    old = key[r]
    if magnitude > old:
        head = _first_rank(key, old, False)
        _place(order, rank, key, r, order[head], old)
        r = head
        while r > 0 and key[r - 1] < magnitude:
            _place(order, rank, key, r, order[r - 1], key[r - 1])
            r -= 1
    elif magnitude < old:
        tail = _first_rank(key, old, True) - 1
        _place(order, rank, key, r, order[tail], old)
        r = tail
        while r + 1 < len(key) and key[r + 1] > magnitude:
            _place(order, rank, key, r, order[r + 1], key[r + 1])
            r += 1
    _place(order, rank, key, r, i, magnitude)


@kernel
def others(g, i, j):
    """Return the (s−1)-th and s-th largest magnitude among the coordinates other than i and j.

    A missing one is 0, which adds nothing to a sum of magnitudes; for s = 1 the first is +∞, so that :func:`top_tail`
    never counts both coordinates of the pair.
    """
    low, high = g.rank[i], g.rank[j]
    if low > high:
        low, high = high, low
    first = np.inf
    if g.s > 1:
        r = g.s - 2
        r += low <= r
        r += high <= r
        first = g.key[r] if r < len(g.key) else 0.0
    r = g.s - 1
    r += low <= r
    r += high <= r
    second = g.key[r] if r < len(g.key) else 0.0
    return first, second


@kernel
def top_tail(first, second, a, b):
    """Return the sum of the two largest of {first, second, a, b} minus ``first`` (first ≥ second).

    ‖x‖_[s] is this plus the sum of the s−1 largest of the others, which is constant on the pair.
    """
    return larger(larger(second, a + b - first), larger(a, b))
