"""More terms for a random problem: losses, weights of rows, ridges, floors, numbers of non-zeros, groups, weights of the
sum, signs on the sphere. Nothing here imports the package.

Most of what is drawn has feasible points; some has none, or is refused, and is to be refused in a sentence.
"""

from __future__ import annotations

import numpy as np

from fuzz.losses import NAMES


def enriched(made, rng):
    """Return the problem with one or more of these terms, in the same units."""
    made = {**made, "f": dict(made["f"]), "u": dict(made["u"]), "g": dict(made["g"])}
    for key in ("lo", "hi", "w"):
        made[key] = np.array(made[key], dtype=float)
    (_on_line if made["u"]["kind"] == "sum" else _on_sphere)(made, rng)
    if made["f"]["kind"] == "ls" and rng.random() < 0.3:
        made["f"]["v"] = _row_weights(rng, len(made["f"]["A"]))
    return made


def _on_line(made, rng):
    n, g = made["n"], made["g"]
    if rng.random() < 0.35:
        _loss(made, rng)
    size = _curvature(made["f"])
    if rng.random() < 0.4:
        bound = int(((made["lo"] > 0.0) | (made["hi"] < 0.0)).sum())
        s = int(rng.integers(1, n + 1)) if rng.random() < 0.3 else int(rng.integers(1, max(2, (n + 1) // 2 + 1)))
        g |= {"kind": "at most", "lam": 0.0, "s": max(s, bound) if rng.random() < 0.95 else s}
    if rng.random() < 0.3:
        x0 = _within(made, rng) if rng.random() < 0.7 else rng.standard_normal(n)
        rho = (
            size
            * 10.0 ** rng.uniform(-4, 1)
            * (np.ones(n) if rng.random() < 0.4 else rng.random(n) * (rng.random(n) < 0.7))
        )
        made["ridge"] = [x0, rho]
    made["kinks"] = [_with_sell(kink, rng) for kink in made["kinks"]]
    if rng.random() < 0.3 and ((made["lo"] >= 0.0).all() or rng.random() < 0.05):
        _floors(made, rng)
    if rng.random() < 0.22 and g["kind"] in (None, "at most"):
        _weights(made, rng)
    if rng.random() < 0.3:
        _groups(made, rng)


def _on_sphere(made, rng):
    n, g, f = made["n"], made["g"], made["f"]
    if rng.random() < 0.12:
        _loss(made, rng)
    if rng.random() < 0.6:
        made["u"]["signed"] = True
        made["lo"], made["hi"] = np.full(n, -np.inf), np.full(n, np.inf)
        if made["w"].any() and rng.random() < 0.85:
            made["kinks"] = [[np.zeros(n), made["w"].copy()]]  # h = λ‖x‖₁, which cancels the pull of g
            made["w"] = np.zeros(n)
        elif rng.random() < 0.3:
            made["kinks"] = [[np.zeros(n), _curvature(f) * rng.random(n) * (rng.random(n) < 0.7)]]
    if rng.random() < 0.35:
        g |= {"kind": "at most", "lam": 0.0, "s": int(rng.integers(1, n + 1))}
        if rng.random() < 0.7:
            made["w"], made["kinks"] = np.zeros(n), []
    if f["kind"] == "quad" and rng.random() < 0.3:
        f["p"] = np.zeros(n)


def _curvature(f):
    if f["kind"] == "quad":
        return float(np.abs(f["Q"]).max()) or 1.0
    A = np.asarray(f["A"])
    return float(abs(f.get("scale", 1.0)) * (A * A).sum(axis=0).max()) or 1.0


def _loss(made, rng):
    """Put a loss in the place of f, on the data of f if it has any."""
    f, n, name = made["f"], made["n"], str(rng.choice(NAMES, p=[0.35, 0.25, 0.15, 0.25]))
    if f["kind"] == "quad":
        A = rng.standard_normal((int(rng.integers(1, n + 4)), n))
        y = rng.standard_normal(len(A))
    else:
        A, y = np.array(f["A"]), np.array(f["y"])
    made["f"] = other = {"kind": "loss", "name": name, "A": A, "y": y}
    if rng.random() < 0.5:
        other["v"] = _row_weights(rng, len(A))
    if name == "logistic":
        other |= {"y": np.zeros(len(A)), "labels": rng.choice([-1.0, 1.0], len(A))}
    if "huber" in name:
        other["delta"] = float((np.abs(y).max() or float(np.abs(A).max()) or 1.0) * 10.0 ** rng.uniform(-2.5, 0.7))
    if "downside" in name and rng.random() < 0.4:
        other["ties"] = float(rng.choice([1e-9, 1e-3, 0.5]))
    if f.get("storage"):
        other["storage"] = f["storage"]


def _row_weights(rng, m):
    v = rng.random(m) if rng.random() < 0.6 else 10.0 ** rng.uniform(-3, 3, m)
    return np.where(rng.random(m) < 0.1, 0.0, v)


def _with_sell(kink, rng):
    """Give a kink another cost of selling, now and then."""
    return [*kink, np.asarray(kink[1]) * rng.uniform(0.0, 2.0)] if len(kink) == 2 and rng.random() < 0.4 else kink


def _ends(made):
    """Bounds of aᵢxᵢ that the sum implies where there are none."""
    u = made["u"]
    a = np.ones(made["n"]) if u.get("a") is None else u["a"]
    ends = a * made["lo"], a * made["hi"]
    lo, hi = np.minimum(*ends), np.maximum(*ends)
    with np.errstate(invalid="ignore"):
        low = np.where(np.isfinite(lo), lo, u["c"] - (hi.sum() - hi))
        high = np.where(np.isfinite(hi), hi, u["c"] - (low.sum() - low))
    return low, high


def _within(made, rng):
    """A point of aᵢxᵢ within the bounds and with the right sum, if there is one."""
    low, high = _ends(made)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return np.zeros(made["n"])
    z = low + (high - low) * rng.random(made["n"]) ** rng.uniform(0.5, 4.0)
    missing = made["u"]["c"] - float(z.sum())
    room = high - z if missing > 0.0 else z - low
    return z + missing * room / (float(room.sum()) or 1.0)


def _floors(made, rng):
    """Least values of coordinates that are not 0: mostly such that several can be held, some as large as the bound."""
    n, c = made["n"], max(abs(made["u"]["c"]), 1e-3)
    floor = c * rng.uniform(0.02, 0.6) * (np.ones(n) if rng.random() < 0.5 else rng.random(n))
    floor = np.where(rng.random(n) < 0.2, 0.0, floor)
    at = rng.random(n)
    full = np.isfinite(made["hi"]) & (made["hi"] > 0.0) & (at < 0.08)
    made["floor"] = np.where(
        full, made["hi"], np.where(at > 0.97, 10.0 * c, np.minimum(floor, np.maximum(made["hi"], 0.0)))
    )


def _weights(made, rng):
    """Weights of the sum, and a sum that can be reached with them."""
    n, u = made["n"], made["u"]
    a = 10.0 ** rng.uniform(-1, 1, n) if rng.random() < 0.7 else 10.0 ** rng.uniform(-3, 3, n)
    if rng.random() < 0.2:
        a = rng.integers(1, 4, n).astype(float)
    bounded = np.isfinite(made["lo"]).all() and np.isfinite(made["hi"]).all()
    if rng.random() < (0.4 if bounded and made.get("floor") is None else 0.03):
        a = a * rng.choice([1.0, -1.0], n)
    ends = a * made["lo"], a * made["hi"]
    low, high = np.minimum(*ends), np.maximum(*ends)
    least = float(low.sum()) if np.isfinite(low).all() else float(high.sum()) - float(rng.exponential(3.0))
    most = float(high.sum()) if np.isfinite(high).all() else least + float(rng.exponential(3.0))
    if np.isfinite([least, most]).all():
        u |= {"a": a, "c": float(rng.uniform(least, most)) if rng.random() < 0.95 else least}


def _groups(made, rng):
    """Limits around the sums of a feasible point; groups are disjoint, or nested as well."""
    n, z = made["n"], _within(made, rng)
    unit = max(float(np.abs(z).max()), 1e-3)
    labels = rng.integers(-1, int(rng.integers(1, 3 if n < 10 else 6)), n)
    sets = [np.flatnonzero(labels == k) for k in range(labels.max(initial=-1) + 1)]
    if rng.random() < 0.4 and len(sets) > 1:
        sets.append(np.concatenate(sets[: int(rng.integers(2, len(sets) + 1))]))
    if rng.random() < 0.15 and len(sets) and len(sets[0]) > 1:
        sets.append(sets[0][: int(rng.integers(1, len(sets[0]) + 1))])
    groups = []
    for members in sets:
        if not len(members):
            continue
        total = float(z[members].sum())
        below, above = unit * rng.exponential(0.5, 2) * (rng.random(2) < 0.8)
        least, most = total - below, total + above
        least = -np.inf if rng.random() < 0.3 else round(least, 2) if rng.random() < 0.2 else least
        most = np.inf if rng.random() < 0.3 else round(most, 2) if rng.random() < 0.2 else most
        if rng.random() < 0.05:
            least = most = total + unit * float(rng.standard_normal())
        groups.append([sorted(int(i) for i in members), min(least, most), max(least, most)])
    if groups:
        made["u"]["groups"] = groups
