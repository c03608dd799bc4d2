"""Improve one component given the others: score columns, and form the part of C that the others do not explain.

That part is the Schur complement G = C − TTᵀ, where T has a row for each column of C. Only the needed entries of G are
formed.
"""

import numpy as np

from counterpoise.kernels.basics import axpy, larger, less_dot, reals, table
from counterpoise.kernels.dispatch import entry_point
from counterpoise.kernels.polish_arc import NONE


@entry_point
def promises(C, T, variance, x, product, s, signed, score):
    """Write to ``score`` the estimated variance if each column replaces the smallest loading of x; ∞ for held columns.

    x has length 1, ``product`` is Cx and ``variance`` the diagonal of C. If x has fewer than s loadings, none leaves.
    """
    out, m, shared, a = NONE, 0, reals(T.shape[1]), 0.0
    for j in range(len(x)):
        if x[j] != 0.0:
            m += 1
            if out == NONE or abs(x[j]) < abs(x[out]):
                out = j
            axpy(x[j], T[j], shared)
    for j in range(len(x)):
        if x[j] != 0.0:
            a += x[j] * less_dot(product[j], shared, T[j])
    leaving, scale = 0.0, 1.0
    if m >= s:
        # If the only loading leaves, nothing remains.
        leaving, scale = x[out], 1.0 / (1.0 - x[out] * x[out]) if m > 1 else 0.0
        g, d = less_dot(product[out], shared, T[out]), less_dot(variance[out], T[out], T[out])
        a = scale * (a - 2.0 * leaving * g + leaving * leaving * d)
    root, least = np.sqrt(scale), -np.inf if signed else 0.0
    for j in range(len(x)):
        if x[j] != 0.0:
            score[j] = np.inf
            continue
        d, b = less_dot(variance[j], T[j], T[j]), less_dot(product[j], shared, T[j])
        if leaving != 0.0:
            b -= leaving * less_dot(C[out, j], T[out], T[j])
        b, half = larger(root * b, least), 0.5 * (a - d)
        score[j] = 0.5 * (a + d) + np.sqrt(half * half + b * b)


@entry_point
def left_block(C, T, columns, G):
    """Write C − TTᵀ on the given columns to G: compute one half and copy it, because C is rarely in the CPU cache."""
    m, rows = len(columns), T.shape[1]
    B = table(rows, m)
    for a in range(m):
        for k in range(rows):
            B[k, a] = T[columns[a], k]
    for a in range(m):
        i = columns[a]
        for c in range(a, m):
            G[a, c] = C[i, columns[c]]
        for k in range(rows):
            axpy(-B[k, a], B[k, a:], G[a, a:])
    for a in range(m):
        for c in range(a):
            G[a, c] = G[c, a]
