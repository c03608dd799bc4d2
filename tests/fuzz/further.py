"""The same problem with a proximal weight, with data in single precision, and derived from another that was used."""

from __future__ import annotations

import copy

import numpy as np

import counterpoise as cp
from fuzz import generator
from fuzz.claims import Examiner

THETA = (
    ("bcd-g", {}),
    ("bcd-g", {"working_set": "greedy"}),
    ("bcd-g", {"working_set": "cyclic"}),
    ("bcd-l", {}),
    ("bcd-l", {"subproblem": "linearised"}),
)
SHARE = 0.4


def examine(one, rng):
    """Add what some of these runs find; random numbers of their own leave the other checks of a problem as they are."""
    proximal, single, derived = rng.random(3) < SHARE
    if proximal:
        method, options = THETA[int(rng.integers(len(THETA)))]
        one.run(method, theta=float(generator.curvature(one.spec["f"]) * 10.0 ** rng.uniform(-6, 3)), **options)
    if single and one.case.data:
        _single(one, rng)
    if derived:
        _derived(one, rng)


def _single(one, rng):
    """The data in single precision: its rounded numbers are the problem, whose claims hold to double precision."""
    f = dict(one.spec["f"], single=True)
    for key in ("A", "y"):
        f[key] = np.array(f[key], dtype=np.float32).astype(float)
    other = Examiner(generator.plainly({**one.spec, "f": f}), brute=one.brute)
    if other.problem is not None:
        other.run("bcd-g")
        if other.case.sparse:
            other.run("swap")
        x = other.call("start", lambda: other.problem.start(int(rng.integers(1000))))
        if x is not None and other.violation(x) <= 1e-9:
            other.certificate(x, "certify(start)")
    one.include(other, "single precision")


def _derived(one, rng):
    """A problem that was used, turned into this one: it has the same F, and runs and certificates as if it were new."""
    new, kind = one.problem, str(rng.choice(["f", "h", "g", "variant", "constant", "model"]))
    spec, constant = copy.deepcopy(one.spec), 0.0
    f, g = spec["f"], spec["g"]
    if kind == "f":
        f["Q" if f["kind"] == "quad" else "A"] = (2.0 * np.array(f["Q" if f["kind"] == "quad" else "A"])).tolist()
    elif kind == "h":
        spec["w"] = (np.array(spec["w"]) + generator.curvature(f) * rng.standard_normal(one.case.n)).tolist()
    elif kind in ("g", "variant"):
        if g["kind"] is None:
            return
        spec["g"] = {**g, "lam": 2.0 * g["lam"] + 1.0, "s": g["s"] % one.case.n + 1}
    elif kind == "constant":
        constant = 1.0
    if kind == "model" and not one.case.loss:
        return
    used = Examiner(generator.plainly(spec), brute=False)
    if used.problem is None:
        return
    _use(used)
    one.include(used, "a problem to derive from")
    other = used.problem
    name, changes = f"derived({kind})", {"lam": g["lam"]} if one.case.g in ("norm", "square") else {"s": g["s"]}
    if one.case.g == "top":
        changes["lam"] = g["lam"]
    x = one.call("start", lambda: new.start(0))
    if x is None:
        return
    if kind == "model":
        f, constant = new.f.model(x, 1.0)
        new = cp.Problem(f, new.h, None if g["kind"] is None else new.g, new.u, constant)
    elif kind == "constant":
        new = cp.Problem(new.f, new.h, None if g["kind"] is None else new.g, new.u, constant)
    make = {
        "variant": lambda: other.variant(**changes),
        "model": lambda: other.model(x),
        "constant": lambda: other.derived(constant=1.0),
    }.get(kind, lambda: other.derived(**{kind: getattr(new, kind)}))
    turned = one.call(name, make)
    if turned is not None:
        _alike(one, turned, new, x, name)


def _use(used):
    """Fill whatever a problem caches."""
    x = used.call("start", lambda: used.problem.start(1))
    if x is not None:
        used.call("certify", lambda: cp.certify(used.problem, x))
        used.call("bcd-g", lambda: cp.minimize(used.problem, method="bcd-g", max_iter=100))


def _alike(one, turned, new, x, name):
    """Both give the same numbers, bit for bit, or refuse with the same words."""

    def told(problem):
        try:
            gaps = cp.certify(problem, x)
            run = cp.minimize(problem, method="bcd-g", max_iter=10_000)
        except ValueError as error:
            return str(error)
        return repr((problem.objective(x), problem.scale, gaps, run.status, run.x.tolist(), run.tolerance, run.cws_gap))

    said = [one.call(name, lambda problem=problem: told(problem)) for problem in (turned, new)]
    one.made("derived", said[0] == said[1], name, f"{said[0]}, but a new one {said[1]}")
