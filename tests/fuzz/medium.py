"""Problems of 10 to 60 coordinates, where nothing can be enumerated: claims over pairs, and what must not matter."""

from __future__ import annotations

import numpy as np

from fuzz import further, generator
from fuzz.claims import CLAIMS, Examiner, Status

OTHERS = (
    ("bcd-g", {"working_set": "cyclic"}),
    ("bcd-g", {"working_set": "random"}),
    ("bcd-g", {"working_set": "greedy"}),
    ("bcd-g", {"working_set": "semi-greedy"}),
    ("bcd-g", {"k": 3}),
    ("bcd-l", {}),
    ("bcd-l", {"k": 4, "subproblem": "linearised"}),
    ("pdca", {"max_iter": 300}),
)


def examine(seed, index, plain=False, rich=True):
    """Run all checks on one problem."""
    spec = generator.spec(seed, index, generator.MEDIUM, plain, rich)
    rng = np.random.default_rng([seed, index, 2])
    one = Examiner(spec, brute=False)
    if one.problem is None:
        return one
    if rich:
        further.examine(one, np.random.default_rng([seed, index, 3]))
    first = one.run("bcd-g")
    for k in rng.choice(len(OTHERS), 2, replace=False):
        one.run(OTHERS[k][0], **OTHERS[k][1])
    if spec["g"]["kind"] is not None:
        one.run("swap")
        found = one.run("search", work=4)
        if found is not None:
            _more_columns(one, found.x, rng)
    if first is None or first.status not in CLAIMS or one.violation(first.x) > 1e-9:
        return one
    one.certificate(first.x, scan="all" if rng.random() < 0.3 else "pruned")
    _stays(one, first)
    _same(one, first, *_scaled(spec, 10.0 ** rng.uniform(-4, 4)), "F scaled")
    if one.case.on_line:
        _same(one, first, *_stretched(spec, 10.0 ** rng.uniform(-3, 3)), "x scaled")
    _same(one, first, *_permuted(spec, rng.permutation(spec["n"])), "columns permuted")
    return one


def _stays(one, first):
    """A descent from a certified point stays: it gains no more than the pairs that rounding hid.

    Of a loss only the upper bound is certified, and F may go on falling.
    """
    again = one.run("bcd-g", x0=first.x)
    if again is None or one.case.loss:
        return
    spare = first.tolerance + again.tolerance + 2.0 * one.case.noise(one.inner(first.x))
    gained = first.objective - again.objective
    one.made(
        "stays",
        again.status is Status.CERTIFIED and gained <= spare,
        "bcd-g from its own end",
        f"{again.status.name}, gains {gained:.3g}, tolerance {first.tolerance:.3g}",
    )


def _same(one, first, spec, turn, scale, what):
    """The same problem in other units or another order: the certified point is as good there, and claims hold."""
    other = Examiner(spec, brute=False)
    if other.problem is not None:
        x = turn(first.x)
        if other.violation(x) <= 1e-9:
            x = other.problem.project(x)
            certificate = other.certificate(x, what)
            if certificate is not None:
                allowed = scale * first.tolerance + other.case.noise(other.inner(x))
                other.made(
                    "same gap",
                    certificate.cws_gap <= 2.0 * allowed,
                    what,
                    f"gap {certificate.cws_gap:.4g}, allowed {allowed:.4g}",
                )
        other.run("bcd-g")
    one.include(other, what)


def _scaled(spec, t):
    """F times t."""
    f, other = dict(spec["f"]), dict(spec)
    if f["kind"] == "ls":
        f["scale"] = t * f["scale"]
    elif f["kind"] == "loss":
        f["v"] = t * (np.ones(len(f["A"])) if f.get("v") is None else np.array(f["v"]))
    else:
        f |= {"Q": t * np.array(f["Q"]), "p": t * np.array(f["p"])}
    other |= {"f": f, "g": {**spec["g"], "lam": t * spec["g"]["lam"]}, "w": t * np.array(spec["w"])}
    other["kinks"] = [[centre, *(t * np.array(cost) for cost in costs)] for centre, *costs in spec["kinks"]]
    if spec.get("ridge"):
        other["ridge"] = [spec["ridge"][0], t * np.array(spec["ridge"][1])]
    return generator.plainly(other), lambda x: x, t


def _stretched(spec, t):
    """The same values of F at t times the points."""
    f, g, other = dict(spec["f"]), spec["g"], dict(spec)
    lam = g["lam"] / (t * t if g["kind"] == "square" else t)
    if f["kind"] == "quad":
        f |= {"Q": np.array(f["Q"]) / t**2, "p": np.array(f["p"]) / t}
    else:
        f["A"] = np.array(f["A"]) / t
    groups = [[members, t * least, t * most] for members, least, most in spec["u"].get("groups") or []]
    other |= {"f": f, "g": {**g, "lam": lam}, "u": {**spec["u"], "c": t * spec["u"]["c"], "groups": groups}}
    other |= {"lo": t * np.array(spec["lo"]), "hi": t * np.array(spec["hi"]), "w": np.array(spec["w"]) / t}
    other["kinks"] = [
        [t * np.array(centre), *(np.array(cost) / t for cost in costs)] for centre, *costs in spec["kinks"]
    ]
    if spec.get("ridge"):
        other["ridge"] = [t * np.array(spec["ridge"][0]), np.array(spec["ridge"][1]) / t**2]
    if spec.get("floor"):
        other["floor"] = t * np.array(spec["floor"])
    return generator.plainly(other), lambda x: t * x, 1.0


def _permuted(spec, order):
    """The coordinates in another order."""
    f, u = dict(spec["f"]), dict(spec["u"])
    if f["kind"] == "quad":
        f |= {"Q": np.array(f["Q"])[np.ix_(order, order)], "p": np.array(f["p"])[order]}
    else:
        f["A"] = np.array(f["A"])[:, order]
    if u.get("a") is not None:
        u["a"] = np.array(u["a"])[order]
    places = np.argsort(order)
    u["groups"] = [[sorted(places[members]), *limits] for members, *limits in u.get("groups") or []]
    other = {**spec, "f": f, "u": u, **{key: np.array(spec[key])[order] for key in ("lo", "hi", "w")}}
    other["kinks"] = [[np.array(each)[order] for each in kink] for kink in spec["kinks"]]
    if spec.get("ridge"):
        other["ridge"] = [np.array(each)[order] for each in spec["ridge"]]
    if spec.get("floor"):
        other["floor"] = np.array(spec["floor"])[order]
    return generator.plainly(other), lambda x: x[order], 1.0


def _more_columns(one, x, rng):
    """With more columns to choose from, a search that starts at x ends no higher."""
    spec, more = one.spec, int(rng.integers(1, 6))
    u, others = spec["u"], ("ridge", "floor")
    if (
        not one.case.sparse
        or spec["f"]["kind"] == "quad"
        or spec["kinks"]
        or (one.case.on_line and min(spec["lo"]) < 0.0)
    ):
        return
    if any(spec.get(key) for key in others) or u.get("a") is not None or u.get("groups"):
        return
    A, w = np.array(spec["f"]["A"]), np.array(spec["w"])
    fresh = A[:, rng.integers(A.shape[1], size=more)] * rng.uniform(0.5, 1.5, more)
    if one.violation(x) > 1e-9 or np.ptp(w) > 0.0:
        return
    n = spec["n"] + more
    other = {**spec, "n": n, "f": {**spec["f"], "A": np.concatenate([A, fresh], axis=1)}, "w": np.full(n, w[0])}
    other |= {"lo": [*spec["lo"], *[min(0.0, *spec["lo"])] * more], "hi": [*spec["hi"], *[max(spec["hi"])] * more]}
    larger = Examiner(generator.plainly(other), brute=False)
    if larger.problem is not None:
        larger.run("search", x0=np.concatenate([x, np.zeros(more)]), work=4)
    one.include(larger, f"{more} more columns")
