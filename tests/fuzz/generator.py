"""Random problems from the grammar f × h × g × u, with the cases that break solvers. Nothing here imports the package.

``spec(seed, index)`` always gives the same problem, so that a finding is told by two numbers.
"""

from __future__ import annotations

import numpy as np

from fuzz.enrich import enriched

# How many of the problems have terms of ``enrich.py``.
RICH = 0.6
SMALL, MEDIUM = (2, 8), (10, 60)


def spec(seed, index, sizes=SMALL, plain=False, rich=True):
    """Return problem ``index`` of a seed.

    ``plain`` leaves out storage formats that need kernels of their own. Without ``rich`` the terms are those that there
    were first, so that what was found with them can be run again.
    """
    rng = np.random.default_rng([seed, index, sizes[1]])
    n = _size(rng, sizes)
    on_line = rng.random() < 0.72
    f = _smooth(rng, n, on_line)
    lo, hi = _bounds(rng, n) if on_line else (np.zeros(n), np.full(n, np.inf))
    made = {"seed": seed, "index": index, "n": n, "f": f, "lo": lo, "hi": hi}
    made["u"] = {"kind": "sum", "c": _total(rng, lo, hi)} if on_line else {"kind": "sphere"}
    made["g"] = _concave(rng, n, curvature(f), on_line, lo)
    made["w"], made["kinks"] = _separable(rng, made, on_line)
    if f["kind"] == "ls" and rng.random() < 0.15:
        f["y"] = _attained(rng, made)
    if not plain and f["kind"] == "ls" and rng.random() < 0.15:
        f["storage"] = str(rng.choice(["columns", "csc", "csr-columns"]))
    if rich:
        rng = np.random.default_rng([seed, index, sizes[1], 1])
        made = enriched(made, rng) if rng.random() < RICH else made
    return plainly(made)


def plainly(value):
    """Return arrays as lists and NumPy numbers as Python's, so that a problem prints as it is typed."""
    if isinstance(value, dict):
        return {key: plainly(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plainly(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def curvature(f):
    """The size of the Hessian of f."""
    if f["kind"] == "quad":
        return float(np.abs(f["Q"]).max()) or 1.0
    A = np.asarray(f["A"])
    return float(abs(f.get("scale", 1.0)) * (A * A).sum(axis=0).max()) or 1.0


def _size(rng, sizes):
    if sizes == SMALL:
        return int(rng.choice(np.arange(2, 9), p=[0.08, 0.17, 0.25, 0.25, 0.13, 0.08, 0.04]))
    return int(rng.integers(sizes[0], sizes[1] + 1))


def _smooth(rng, n, on_line):
    scale = 10.0 ** rng.uniform(-8, 8) if rng.random() < 0.3 else 1.0
    if rng.random() < 0.55:
        m = int(rng.integers(1, n + 4))
        A = rng.standard_normal((m, n))
        if rng.random() < 0.2:
            A = rng.integers(-2, 3, (m, n)).astype(float)  # many ties
        _degrade(rng, A)
        A *= np.sqrt(scale)
        y = np.zeros(m) if rng.random() < 0.15 else rng.standard_normal(m) * np.sqrt(scale)
        if rng.random() < 0.1:
            y *= 10.0 ** rng.uniform(-6, 6)
        sign = -1.0 if rng.random() < (0.08 if on_line else 0.6) else 1.0
        if sign < 0 and not on_line:
            y = np.zeros(m)
        return {
            "kind": "ls",
            "A": A,
            "y": y,
            "scale": sign * (1.0 if rng.random() < 0.8 else 10.0 ** rng.uniform(-4, 4)),
        }
    B = rng.standard_normal((n, n))
    kind = rng.choice(
        ["psd", "indefinite", "negative", "singular", "whole", "diagonal", "zero"],
        p=[0.25, 0.3, 0.12, 0.14, 0.12, 0.05, 0.02],
    )
    if kind == "whole":
        B = rng.integers(-3, 4, (n, n)).astype(float)
    Q = {
        "psd": B @ B.T,
        "negative": -B @ B.T,
        "singular": B[:, : n // 2] @ B[:, : n // 2].T,
        "diagonal": np.diag(np.diag(B)),
        "zero": 0.0 * B,
    }.get(str(kind), B + B.T)
    p = rng.standard_normal(n) if rng.random() < 0.7 else np.zeros(n)
    p = np.round(2.0 * p) if kind == "whole" else p
    if not on_line and rng.random() < 0.6:
        p = np.zeros(n)
    return {"kind": "quad", "Q": scale * Q, "p": scale * p}


def _degrade(rng, A):
    """Make columns equal, collinear or zero, now and then."""
    n = A.shape[1]
    if rng.random() < 0.25:
        i, j = rng.choice(n, 2, replace=False)
        A[:, i] = A[:, j] * rng.choice([1.0, 1.0, -1.0, -2.0, 0.5, 1.0 + 1e-9])
    if rng.random() < 0.1:
        A[:, int(rng.integers(n))] = 0.0
    if rng.random() < 0.03:
        A[:] = A[:, :1]
    if rng.random() < 0.08:
        A *= 10.0 ** rng.uniform(-4, 4, n)


def _bounds(rng, n):
    kind = rng.choice(["unit", "above", "sign", "wide", "any", "below"], p=[0.3, 0.25, 0.2, 0.05, 0.15, 0.05])
    lo, hi = np.zeros(n), np.ones(n)
    if kind == "above":
        hi = np.full(n, np.inf)
    elif kind in ("sign", "wide"):
        hi = np.full(n, 1.0 if kind == "sign" else 10.0 ** rng.uniform(-3, 3))
        lo = -hi
    elif kind == "below":
        lo, hi = np.full(n, -np.inf), rng.standard_normal(n)
    elif kind == "any":
        lo = rng.standard_normal(n) * (rng.random(n) < 0.6)
        hi = lo + rng.exponential(1.0, n)
        if rng.random() < 0.5:
            lo, hi = np.abs(lo) * (rng.random(n) < 0.4), np.abs(lo) + hi - lo
    if kind != "below" and rng.random() < 0.12:  # bounds that touch
        touch = rng.random(n) < 0.3
        hi = np.where(touch, lo, hi)
    if kind == "unit" and rng.random() < 0.25:
        hi = np.full(n, rng.uniform(1.2 / n, 1.0))
    return lo, hi


def _total(rng, lo, hi):
    finite = np.isfinite(lo).all()
    least = float(lo.sum()) if finite else float(hi.sum()) - float(rng.exponential(3.0))
    most = float(hi.sum()) if np.isfinite(hi).all() else least + float(rng.exponential(3.0))
    if rng.random() < 0.07:
        return least if finite and rng.random() < 0.5 else most if np.isfinite(hi.sum()) else least
    c = 1.0 if least <= 1.0 <= most and rng.random() < 0.4 else float(rng.uniform(least, most))
    whole = float(np.clip(np.round(c), least, most))
    return whole if rng.random() < 0.5 else c


def _concave(rng, n, size, on_line, lo):
    kind = rng.choice(["none", "top", "norm", "square"], p=[0.2, 0.44, 0.14, 0.22] if on_line else [0.3, 0.7, 0.0, 0.0])
    if kind == "none":
        return {"kind": None, "lam": 0.0, "s": 1}
    draw = rng.random()
    lam = 0.0 if draw < 0.05 else 10.0 ** rng.uniform(-8, 12) if draw < 0.25 else size * 10.0 ** rng.uniform(-2, 3)
    s = n if rng.random() < 0.08 else int(rng.integers(1, n + 1))
    if sum(lo > 0) > s:
        s = int(sum(lo > 0))
    return {"kind": str(kind), "lam": float(lam), "s": min(s, 20)}


def _separable(rng, made, on_line):
    n, g, size = made["n"], made["g"], curvature(made["f"])
    if not on_line:
        # NNSPCA's h cancels the pull of g; without it, or with another, the problem is a different one.
        return np.full(n, g["lam"]) if g["kind"] == "top" and rng.random() < 0.75 else np.zeros(n), []
    w = size * rng.standard_normal(n) if rng.random() < 0.15 else np.zeros(n)
    kinks = []
    if rng.random() < 0.18:
        for _ in range(1 if rng.random() < 0.8 else 2):
            low = np.where(np.isfinite(made["lo"]), made["lo"], made["hi"] - 1.0)
            high = np.where(np.isfinite(made["hi"]), made["hi"], low + 1.0)
            centre = low + (high - low) * rng.random(n)
            at = rng.random(n)
            centre = np.where(at < 0.15, low, np.where(at < 0.25, high, centre))  # kinks at bounds
            cost = size * 10.0 ** rng.uniform(-3, 1) * rng.random(n) * (rng.random(n) < 0.8)
            kinks.append([centre, cost])
    return w, kinks


def _attained(rng, made):
    """Return y = Ax of a feasible x, so that the least f is 0 or nearly."""
    A, n = np.asarray(made["f"]["A"]), made["n"]
    if made["u"]["kind"] == "sphere":
        x = np.abs(rng.standard_normal(n))
        return A @ (x / np.linalg.norm(x))
    lo, hi, c = made["lo"], made["hi"], made["u"]["c"]
    with np.errstate(invalid="ignore"):
        low = np.where(np.isfinite(lo), lo, c - (hi.sum() - hi))
        high = np.where(np.isfinite(hi), hi, c - (low.sum() - low))
    span = float((high - low).sum())
    return A @ (low + (high - low) * ((c - float(low.sum())) / span if span > 0 else 0.0))
