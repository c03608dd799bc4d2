"""Certificates of a point: how far it is from being coordinate-wise stationary (CWS), critical or swap-optimal."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np

from counterpoise.checks import Vector, choice, number, vector, whole_number
from counterpoise.kernels import block, block_states, sweep
from counterpoise.kernels.dispatch import has_body
from counterpoise.kernels.pair import Terms
from counterpoise.problem import Problem
from counterpoise.registry import pool_for, serving, strategy_for
from counterpoise.supervision import supervised
from counterpoise.terms.separable import (
    distance_to_bounds,
    is_gapped,
    nearest_admitted,
    one_sided_slopes,
    smooth_slopes,
    take,
)

MOST_ENUMERATED = 6


@dataclasses.dataclass(frozen=True)
class Certificate:
    """Measures of how far a point is from optimality.

    Attributes
    ----------
    cws_gap : float
        The largest decrease of F (plus ½θ‖d‖²) from moving one pair; 0 at a CWS point. If f is not quadratic, F is
        replaced by ``problem.model(x)``, an upper bound with the same value and slopes at x, here and in ``block_gap``.
        The decrease of F itself may then be larger.
    worst_pair : tuple of int, or None
        The pair with that decrease.
    worst_step : tuple of float, or None
        The changes of its two coordinates.
    critical_residual : float
        The first-order residual; 0 at a critical point. NaN for a constraint of your own. On ``Sum(c, weights=a)`` it
        is what moving one unit of the sum aᵀx gains, the largest ∂ⱼF/aⱼ − ∂ᵢF/aᵢ, not one unit of x.
    violation : float
        The distance from the bounds and from u(x) = 0.
    exact_lam : float or None
        With λ above this, every CWS point (θ = 0) is s-sparse (TopSum) or has at most one coordinate off
        its bounds (Norm2, ConcaveQuadratic). None where no theorem covers the problem.
    exact : bool or None
        Whether the problem's λ is above ``exact_lam``.
    objective : float
    block_gap : float or None
        The largest decrease over the blocks tried; None if ``k`` is 2.
    blocks_tried, blocks_in_all : int
        0 if ``k`` is 2.
    convex_gap : float or None
        An upper bound on F(x) − F*, where F* is the minimum of F. None unless F is convex on the whole feasible set:
        f is convex, u is ``Sum``, there is no ``SemiContinuous``, and g is absent or leaves all coordinates free.
    support_gap : float or None
        An upper bound on what other weights on the support of x can gain: F(x) minus the least F over feasible points
        whose non-zeros are among those of x. Points with another support may be much better. It is given for a convex f
        on ``Sum`` with ``AtMost``, or with ``TopSum`` and bounds of at least 0, if x has at most s non-zeros; and with
        ``SemiContinuous`` and no g, where semicontinuous coordinates at 0 stay 0 and others stay at or above their
        floors. None otherwise.
    swap_gap : float or None
        With ``level="swap"``: the largest decrease of f + h that was found, by better weights on the support of x
        followed by the exchange of one held coordinate for one outside. On ``Sphere`` it comes from eigenvalues and is
        exact up to the rounding error of the largest one.
    swap_bound : float or None
        With ``level="swap"``: a proved upper bound on the decrease of f + h by the best weights on the support of x
        followed by one exchange; a coordinate whose best weight is 0 makes room for another. On ``Sum`` and
        ``Sphere(signed=True)`` it differs from ``swap_gap`` only by rounding. On ``Sphere()``, where finding the best
        weights is not a convex problem, it may be larger, because eigenvalues only bound them.
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
    support_gap: float | None = None
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
    """Compute the certificates of a point.

    Parameters
    ----------
    problem : Problem
    x : array of length n
        It may violate the constraints by at most 1e-6 times the largest |xᵢ| of any feasible point.
    theta : float
        The proximal weight of the definition of CWS; 0 is the strongest claim. With weights a of ``Sum`` it weighs the
        step of a∘x.
    scan : {"pruned", "all"}
        "pruned" bounds most pairs instead of solving them, "all" solves every one; the gaps agree.
    k, n_blocks, seed : int
        With k from 3 to 6, solve blocks of k coordinates as well: all of them if there are no more than ``n_blocks``,
        otherwise ``n_blocks`` random ones, half of each drawn from the coordinates above their lower bound.
    level : {"pair", "swap"}
        "swap" also examines exchanges of held coordinates, for ``TopSum`` or ``AtMost`` and at most s non-zeros in x.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem is of type {type(problem).__name__}; it must be a counterpoise.Problem.")
    choice(level, "level", ("pair", "swap"))
    choice(scan, "scan", ("pruned", "all"))
    x = vector(x, "x", problem.n)
    theta, k = number(theta, "theta", 0.0), whole_number(k, "k", 2, problem.n)
    n_blocks = whole_number(n_blocks, "n_blocks", 1)
    if problem.u.weights is not None:
        a = problem.u.weights
        beyond = distance_to_bounds(problem.separable, x)
        if beyond > 1e-6 * float(np.abs(x).max()):
            raise ValueError(f"x violates its bounds by {beyond:g}; certify problem.project(x) instead.")
        inner = certify(problem.unweighted, a * x, theta, scan, k, n_blocks, seed, level)
        pair, step = list(inner.worst_pair or ()), None
        if inner.worst_step is not None:
            # From the new values, because x + d is then exactly 0 where a∘x + d is.
            new = nearest_admitted(take(problem.separable, pair), ((a * x)[pair] + inner.worst_step) / a[pair])
            step = float(new[0] - x[pair[0]]), float(new[1] - x[pair[1]])
        return dataclasses.replace(inner, worst_step=step, violation=problem.violation(x))
    violation = problem.violation(x)
    if violation > 1e-6 * max(problem.scale, 1e-300):
        count, most = np.count_nonzero(x), problem.most_nonzeros
        why = (
            f"violates the constraints by {violation:g}"
            if count <= most
            else f"has {count} non-zeros, more than {most}"
        )
        raise ValueError(f"x {why}; certify problem.project(x) instead.")
    at = nearest_admitted(problem.separable, x)
    if np.count_nonzero(at) > problem.most_nonzeros:
        # Moves are examined from a point that g allows: a coordinate that is 1e-12 instead of 0 would block them.
        at = problem.project(at)
    blocks: dict[str, Any] = {}
    pool = pool_for(problem)
    if scan == "pruned" and theta == 0.0 and k == 2 and hasattr(pool, "best_pair"):
        # On the sphere, very many columns are scanned by products with them instead of by kernels.
        at[:] = problem.project(at)
        gap, i, j, di, dj = pool.best_pair(at)
    else:
        terms = problem.model(at).terms()
        sweep.start(terms, at)  # moves `at` onto its bounds and u(x) = 0, which it may miss by rounding
        if problem.f.quadratic is None:
            terms = problem.model(at).terms()
            sweep.start(terms, at)
        found = sweep.scan_all(terms, at, theta) if scan == "all" else sweep.scan(terms, at, theta, np.inf)
        gap, i, j, di, dj = found
        if k > 2:
            blocks = _block_gap(problem, terms, at, theta, k, n_blocks, seed)
    if level == "swap":
        by_columns = problem.by_columns
        own, gain, leaves, enters, bound = swap_gap(by_columns, at, pool_for(by_columns))
        blocks |= {"swap_gap": own + gain, "swap_bound": bound}
        blocks["worst_swap"] = (leaves, enters) if enters >= 0 else None
    blocks |= named_gap(problem, convex_gap(problem, at))
    threshold = exactness_threshold(problem)
    return Certificate(
        cws_gap=float(gap),
        worst_pair=(int(i), int(j)) if i >= 0 else None,
        worst_step=(float(at[i] + di - x[i]), float(at[j] + dj - x[j])) if i >= 0 else None,
        critical_residual=critical_residual(problem, at),
        violation=violation,
        exact_lam=threshold,
        exact=None if threshold is None else problem.g.lam > threshold,
        objective=problem.objective(x),
        **blocks,
    )


def swap_gap(problem: Problem, x: Vector, pool: Any = None) -> tuple[float, float, int, int, float]:
    """Return (own, gain, leaves, enters, bound) for exchanges at an s-sparse x.

    ``own`` is the gain of the best weights on the support of x, ``gain`` that of an exchange in addition, and ``bound``
    a proved bound on their sum. ``leaves`` is −1 if there is room for another coordinate, ``enters`` is −1 if no
    exchange gains. With a ``pool`` the columns are priced without the Gram matrix.
    """
    strategy = serving(problem, "swap")
    if not strategy.has_supports:
        raise ValueError(f"exchanges need a g that leaves s coordinates free; g is {type(problem.g).__name__}.")
    held, s = np.count_nonzero(x), problem.g.s
    if held > s:
        raise ValueError(f"x has {held} non-zeros; exchanges are defined for at most s = {s}.")
    found: tuple[float, float, int, int, float] = (strategy(problem) if pool is None else pool).gap(x)
    return found


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

    chosen = itertools.combinations(range(n), k) if in_all <= n_blocks else (draw() for _ in range(n_blocks))
    blocks: Any = (np.array(one, dtype=np.int64) for one in chosen)
    gaps = [block.best_of_block(terms, x, one, theta, block.ENUMERATED, np.empty(k)) for one in blocks]
    return {"block_gap": float(max(gaps)), "blocks_tried": len(gaps), "blocks_in_all": in_all}


def convex_members(problem: Problem, x: Vector) -> Any:
    """Return coordinates over which F is convex while the others stay fixed; None if no such set is known.

    These are all coordinates if there is no g, or if g leaves all of them free; otherwise the non-zeros of x, if g is
    constant over the points with no other non-zeros (``g.free`` at least as many). A semicontinuous coordinate is a
    member if it is not 0, and then stays at or above its floor.
    """
    g, h = problem.g, problem.separable
    members = np.flatnonzero((x != 0.0) | (h.floor <= h.lo))
    if g.lam > 0.0:
        if problem.free is None or ((h.lo < 0.0).any() and math.isfinite(g.lam)):
            return None
        if problem.free < problem.n:
            members = np.flatnonzero(x)
            if len(members) > problem.free:
                return None
    # Checked last, because for a given Q it takes a factorisation.
    return members if problem.u.is_line and problem.f.is_convex else None


def convex_gap(problem: Problem, x: Vector) -> float | None:
    """Return an upper bound on F(x) − F*, F* the least F if only :func:`convex_members` move; None without members.

    The smaller of :func:`slope_gap` and, if f is nowhere negative and h + g is constant, f(x). Near f = 0 the latter is
    free of the rounding errors of slopes.
    """
    gap, h = slope_gap(problem, x), problem.separable
    is_plain = len(h.centre) == 0 and not h.weight.any() and not h.bend.any()
    return gap if gap is None or not (problem.f.is_nonnegative and is_plain) else min(gap, float(problem.f.value(x)))


def is_convex_everywhere(problem: Problem) -> bool:
    """Return whether F is convex on the whole feasible set, which is convex as well."""
    members = convex_members(problem, np.zeros(problem.n)) if problem.is_convex_set else None
    return members is not None and len(members) == problem.n


def named_gap(problem: Problem, gap: float | None) -> dict[str, float | None]:
    """Return a value of :func:`convex_gap` under the name that says over which points it is a bound."""
    everywhere = gap is not None and is_convex_everywhere(problem)
    return {"convex_gap": gap if everywhere else None, "support_gap": None if everywhere else gap}


def slope_gap(problem: Problem, x: Vector) -> float | None:
    """Return the bound of :func:`convex_gap` by slopes; None without members.

    By convexity F(x) − F(z) ≤ ⟨∇f(x), x − z⟩ + h(x) − h(z) (the Frank–Wolfe gap), where f includes the smooth part of
    h. The z that maximises the right side is found by filling the pieces of h in the order of their slopes.
    """
    members = convex_members(problem, x)
    return None if members is None else linear_gap(problem, x, members, problem.f.gradient(x))


def linear_gap(problem: Problem, x: Vector, members: Any, gradient: Vector) -> float:
    """Return the bound of :func:`slope_gap` for given members; ``gradient`` is that of f, used at members only."""
    slopes, h, tree = gradient + smooth_slopes(problem.separable, x), problem.separable, problem.u.tree(problem.n)
    lo, hi, centre, cost = np.maximum(h.lo, h.floor), h.hi, h.centre, h.cost
    if not np.isfinite(lo[members]).all():
        x, slopes, lo, hi, centre, tree = -x, -slopes, -hi, -lo, -centre, tree.mirrored()
    total, base = float(x.sum()), x.copy()
    base[members] = lo[members]
    edges = np.sort(np.vstack([lo, np.clip(centre, lo, hi), hi]), axis=0)[:, members]
    cost, centre = cost[:, members], centre[:, members]
    kinked = np.where(edges[:-1, None, :] >= centre[None], cost[None], -cost[None]).sum(axis=1)
    pieces = (slopes[members] + kinked).ravel()
    # A piece can take at most what is left of the sum.
    lengths = np.minimum((edges[1:] - edges[:-1]).ravel(), max(total - float(base.sum()), 0.0))
    z = tree.cheapest(pieces, lengths, np.tile(members, len(edges) - 1), base, total)
    used = pieces[(z > base)[np.tile(members, len(edges) - 1)]]
    # Both points have the same sum, so a common slope can be subtracted, which reduces rounding error near an optimum.
    shared = float(np.median(used)) if len(used) else 0.0
    at, end = x[members], z[members]
    gap = (slopes[members] - shared) * (at - end) + (cost * (np.abs(at - centre) - np.abs(end - centre))).sum(axis=0)
    return max(float(gap.sum()), 0.0)


def critical_residual(problem: Problem, x: Vector) -> float:
    """Return how far 0 is from ∇f + ∂h + ∂g + N_Ω at x.

    On Sum: the largest left slope of a coordinate that can fall minus the smallest right slope of one that can rise in
    exchange (0 if there is no such pair). On Sphere: the largest |component| of G − (xᵀG)x, G the slope of F; where
    xᵢ = 0, only negative components count. Where ∂g has several vertices, the best one is used, so that 0 proves
    criticality. Zeros that ``AtMost`` keeps at 0, and semicontinuous coordinates at 0, cannot rise.
    """
    h = problem.separable
    gradient = problem.f.gradient(x)
    left, right = one_sided_slopes(h, x)
    concave = problem.g.subgradient(x, gradient + right)
    zero = x == 0.0
    full = bool(np.count_nonzero(x) >= problem.most_nonzeros)
    if problem.u.is_line:
        stays = zero & ((h.floor > h.lo) | full)
        falls, rises = (x > np.maximum(h.lo, h.floor)) & ~stays, (x < h.hi) & ~stays
        rising = np.where(rises, gradient + right + concave, np.inf)
        falling = np.where(falls, gradient + left + concave, -np.inf)
        return float(problem.u.tree(problem.n).best_transfer(x, rising, falling, problem.scale).rate)
    if not problem.u.is_sphere:
        return math.nan
    if problem.u.signed:
        # At xᵢ = 0 the residual is less the slopes of h, and of −λ|xᵢ| in g.
        free, even = gradient + 0.5 * (left + right), 0.5 * (right - left)
        concave = problem.g.subgradient(x, np.where(zero, np.abs(free), free))
        total = np.where(zero, 0.0, gradient + right + concave)
        residual = np.abs(total - (x @ total) * x)
        at_zero = 0.0 if full else np.maximum(np.abs(free) - even - np.abs(concave), 0.0)
        return float(np.max(np.where(zero, at_zero, residual)))
    total = gradient + right + concave
    residual = total - (x @ total) * x
    return float(np.max(np.where(x > 0, np.abs(residual), 0.0 if full else np.maximum(-residual, 0.0))))


def exactness_threshold(problem: Problem, theta: float = 0.0) -> float | None:
    """Return a λ above which every CWS point is s-sparse or has at most one coordinate off its bounds.

    * TopSum on Sum, x ≥ 0: max over feasible x of maxᵢⱼ|Dᵢ − Dⱼ|, D the slope of f + h. Moving mass from a
      coordinate outside the s largest to one inside gains λ per unit.
    * TopSum on Sphere, f = −½‖Ax‖², h = λ‖x‖₁: √2·max‖Gx‖∞, G = AᵀA; with signs max‖Gx‖∞.
    * ConcaveQuadratic on Sum: ¼·max α + ½θ makes every pair concave.
    * Norm2 on Sum with −b ≤ x ≤ b: ½·max α·√n·b.
    * AtMost: 0, because sparsity is a constraint.

    Here α = Q_ii + Q_jj − 2Q_ij. Without a Gram matrix the maxima are replaced by bounds from column norms. If f is not
    quadratic, Q is that of its upper bound, and slopes are bounded row by row. None if no theorem covers the problem.
    """
    if problem.g.lam == math.inf:
        return 0.0
    strategy = strategy_for(problem)
    return None if strategy is None else strategy.threshold(problem, theta)


def check_blocks(problem: Problem) -> None:
    """Refuse terms without block steps."""
    g, u, h = problem.g, problem.u, problem.separable
    for term, kernel_type, needed in (
        (g, type(g.kernel(h.lo, h.hi)), block_states.concave_change),
        (g, type(g.kernel(h.lo, h.hi)), block_states.propose),
        (u, type(u.kernel(h)), block_states.solve_state),
        (u, type(u.kernel(h)), block_states.stays),
    ):
        if not has_body(needed, kernel_type):
            raise TypeError(
                f"{type(term).__name__} has no block step: register a body of `{needed.__name__}` for "
                f"{kernel_type.__name__} with counterpoise.kernels.dispatch.implements."
            )


def check_enumeration(problem: Problem, k: int) -> None:
    """Refuse blocks whose states cannot all be tried, or for which trying all of them proves nothing."""
    check_blocks(problem)
    sparse = problem.free is not None
    base = 2 if sparse else 3
    if k > MOST_ENUMERATED:
        raise ValueError(
            f"k is {k}: a block has {base}^{k} = {base**k:,} states, which are enumerated up to k = {MOST_ENUMERATED}; "
            'method="bcd-l" takes larger blocks.'
        )
    if not problem.u.is_line:
        raise ValueError('BCD-g on Sphere solves pairs only, k = 2; method="bcd-l" takes larger blocks.')
    which = f"BCD-g with k > 2 and {type(problem.g).__name__ if problem.g.lam > 0.0 else 'no g'}"
    if is_gapped(problem.separable) and problem.g.lam != math.inf:
        raise ValueError(
            "BCD-g with k > 2 takes SemiContinuous only with AtMost, whose states choose the non-zeros; use k = 2."
        )
    if not sparse and (len(problem.separable.centre) or problem.u.groups):
        raise ValueError(
            f"{which} takes neither AbsoluteDeviation nor limits of groups, which cut the faces that are enumerated; "
            "use k = 2."
        )
    if sparse and not problem.f.is_convex:
        raise ValueError(f"{which} needs a convex f: each state is then a convex program; use k = 2.")
    if sparse and (problem.separable.lo < 0).any():
        raise ValueError(f"{which} needs x ≥ 0: otherwise each state has a sign as well.")
    if getattr(problem.g, "states_are_vertices", False):
        threshold = exactness_threshold(problem)
        if threshold is None or problem.g.lam < threshold:
            need = "bounds −b ≤ x ≤ b" if threshold is None else f"lam at least {threshold:.6g}"
            raise ValueError(f"{which} needs {need}, where all states are vertices; use k = 2.")
