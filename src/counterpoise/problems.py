"""The paper's four problems, and sparse PCA with signs.

For the former, ``objective`` is the value in the paper's tables.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from counterpoise.certificates import exactness_threshold
from counterpoise.checks import number
from counterpoise.problem import Problem
from counterpoise.terms.concave import ConcaveQuadratic, Norm2, TopSum
from counterpoise.terms.constraint import Sphere, Sum
from counterpoise.terms.separable import AbsoluteDeviation, Bounds, Linear, SeparableTerm
from counterpoise.terms.smooth import LeastSquares


class _Preset(Problem):
    """A problem whose h and constant may depend on λ."""

    def __init__(self, f: Any, g: Any, u: Any) -> None:
        super().__init__(f, self._h(g), g, u, self._constant(g, f.n), type(self).__name__)
        self._own_h = self.h

    def _h(self, g: Any) -> SeparableTerm:
        """Return h for the λ of g."""
        return Bounds(0.0, np.inf)

    def _constant(self, g: Any, n: int) -> float:
        """Return the constant for the λ of g."""
        return 0.0

    def variant(self, **changes: float) -> Problem:
        """Return the same problem with another s or lam; f and its AᵀA are shared."""
        g = self._other_g(changes)
        rest = self.constant - self._constant(self.g, self.n)
        is_own = self.h is self._own_h  # another h, given to ``derived``, stays
        other = self.derived(g=g, h=self._h(g) if is_own else None, constant=rest + self._constant(g, self.n))
        other._own_h = other.h if is_own else self._own_h  # type: ignore[attr-defined]
        return other


class SIT(_Preset):
    """Sparse index tracking, eq. (plb:app:topk): ½‖Ax − y‖² + λ(1 − ‖x‖_[s]), x ≥ 0, 1ᵀx = 1.

    Parameters
    ----------
    A : array or sparse matrix, days × stocks
        Returns; the paper's scale is percent.
    y : array of length days
        The index's returns.
    s : int
        How many stocks are free of the penalty.
    lam : float
        λ. Above ``certify(problem, x).exact_lam`` every CWS point holds at most s stocks.
    """

    def __init__(self, A: Any, y: Any, s: int, lam: float) -> None:
        super().__init__(LeastSquares(A, y), TopSum(s, lam), Sum(1.0))

    def _constant(self, g: Any, n: int) -> float:
        return float(g.lam)


class NNSPCA(_Preset):
    """Non-negative sparse PCA, eq. (plb:app:nnspca2): −½‖Ax‖² + λ(1ᵀx − ‖x‖_[s]), x ≥ 0, ‖x‖ = 1.

    The paper's shift γ‖x‖²/2 is constant on the sphere and cancels from every step; it is left out.
    """

    def __init__(self, A: Any, s: int, lam: float) -> None:
        super().__init__(LeastSquares(A, 0.0, scale=-1.0), TopSum(s, lam), Sphere())

    def _h(self, g: Any) -> SeparableTerm:
        return Bounds(0.0, np.inf) + Linear(g.lam)


class SPCA(_Preset):
    """Sparse PCA with signs: −½‖Ax‖² + λ(‖x‖₁ − ‖x‖_[s]), ‖x‖ = 1.

    Parameters
    ----------
    A : array or sparse matrix, samples × variables
        Centred, and also scaled if correlations are meant: AᵀA is the matrix whose sparse components are wanted.
    s : int
        How many loadings are free of the penalty.
    lam : float
        λ. Above ``certify(problem, x).exact_lam`` every CWS point has at most s non-zeros.

    Examples
    --------
    >>> import numpy as np
    >>> import counterpoise as cp
    >>> A = np.array([[2.0, -2.0, 0.0], [1.0, -1.0, 0.1]])
    >>> np.abs(cp.minimize(cp.problems.SPCA(A, s=2, lam=100.0), method="search").x).round(3).tolist()
    [0.707, 0.707, 0.0]
    """

    def __init__(self, A: Any, s: int, lam: float) -> None:
        super().__init__(LeastSquares(A, 0.0, scale=-1.0), TopSum(s, lam), Sphere(signed=True))

    def _h(self, g: Any) -> SeparableTerm:
        return AbsoluteDeviation(0.0, g.lam)


class _SignVectors(_Preset):
    """Least squares over −1 ≤ x ≤ 1, 1ᵀx = c."""

    _penalty: Any

    def __init__(self, A: Any, y: Any, c: float, lam: float) -> None:
        f, g, c = LeastSquares(A, y), self._penalty(lam), number(c, "c")
        n = f.n
        if abs(c) > n:
            raise ValueError(f"c is {c:g}, but {n} coordinates between −1 and 1 sum to {-n} at least and {n} at most.")
        super().__init__(f, g, Sum(c))
        _warn_of_parity(self, c)

    def _h(self, g: Any) -> SeparableTerm:
        return Bounds(-1.0, 1.0)


class DCPB1(_SignVectors):
    """Binary least squares, penalty of eq. (plb:app:bin2): ½‖Ax − y‖² + λ(n − ‖x‖²), −1 ≤ x ≤ 1, 1ᵀx = c."""

    _penalty = ConcaveQuadratic

    def _constant(self, g: Any, n: int) -> float:
        return float(g.lam * n)


class DCPB2(_SignVectors):
    """Binary least squares, penalty of eq. (plb:app:bin3): ½‖Ax − y‖² + λ(√n − ‖x‖), −1 ≤ x ≤ 1, 1ᵀx = c."""

    _penalty = Norm2

    def _constant(self, g: Any, n: int) -> float:
        return float(g.lam * math.sqrt(n))


def _warn_of_parity(problem: Problem, c: float) -> None:
    """Warn if λ is large enough to force binary points but no binary point has the sum c."""
    if c == int(c) and (int(c) - problem.n) % 2 == 0:
        return
    threshold = exactness_threshold(problem)
    if threshold is not None and problem.g.lam > threshold:
        near = max(-problem.n, min(problem.n, int(2 * round((c - problem.n) / 2) + problem.n)))
        warnings.warn(
            f"no ±1 vector of length {problem.n} has the sum {c:g}: a certified point will have one fractional "
            f"coordinate. Give an integer c of the parity of n, such as {near}.",
            stacklevel=3,
        )
