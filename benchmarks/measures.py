"""Tracking measures on the index sets, against the MM algorithm of Benidis, Feng and Palomar, and times of losses.

    python benchmarks/measures.py --data DIR [--quick] [--huber 0.0025] [--lam 5e-7]

Returns are daily fractions, as in the files. Objectives are sums over days in the unit of the literature, e² for an
error e (twice the φ of the library). Weights are at most 0.5, and we hold as many names as the peer ends with. The peer
is our own implementation of K. Benidis, Y. Feng and D. P. Palomar, "Optimization Methods for Financial Index Tracking"
(2018): the sparsity penalty is replaced by its tangent and the measure by a quadratic with the largest eigenvalue, so
that each step has a closed form (SLAIT), accelerated by SQUAREM, for a decreasing sequence of the penalty's p. Its
names are those with weights above 1e-9. ``refit`` is the objective with the best weights on the peer's names, a step
that is not part of its algorithm.

The second table compares the times to a point certified over all pairs of a quadratic model, relative to least squares.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import counterpoise as cp
from counterpoise.checks import Vector
from counterpoise.solvers.loss_line import LossLine

MEASURES = ("ete", "dr", "hete", "hdr")
MOST = 0.5
CONTINUATION = 10.0 ** -np.linspace(1.0, 7.0, 7)
STEPS, SMALLEST = 500, 1e-9


def slopes(measure: str, error: Vector, huber: float) -> Vector:
    """Return half of the derivative of the measure by the error of every day."""
    low, high = {"ete": (-np.inf, np.inf), "dr": (0.0, np.inf), "hete": (-huber, huber), "hdr": (0.0, huber)}[measure]
    clipped: Vector = np.clip(error, low, high)
    return clipped


def total(measure: str, error: Vector, huber: float) -> float:
    """Return the measure, summed over the days."""
    inner = slopes(measure, error, huber)
    return float(np.sum(inner * (2.0 * error - inner)))


def capped_simplex(point: Vector, most: float) -> Vector:
    """Return the nearest point with 0 ≤ w ≤ most and Σw = 1, by bisection of the shift."""
    low, high = point.min() - most, point.max()
    for _ in range(45):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.clip(point - middle, 0.0, most).sum() > 1.0 else (low, middle)
    w = np.clip(point - 0.5 * (low + high), 0.0, most)
    weights: Vector = w / w.sum()
    return weights


def majorise_minimise(
    returns: Vector, index: Vector, measure: str, lam: float, huber: float, most: float = MOST
) -> Vector:
    """Return the weights of the MM algorithm."""
    days, n = returns.shape
    bound = np.linalg.norm(returns, 2) ** 2 / days
    w = np.full(n, 1.0 / n)
    for p in CONTINUATION:
        scale = np.log1p(most / p)

        def objective(w: Vector, p: float = p, scale: float = scale) -> float:
            penalty = lam * float(np.log1p(w / p).sum()) / scale
            return float(total(measure, index - returns @ w, huber) / days + penalty)

        def step(w: Vector, p: float = p, scale: float = scale) -> Vector:
            tangent = lam / (scale * (p + w))
            gradient = -2.0 / days * (returns.T @ slopes(measure, index - returns @ w, huber)) + tangent
            return capped_simplex(w - gradient / (2.0 * bound), most)

        value = objective(w)
        for _ in range(STEPS):
            first = step(w)
            second = step(first)
            r, v = first - w, second - 2.0 * first + w
            jump = -max(1.0, float(np.linalg.norm(r)) / max(float(np.linalg.norm(v)), 1e-300))
            ahead = capped_simplex(w - 2.0 * jump * r + jump * jump * v, most)
            while objective(ahead) > value and jump < -1.0:
                jump = 0.5 * (jump - 1.0) if jump < -1.01 else -1.0
                ahead = capped_simplex(w - 2.0 * jump * r + jump * jump * v, most)
            moved, w, last, value = np.linalg.norm(ahead - w), ahead, value, objective(ahead)
            if moved <= 1e-8 or last - value <= 1e-8 * abs(last):
                break
    w[w < SMALLEST] = 0.0
    weights: Vector = w / w.sum()
    return weights


def refit(returns: Vector, index: Vector, measure: str, huber: float, w: Vector) -> float:
    """Return the measure with the best weights on the names of w."""
    tracker = cp.IndexTracker(int(np.count_nonzero(w)), max_weight=MOST, method="bcd-g", **options(measure, huber))
    held = returns[:, w > 0.0]
    problem: Any = tracker.fit(held, index).problem_
    at = w[w > 0.0]
    if measure == "ete":
        return 2.0 * float(cp.minimize(problem, at, method="bcd-g").objective)
    return total(measure, index - held @ LossLine(problem).weighted(at), huber)


def options(measure: str, huber: float) -> dict[str, Any]:
    """Return how a tracker states a measure."""
    return {"measure": measure, **({"huber": huber} if measure in ("hete", "hdr") else {})}


def compare(folder: Path, names: list[str], huber: float, lam: float) -> None:
    """Print ours against the peer for every set and measure."""
    print(
        f"{'set':8}{'measure':8}{'names':>6}{'ours':>12}{'peer':>12}{'refit':>12}{'ratio':>8}{'ours s':>8}{'peer s':>8}"
    )
    worse = 0
    for name in names:
        with np.load(folder / f"{name}.npz") as file:
            returns, index = file["R"].astype(float), file["y"].astype(float)
        for measure in MEASURES:
            began = time.perf_counter()
            w = majorise_minimise(returns, index, measure, lam, huber)
            peer, peer_time = total(measure, index - returns @ w, huber), time.perf_counter() - began
            held = int(np.count_nonzero(w))
            tracker = cp.IndexTracker(held, max_weight=MOST, random_state=0, max_time=1.9, **options(measure, huber))
            began = time.perf_counter()
            tracker.fit(returns, index)
            seconds = time.perf_counter() - began
            ours = total(measure, index - returns @ tracker.coef_, huber)
            worse += ours >= peer
            again = refit(returns, index, measure, huber, w)
            print(
                f"{name:8}{measure:8}{held:6}{ours:12.3e}{peer:12.3e}{again:12.3e}{ours / peer:8.3f}"
                f"{seconds:8.2f}{peer_time:8.2f}",
                flush=True,
            )
    print(f"Cells in which the peer is not above ours: {worse}.")


def times(repeats: int) -> None:
    """Print the times to a certified point, relative to least squares, for 500 columns and 252 rows."""
    rng = np.random.default_rng(0)
    A = 0.01 * (rng.standard_normal((252, 1)) + rng.standard_normal((252, 500)))
    y = A @ rng.dirichlet(np.ones(500)) + 0.001 * rng.standard_normal(252)
    labels = np.where(y > 0.0, 1.0, -1.0)
    terms: dict[str, Any] = {
        "LeastSquares": cp.LeastSquares(A, y),
        "Huber": cp.Huber(A, y, 0.001),
        "Downside": cp.Downside(A, y),
        "HuberDownside": cp.HuberDownside(A, y, 0.001),
        "Logistic": cp.Logistic(100.0 * A, labels),
    }
    print(f"\n{'loss':16}{'seconds':>10}{'ratio':>8}  status")
    base = 1.0
    for name, f in terms.items():
        problem = cp.Problem(f, cp.Bounds(0, 1), cp.AtMost(30), cp.Sum(1))
        cp.minimize(problem, method="bcd-g", max_time=5.0)
        runs = [cp.minimize(problem, method="bcd-g", seed=seed) for seed in range(repeats)]
        seconds = float(np.median([run.time for run in runs]))
        base = seconds if name == "LeastSquares" else base
        print(f"{name:16}{seconds:10.4f}{seconds / base:8.1f}  {runs[0].status.name}")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("COUNTERPOISE_DATA"))
    parser.add_argument("--quick", action="store_true", help="two sets, fewer repeats")
    parser.add_argument("--huber", type=float, default=0.0025)
    parser.add_argument("--lam", type=float, default=5e-7)
    args = parser.parse_args()
    if args.data is None:
        parser.error("give --data DIR, a folder with index_tracking, or set COUNTERPOISE_DATA.")
    cp.IndexTracker(2, measure="dr", random_state=0, work=4).fit(*_small())  # compiles, or reads kernels from disk
    years = range(16, 21)
    names = ["NAS-16", "SP-20"] if args.quick else [f"{kind}-{year}" for kind in ("NAS", "SP") for year in years]
    compare(args.data / "index_tracking", names, args.huber, args.lam)
    times(2 if args.quick else 5)


def _small() -> tuple[Vector, Vector]:
    rng = np.random.default_rng(0)
    returns = 0.01 * rng.standard_normal((40, 6))
    return returns, returns.mean(axis=1)


if __name__ == "__main__":
    main()
