"""What is not a problem: every refusal is one sentence of the package's own, and nothing bad is accepted."""

from __future__ import annotations

import numpy as np

import counterpoise as cp
from fuzz.claims import Examiner

BAD_NUMBERS = (
    None,
    "a",
    np.nan,
    np.inf,
    -np.inf,
    1j,
    [1.0, 2.0],
    {},
    np.ma.masked,
    "1",
    b"1",
    object(),
)
BAD_COUNTS = (0, -1, 2.5, "a", np.nan, None, True, 10**9, [2], 1j)
BAD_OPTIONS = {
    "tol": (*BAD_NUMBERS, -1.0),
    "max_time": (*(v for v in BAD_NUMBERS if v is not None), -1.0),
    "max_iter": tuple(v for v in BAD_COUNTS if v is not None and v != 10**9),
    "seed": (-1, 1.5, "a", np.nan, [1, -2], {}, object()),
    "callback": (3, "a", [1]),
    "theta": (*(v for v in BAD_NUMBERS if v is not None), -1.0),
    "k": BAD_COUNTS[:-1],
    "working_set": (3, "greed", b"greedy", ["greedy"], object()),
    "subproblem": (3, "nest", None, ["nested"], {}),
    "idle_blocks": (*BAD_COUNTS[:7], 1j),
    "work": tuple(v for v in BAD_COUNTS if v is not None and v != 10**9),
    "n_jobs": (0, "a", 1.5, [1]),
    "x0": (
        "a",
        [1.0],
        np.full(4, np.nan),
        np.full((4, 1), 0.25),
        np.array(["a"] * 4),
        np.full(4, 1e300),
        np.full(4, 0.25j),
        {},
    ),
    "method": ("bcd", None, 3, ["bcd-g"]),
    "nonsense": (1,),
}
OF = {"bcd-g": ("tol", "max_time", "max_iter", "seed", "callback", "theta", "k", "working_set", "x0", "method", "nonsense"),
      "bcd-l": ("tol", "working_set", "subproblem", "idle_blocks", "theta"),
      "swap": ("tol", "max_time", "max_iter", "seed", "callback", "x0", "nonsense"),
      "search": ("tol", "max_time", "work", "n_jobs", "seed", "callback", "x0")}  # fmt: skip


def matrices(rng):
    """Data that is no matrix of finite numbers, or whose squares are none."""
    A = rng.standard_normal((3, 4))
    spoilt = A.copy()
    spoilt[tuple(rng.integers(3, size=2))] = rng.choice([np.nan, np.inf, -np.inf])
    masked = np.ma.masked_array(A, mask=rng.random((3, 4)) < 0.3)
    masked[0, 0] = np.ma.masked
    return [spoilt, masked, A * 1e160, A * 1e200, A + 0j, A.astype(str), A[0], A[None], A[:, :1], A[:0], "A", None, [[1.0, 2.0], [3.0]], {}]  # fmt: skip


def examine(seed, index):
    """Make one bad call of every kind."""
    rng = np.random.default_rng([seed, index, 3])
    A, y = rng.standard_normal((3, 4)), rng.standard_normal(3)
    good = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1), cp.TopSum(2, 50.0), cp.Sum(1))
    spec = {"f": {"kind": "ls", "A": A.tolist(), "y": y.tolist(), "scale": 1.0}, "lo": [0.0] * 4, "hi": [1.0] * 4, "w": [0.0] * 4, "kinks": [], "g": {"kind": "top", "lam": 50.0, "s": 2}, "u": {"kind": "sum", "c": 1.0}, "n": 4}  # fmt: skip
    one = Examiner(spec, brute=False, problem=good)

    def refused(run, do):
        before = len(one.findings)
        result = one.call(run, do, finite=False)
        if result is not None and len(one.findings) == before:
            one.made("refused", False, run, f"accepted: {result!r}"[:300])

    for data in matrices(rng):
        refused(
            f"LeastSquares({_short(data)})",
            lambda data=data: cp.minimize(
                cp.Problem(cp.LeastSquares(data, 0.0), cp.Bounds(0, 1), u=cp.Sum(1)), max_time=2.0
            ),
        )
        refused(
            f"Quadratic({_short(data)})",
            lambda data=data: cp.minimize(
                cp.Problem(
                    cp.Quadratic(data[:, :3] if getattr(data, "ndim", 0) == 2 else data), cp.Bounds(0, 1), u=cp.Sum(1)
                ),
                max_time=2.0,
            ),
        )
        refused(f"certify(x={_short(data)})", lambda data=data: cp.certify(good, data))
    for value in BAD_NUMBERS:
        said = _short(value)
        refused(f"TopSum(2, {said})", lambda value=value: cp.TopSum(2, value))
        refused(f"Norm2({said})", lambda value=value: cp.Norm2(value))
        refused(f"ConcaveQuadratic({said})", lambda value=value: cp.ConcaveQuadratic(value))
        refused(f"LeastSquares(A, y, scale={said})", lambda value=value: cp.LeastSquares(A, y, scale=value))
        if (not (isinstance(value, float) and np.isinf(value)) and np.ndim(value) == 0) or isinstance(value, dict):
            refused(
                f"Bounds({said})",
                lambda value=value: cp.Problem(cp.LeastSquares(A, y), cp.Bounds(value, 1), u=cp.Sum(1)),
            )
            refused(
                f"Sum({said})", lambda value=value: cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1), u=cp.Sum(value))
            )
    for value in BAD_COUNTS:
        refused(
            f"TopSum({_short(value)}, 1)",
            lambda value=value: cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1), cp.TopSum(value, 1.0), cp.Sum(1)),
        )
    _terms(refused, A, y)
    for method, names in OF.items():
        name = str(rng.choice(names))
        for value in BAD_OPTIONS[name]:
            options = {"method": method, "max_time": 2.0, name: value}
            refused(
                f"minimize(method={method!r}, {name}={_short(value)})",
                lambda options=options: cp.minimize(good, options.pop("x0", None), **options),
            )
    refused(
        "Bounds(-1e308, 1e308)",
        lambda: cp.minimize(cp.Problem(cp.LeastSquares(A, y), cp.Bounds(-1e308, 1e308), u=cp.Sum(1)), max_time=2.0),
    )
    refused("certify(3, x)", lambda: cp.certify(3, np.full(4, 0.25)))
    refused("minimize(3)", lambda: cp.minimize(3))
    refused("Problem(3)", lambda: cp.Problem(3, u=cp.Sum(1)))
    return one


def _terms(refused, A, y):
    """Bad numbers, counts, arrays and groups for losses, separable terms and constraints."""
    labels = np.array([1.0, -1.0, 1.0])

    def solved(f=None, h=None, g=None, u=None):
        bounds = cp.Bounds(0, 1) if h is None else cp.Bounds(0, 1) + h
        return cp.minimize(
            cp.Problem(cp.LeastSquares(A, y) if f is None else f, bounds, g, u or cp.Sum(1)), max_time=2.0
        )

    for value in (*(v for v in BAD_NUMBERS if v is not None), -1.0):
        said, one = _short(value), np.ndim(value) == 0
        refused(f"Huber(A, y, {said})", lambda value=value: solved(cp.Huber(A, y, value)))
        refused(f"HuberDownside(A, y, {said})", lambda value=value: solved(cp.HuberDownside(A, y, value)))
        refused(f"Downside(A, y, ties={said})", lambda value=value: solved(cp.Downside(A, y, ties=value)))
        refused(f"Logistic(A, {said})", lambda value=value: solved(cp.Logistic(A, value)))
        refused(f"Huber(A, y, 1, weights={said})", lambda value=value: solved(cp.Huber(A, y, 1.0, value)))
        refused(f"LeastSquares(A, y, weights={said})", lambda value=value: solved(cp.LeastSquares(A, y, weights=value)))
        refused(f"Ridge(0, {said})", lambda value=value: solved(h=cp.Ridge(0.0, value)))
        refused(f"AbsoluteDeviation(0, {said})", lambda value=value: solved(h=cp.AbsoluteDeviation(0.0, value)))
        refused(f"AbsoluteDeviation(0, 1, {said})", lambda value=value: solved(h=cp.AbsoluteDeviation(0.0, 1.0, value)))
        refused(f"SemiContinuous({said})", lambda value=value: solved(h=cp.SemiContinuous(value)))
        refused(f"Sum(1, weights={said})", lambda value=value: solved(u=cp.Sum(1, weights=value)))
        if one and value != -1.0:
            refused(f"Ridge({said}, 1)", lambda value=value: solved(h=cp.Ridge(value, 1.0)))
            refused(f"within(limits={said})", lambda value=value: solved(u=cp.Sum(1).within([0, 0, 1, 1], {0: value})))
    for value in BAD_COUNTS:
        refused(f"AtMost({_short(value)})", lambda value=value: solved(g=cp.AtMost(value)))
    for value in (None, 0, "yes", np.nan, [True]):
        refused(f"Sphere(signed={_short(value)})", lambda value=value: cp.Sphere(signed=value))
    for value in (np.zeros(3), labels * 2.0, labels[:2], np.full(3, np.nan)):
        refused(f"Logistic(A, {_short(value)})", lambda value=value: solved(cp.Logistic(A, value)))
    for value in (np.array([1.0, 0.0, 1.0, 1.0]), np.ones(3), np.array([1.0, 1e-20, 1.0, 1.0]), np.ones((4, 1))):
        refused(f"Sum(1, weights={_short(value)})", lambda value=value: solved(u=cp.Sum(1, weights=value)))
    for groups, limits in (
        *(
            ([0, 0, 1], {0: 0.5}),
            ({0: [0, 4]}, {0: 0.5}),
            ({0: [-1]}, {0: 0.5}),
            ({0: [0.5]}, {0: 0.5}),
            ({0: []}, {0: 0.5}),
        ),
        *(
            ({0: [0, 1], 1: [1, 2]}, {0: 0.5, 1: 0.5}),
            ({0: [0]}, {1: 0.5}),
            ({0: [0]}, {0: (0.6, 0.4)}),
            ({0: [0]}, [0.5]),
        ),
        *(
            ({0: [0]}, {0: 2.0}),
            (3, {0: 0.5}),
            ({0: [0, 1]}, {0: (1, 2, 3)}),
            ({0: "a"}, {0: 0.5}),
            ({0: [0, 1, 2, 3]}, {0: 0.5}),
        ),
    ):
        refused(f"within({groups!r}, {limits!r})", lambda g=groups, at=limits: solved(u=cp.Sum(1).within(g, at)))


def _short(value):
    if isinstance(value, np.ndarray) and value is not np.ma.masked:
        return (
            f"{type(value).__name__} {value.dtype} {value.shape}, largest {np.abs(value).max():g}"
            if value.dtype.kind == "f" and value.size
            else f"array {value.dtype} {value.shape}"
        )
    return "object" if type(value) is object else repr(value)[:40]
