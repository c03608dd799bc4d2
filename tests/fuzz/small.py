"""Problems of 2 to 8 coordinates, every method, against brute force."""

from __future__ import annotations

import numpy as np

from fuzz import further, generator
from fuzz.claims import CLAIMS, Examiner, Status

RULES = ("cyclic", "random", "greedy", "semi-greedy")


def methods(spec, rng, plain=False):
    """The runs of one problem: the main ones always, the others in turn, so that all come up."""
    n = spec["n"]
    yield "bcd-g", {}
    others = [
        ("bcd-g", {"k": int(min(n, rng.integers(3, 5)))}) if n > 2 else ("bcd-g", {"seed": 1}),
        ("bcd-l", {"k": int(rng.integers(2, n + 1))}),
        ("bcd-l", {"subproblem": "linearised"}),
        ("bcd-l", {"working_set": "random"}),
    ]
    if not plain:
        others += [
            ("bcd-g", {"working_set": str(rng.choice(RULES))}),
            ("bcd-g", {"working_set": str(rng.choice(RULES))}),
        ]
    others += [("psg", {"max_iter": 64}), ("mscr", {"max_iter": 64}), ("pdca", {"max_iter": 200})]
    yield from (others[k] for k in rng.choice(len(others), 3, replace=False))
    if spec["g"]["kind"] is not None or rng.random() < 0.05:
        yield "swap", {}
        if rng.random() < 0.5:
            yield "search", {"work": 6}
        yield "exact", {}


def examine(seed, index, plain=False, rich=True):
    """Run all checks on one problem."""
    spec = generator.spec(seed, index, generator.SMALL, plain, rich)
    rng = np.random.default_rng([seed, index, 1])
    one = Examiner(spec)
    if one.problem is None:
        return one
    last = None
    for method, options in methods(spec, rng, plain):
        result = one.run(method, **options)
        if result is not None and one.violation(result.x) <= 1e-9:
            last = result if last is None or rng.random() < 0.4 else last
    _certificates(one, last, rng)
    if last is not None and last.status in CLAIMS:
        _warm(one, last)
    if rich:
        further.examine(one, np.random.default_rng([seed, index, 3]))
    return one


def _certificates(one, last, rng):
    """Examine an end of a run, a random point, and a sparse point."""
    start = one.call("start", lambda: one.problem.start(int(rng.integers(1000))))
    if start is not None and one.made(
        "start", one.violation(start) <= 1e-9, "problem.start", f"violation {one.violation(start):.3g}"
    ):
        one.certificate(start, "certify(start)", scan="all" if rng.random() < 0.5 else "pruned")
    if last is not None:
        level = (
            "swap" if one.case.sparse and np.count_nonzero(last.x) <= one.case.s and one.least is not None else "pair"
        )
        one.certificate(last.x, f"certify(end of a run, level={level!r})", level)
    if one.case.sparse and one.least is not None:
        held = rng.choice(one.case.n, min(one.case.s, one.case.n), replace=False)
        value, x = one.least(held)
        if x is not None and np.isfinite(value):
            one.certificate(one.back(x), "certify(sparse point, level='swap')", "swap")


def _warm(one, last):
    """A descent from a certified point stays there or goes lower."""
    x, case = last.x, one.case
    again = one.run("bcd-g", x0=x)
    claimed = last.status is not Status.CERTIFIED and not case.loss  # of a loss only the upper bound is certified
    if again is not None and again.status is Status.CERTIFIED and claimed:
        spare = again.tolerance + last.tolerance + 2.0 * case.noise(one.inner(x))
        one.made(
            "stays",
            last.objective - again.objective <= spare,
            "bcd-g from the end of a claim",
            f"{last.status.name} {last.objective!r} → {again.objective!r}",
        )
