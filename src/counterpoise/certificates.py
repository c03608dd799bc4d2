"""Certificates of a point: how far it is from being coordinate-wise stationary (CWS), critical or swap-optimal."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np

from counterpoise.checks import Vector, number, vector, whole_number
from counterpoise.kernels import block, sweep
from counterpoise.kernels.dispatch import has_body
from counterpoise.kernels.pair import Terms
from counterpoise.problem import Problem
from counterpoise.supervision import supervised
from counterpoise.terms.concave import ConcaveQuadratic, Norm2, TopSum
from counterpoise.terms.constraint import Sum
from counterpoise.terms.separable import one_sided_slopes
from counterpoise.terms.smooth import LeastSquares

MOST_ENUMERATED = 6
# Rows of Q per block, where all rows are read.
ROWS = 512


@dataclasses.dataclass(frozen=True)
class Certificate:
    """What is known about a point.

    Attributes
    ----------
    cws_gap : float
        The largest decrease of F (plus ½θ‖d‖²) that moving any one pair can bring; 0 at a CWS point.
    worst_pair : tuple of int, or None
        The pair that brings it.
    worst_step : tuple of float, or None
        By how much the two coordinates then move.
    critical_residual : float
        The first-order residual; 0 at a critical point.
    violation : float
        The distance from the bounds and from u(x) = 0.
    exact_lam : float or None
        With λ above this, every CWS point (θ = 0) is s-sparse (TopSum) or has at most one coordinate off
        its bounds (Norm2, ConcaveQuadratic). None where no theorem covers the problem.
    exact : bool or None
        Whether the problem's λ is above ``exact_lam``.
    objective : float
    block_gap : float or None
        The largest decrease that any of the blocks tried can bring, if blocks of more than two were asked for.
    blocks_tried, blocks_in_all : int
        0 if none were asked for.
    convex_gap : float or None
        An upper bound on F(x) − F*. If F is convex (f convex and no g, on ``Sum``), F* is the minimum of F. With
        ``TopSum``, bounds of at least 0 and an x of at most s non-zeros, F* is the least F over points whose non-zeros
        are among those of x. None otherwise.
    swap_gap : float or None
        With ``level="swap"``: the largest decrease of f + h that was found, by better weights on the support of x and
        then the exchange of one held coordinate for one outside.
    swap_bound : float or None
        With ``level="swap"``: a proof that no exchange and no better weights decrease f + h by more than this. On
        ``Sum`` and ``Sphere(signed=True)`` it differs from ``swap_gap`` only by rounding. On ``Sphere()``, where the
        best weights on a support are not a convex problem, it may be larger, because eigenvalues only bound them.
    worst_swap : tuple of int, or None
        The coordinate that leaves (−1 if there is room for another) and the one that enters; None if no exchange
        gains beyond better weights.
    """

    cws_gap: float
    worst_pair: tuple[int, int] | None
    worst_step: tuple[float, float] | None
    critical_residual: float
    violation: float
    exact_lam: float | None
    exact: bool | None
    objective: float
    block_gap: float | None = None
    blocks_tried: int = 0
    blocks_in_all: int = 0
    convex_gap: float | None = None
    swap_gap: float | None = None
    swap_bound: float | None = None
    worst_swap: tuple[int, int] | None = None


@supervised
def certify(
    problem: Problem,
    x: Any,
    theta: float = 0.0,
    scan: str = "pruned",
    k: int = 2,
    n_blocks: int = 1000,
    seed: int | None = 0,
    level: str = "pair",
) -> Certificate:
    """Examine a point.

    Parameters
    ----------
    problem : Problem
    x : array of length n
        It may violate the constraints by at most 1e-6 times the largest |xᵢ| of any feasible point.
    theta : float
        The proximal weight of the definition of CWS; 0 is the strongest claim.
    scan : {"pruned", "all"}
        "pruned" bounds most pairs instead of solving them, "all" solves every one; the gaps agree.
    k, n_blocks, seed : int
        With k from 3 to 6, solve blocks of k coordinates as well: all of them if there are no more than ``n_blocks``,
        otherwise so many random ones, half of each drawn from the coordinates above their lower bound.
    level : {"pair", "swap"}
        "swap" looks at exchanges of members of the support as well, for ``TopSum`` and an x of at most s non-zeros.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem is a {type(problem).__name__}; it must be a counterpoise.Problem.")
    if level not in ("pair", "swap"):
        raise ValueError(f'level is {level!r}; it must be "pair" or "swap".')
    if scan not in ("pruned", "all"):
        raise ValueError(f'scan is {scan!r}; it must be "pruned" or "all".')
    x = vector(x, "x", problem.n)
    violation = problem.violation(x)
    if violation > 1e-6 * max(problem.scale, 1e-300):
        raise ValueError(f"x violates the constraints by {violation:g}; certify problem.project(x) instead.")
    at = np.clip(x, problem.separable.lo, problem.separable.hi)
    theta, k = number(theta, "theta", 0.0), whole_number(k, "k", 2, problem.n)
    blocks: dict[str, Any] = {}
    if scan == "pruned" and theta == 0.0 and k == 2 and _prices_columns(problem):
        gap, i, j, di, dj = _best_priced_pair(problem, at)
    else:
        terms = problem.terms()
        sweep.start(terms, at)  # moves `at` onto its bounds and u(x) = 0, which it may miss by rounding
        found = sweep.scan_all(terms, at, theta) if scan == "all" else sweep.scan(terms, at, theta, np.inf)
        gap, i, j, di, dj = found
        if k > 2:
            blocks = _block_gap(problem, terms, at, theta, k, whole_number(n_blocks, "n_blocks", 1), seed)
    if level == "swap":
        from counterpoise.solvers.swap import swap_gap  # the solvers stand above this module

        own, gain, leaves, enters, bound = swap_gap(problem, at)
        blocks |= {"swap_gap": own + gain, "swap_bound": bound}
        blocks["worst_swap"] = (leaves, enters) if enters >= 0 else None
    threshold = exactness_threshold(problem)
    return Certificate(
        cws_gap=float(gap),
        worst_pair=(int(i), int(j)) if i >= 0 else None,
        worst_step=(float(di), float(dj)) if i >= 0 else None,
        critical_residual=critical_residual(problem, at),
        violation=violation,
        exact_lam=threshold,
        exact=None if threshold is None else problem.g.lam > threshold,
        objective=problem.objective(x),
        convex_gap=convex_gap(problem, at),
        **blocks,
    )


def _prices_columns(problem: Problem) -> bool:
    """Return whether pairs are scanned by products with columns, as on the sphere with very many columns."""
    from counterpoise.solvers import pool  # the solvers stand above this module

    return not isinstance(problem.u, Sum) and pool.applies(problem)


def _best_priced_pair(problem: Problem, x: Vector) -> tuple[float, int, int, float, float]:
    """Return what :func:`sweep.scan` returns; x is projected onto the sphere in place."""
    from counterpoise.solvers.pool import ArcPool

    x[:] = problem.project(x)
    return ArcPool(problem).best_pair(x)


def _block_gap(
    problem: Problem, terms: Terms, x: Vector, theta: float, k: int, n_blocks: int, seed: int | None
) -> dict[str, Any]:
    """Solve blocks of k coordinates by enumeration; return the largest decrease and how many were tried."""
    check_enumeration(problem, k)
    n, in_all = problem.n, math.comb(problem.n, k)
    rng, above = np.random.default_rng(seed), np.flatnonzero(x > problem.separable.lo)

    def draw() -> Any:
        held = rng.choice(above, min(k - k // 2, len(above)), replace=False)
        return np.r_[held, rng.choice(np.setdiff1d(np.arange(n), held), k - len(held), replace=False)]

    few = in_all <= n_blocks
    chosen = itertools.combinations(range(n), k) if few else (draw() for _ in range(n_blocks))
    gaps = [
        block.best_of_block(terms, x, np.array(one, dtype=np.int64), theta, block.ENUMERATED, np.empty(k))
        for one in chosen
    ]
    return {"block_gap": float(max(gaps)), "blocks_tried": len(gaps), "blocks_in_all": in_all}


def convex_members(problem: Problem, x: Vector) -> Any:
    """Return coordinates over which F is convex while the others stay fixed; None if no such set is known.

    These are all coordinates if there is no g, or if g = −λ‖x‖_[s] with s ≥ n, which is −λ times the sum; otherwise the
    non-zeros of x, if they are at most s: g is constant over the x ≥ 0 with these non-zeros.
    """
    g, h = problem.g, problem.separable
    members = np.arange(problem.n)
    if g.lam > 0.0:
        if not isinstance(g, TopSum) or (h.lo < 0.0).any():
            return None
        members = members if g.s >= problem.n else np.flatnonzero(x)
        if len(members) > g.s:
            return None
    # Checked last, because for a given Q it takes a factorisation.
    return members if isinstance(problem.u, Sum) and problem.f.is_convex else None


def convex_gap(problem: Problem, x: Vector) -> float | None:
    """Return an upper bound on F(x) − F*, F* the least F if only :func:`convex_members` move; None without members.

    By convexity F(x) − F(z) ≤ ⟨∇f(x), x − z⟩ + h(x) − h(z) (the Frank–Wolfe gap). The z that maximises the right side
    on {lo ≤ z ≤ hi, 1ᵀz = 1ᵀx} is found by filling the pieces of h in the order of their slopes.
    """
    members = convex_members(problem, x)
    return None if members is None else _linear_gap(problem, x, members, problem.f.gradient(x))


def _linear_gap(problem: Problem, x: Vector, members: Any, gradient: Vector) -> float:
    h, at, total = problem.separable, x[members], gradient[members] + problem.separable.weight[members]
    lo, hi, centre, cost = h.lo[members], h.hi[members], h.centre[:, members], h.cost[:, members]
    if not np.isfinite(lo).all():
        at, total, lo, hi, centre = -at, -total, -hi, -lo, -centre
    edges = np.sort(np.vstack([lo, np.clip(centre, lo, hi), hi]), axis=0)
    kinked = np.where(edges[:-1, None, :] >= centre[None], cost[None], -cost[None]).sum(axis=1)
    slopes, lengths = (total + kinked).ravel(), (edges[1:] - edges[:-1]).ravel()
    order = np.argsort(slopes, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(lengths[order])[:-1]])
    amounts = np.zeros(len(slopes))
    amounts[order] = np.clip(max(float((at - lo).sum()), 0.0) - before, 0.0, lengths[order])
    z = lo + amounts.reshape(edges[:-1].shape).sum(axis=0)
    used = slopes[amounts > 0.0]
    # Both points have the same sum, so a common slope can be subtracted, which reduces rounding error near an optimum.
    shared = float(used.max()) if len(used) else 0.0
    gap = (total - shared) * (at - z) + (cost * (np.abs(at - centre) - np.abs(z - centre))).sum(axis=0)
    return max(float(gap.sum()), 0.0)


def critical_residual(problem: Problem, x: Vector) -> float:
    """Return how far 0 is from ∇f + ∂h + ∂g + N_Ω at x.

    On Sum: the largest left slope of a coordinate that can fall minus the smallest right slope of one that
    can rise (0 if none). On Sphere: the largest component of G − (xᵀG)x that xᵢ = 0 does not excuse.
    Where ∂g has several vertices the best one is used, so 0 proves criticality.
    """
    h = problem.separable
    gradient = problem.f.gradient(x)
    left, right = one_sided_slopes(h, x)
    concave = problem.g.subgradient(x, gradient + right)
    if isinstance(problem.u, Sum):
        falls, rises = x > h.lo, x < h.hi
        if not falls.any() or not rises.any():
            return 0.0
        excess = (gradient + left + concave)[falls].max() - (gradient + right + concave)[rises].min()
        return max(0.0, float(excess))
    if problem.u.signed:
        return _signed_residual(problem, x, gradient, left, right)
    total = gradient + right + concave
    residual = total - (x @ total) * x
    return float(np.max(np.where(x > 0, np.abs(residual), np.maximum(-residual, 0.0))))


def _signed_residual(problem: Problem, x: Vector, gradient: Vector, left: Vector, right: Vector) -> float:
    """Return it on the sphere with signs; at xᵢ = 0 the slopes of h, and of −λ|xᵢ| in g, excuse what they can."""
    free, even = gradient + 0.5 * (left + right), 0.5 * (right - left)
    concave = problem.g.subgradient(x, np.where(x == 0.0, np.abs(free), free))
    total = np.where(x == 0.0, 0.0, free + concave)
    residual = np.abs(total - (x @ total) * x)
    return float(np.max(np.where(x == 0.0, np.maximum(np.abs(free) - even - np.abs(concave), 0.0), residual)))


def exactness_threshold(problem: Problem, theta: float = 0.0) -> float | None:
    """Return a λ above which every CWS point is s-sparse or has at most one coordinate off its bounds.

    * TopSum on Sum, x ≥ 0: max over feasible x of maxᵢⱼ|Dᵢ − Dⱼ|, D the slope of f + h. Moving mass from a
      coordinate outside the s largest to one inside gains λ per unit.
    * TopSum on Sphere, h = λ‖x‖₁, f = ½xᵀQx: a multiple of max‖Qx‖∞ over feasible x. Let i be the least of too many
      non-zeros and j one of the s largest. Turning i into j up to xᵢ = 0 takes λ|xᵢ| off. If f is concave it adds at
      most |∇ᵢf||xᵢ| + |∇ⱼf|(√2 − 1)|xᵢ|, so that λ > √2·max‖Qx‖∞ suffices; with signs the second term is not positive,
      because xⱼ would change its sign otherwise, and λ > max‖Qx‖∞ suffices. For other f the first instant of the turn
      adds at most |∇ᵢf||xⱼ| + |∇ⱼf||xᵢ| and takes λ|xⱼ| off: 2·max‖Qx‖∞.
    * ConcaveQuadratic on Sum: ¼·max α + ½θ makes every pair concave.
    * Norm2 on Sum with −b ≤ x ≤ b: ½·max α·√n·b.

    Here α = Q_ii + Q_jj − 2Q_ij. Without a Gram matrix the maxima are replaced by bounds from column norms.
    """
    g, h = problem.g, problem.separable
    on_line = isinstance(problem.u, Sum)
    if isinstance(g, TopSum):
        return _sparse_threshold_line(problem) if on_line else _sparse_threshold_arc(problem)
    if len(h.centre) or not on_line:
        return None
    if isinstance(g, ConcaveQuadratic):
        return 0.25 * _largest_alpha(problem) + 0.5 * theta
    if isinstance(g, Norm2):
        reach = float(h.hi[0])
        if (h.hi != reach).any() or (h.lo != -reach).any():
            return None
        return 0.5 * (_largest_alpha(problem) + 2.0 * theta) * math.sqrt(problem.n) * reach
    return None


def _uses_columns(problem: Problem) -> bool:
    return isinstance(problem.f, LeastSquares) and not problem.f.gram


def _largest_alpha(problem: Problem) -> float:
    """Return max(Q_ii + Q_jj − 2Q_ij), or the bound 4·max Q_ii where Q is not formed."""
    diagonal = problem.f.diagonal
    if _uses_columns(problem):
        return 4.0 * max(float(diagonal.max()), 0.0)
    largest = 0.0
    for first in range(0, problem.n, ROWS):
        rows = slice(first, first + ROWS)
        largest = max(largest, float((diagonal[rows, None] + diagonal[None, :] - 2.0 * problem.f.Q[rows]).max()))
    return largest


def _sparse_threshold_line(problem: Problem) -> float | None:
    """Return the threshold of TopSum on the line; None where bounds may block the move of the proof."""
    h, u = problem.separable, problem.u
    assert isinstance(u, Sum)
    s = problem.g.kernel(h.lo, h.hi).s
    # The receiver must have room: with one common upper bound and s·hi ≥ c one of the s largest has it.
    common = (h.hi == h.hi[0]).all() and s * float(h.hi[0]) >= u.c
    if (h.lo != 0.0).any() or not common:
        return None
    slope = h.weight[None, :]
    kinks = 2.0 * float(h.cost.sum(axis=0).max(initial=0.0))
    if _uses_columns(problem):
        assert isinstance(problem.f, LeastSquares)
        length = math.sqrt(float(np.abs(problem.f.diagonal).max()))
        size = math.sqrt(abs(problem.f.scale))
        residual = u.c * length + size * float(np.linalg.norm(problem.f.y))
        return 2.0 * length * residual + float(np.ptp(h.weight)) + kinks
    # The gradient is affine, so its spread is largest at a vertex c·e_k of the simplex.
    spread = max(
        float(np.ptp(u.c * problem.f.Q[first : first + ROWS] + problem.f.p[None, :] + slope, axis=1).max())
        for first in range(0, problem.n, ROWS)
    )
    return spread + kinks


def _sparse_threshold_arc(problem: Problem) -> float | None:
    """Return the threshold of TopSum on the sphere, by the norms of Q's rows, or for x ≥ 0 of their two parts."""
    u: Any = problem.u
    if not u.cancels(problem.separable, problem.g.lam) or problem.f.value(np.zeros(problem.n)) != 0.0:
        return None
    if _uses_columns(problem):
        largest = math.sqrt(problem.n) * float(np.abs(problem.f.diagonal).max())
    elif np.any(problem.f.p):
        return None
    else:
        largest = 0.0
        for first in range(0, problem.n, ROWS):
            rows = problem.f.Q[first : first + ROWS]
            for part in (rows,) if u.signed else (np.maximum(rows, 0.0), np.minimum(rows, 0.0)):
                largest = max(largest, math.sqrt(float(np.einsum("ij,ij->i", part, part).max())))
    if not problem.f.is_concave:
        return 2.0 * largest
    return largest if u.signed else math.sqrt(2.0) * largest


def check_blocks(problem: Problem) -> None:
    """Refuse what block steps do not know."""
    kernel_type = type(problem.terms().g)
    if not has_body(block.propose, kernel_type):
        raise TypeError(
            f"{type(problem.g).__name__} has no block step: register bodies of `concave_change` and `propose` "
            f"for {kernel_type.__name__} with counterpoise.kernels.dispatch.implements."
        )
    if len(problem.separable.centre) and not getattr(problem.u, "signed", False):
        raise ValueError("block steps take no AbsoluteDeviation: its kinks would cut the block; use bcd-g with k = 2.")


def check_enumeration(problem: Problem, k: int) -> None:
    """Refuse blocks whose states cannot all be tried, or for which trying all of them proves nothing."""
    check_blocks(problem)
    base = 2 if isinstance(problem.g, TopSum) else 3
    if k > MOST_ENUMERATED:
        raise ValueError(
            f"k is {k}: a block has {base}^{k} = {base**k:,} states, which are enumerated up to k = {MOST_ENUMERATED}; "
            'method="bcd-l" takes larger blocks.'
        )
    if not isinstance(problem.u, Sum):
        raise ValueError('BCD-g on Sphere solves pairs only, k = 2; method="bcd-l" takes larger blocks.')
    if isinstance(problem.g, TopSum) and not problem.f.is_convex:
        raise ValueError(
            "BCD-g with k > 2 and TopSum needs a convex f: each state is then a convex program; use k = 2."
        )
    if isinstance(problem.g, TopSum) and (problem.separable.lo < 0).any():
        raise ValueError("BCD-g with k > 2 and TopSum needs x ≥ 0: otherwise each state has a sign as well.")
    if isinstance(problem.g, Norm2):
        threshold = exactness_threshold(problem)
        if threshold is None or problem.g.lam < threshold:
            need = "bounds −b ≤ x ≤ b" if threshold is None else f"lam at least {threshold:.6g}"
            raise ValueError(f"BCD-g with k > 2 and Norm2 needs {need}, where all states are vertices; use k = 2.")
