"""What a run or a certificate claims, held against the references."""

from __future__ import annotations

import functools
import operator
import re
import time
import traceback
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import counterpoise as cp
from counterpoise.supervision import inline
from fuzz import optima
from fuzz.arcs import refined
from fuzz.pairs import best_pair
from fuzz.reference import EPS, Case, in_sums

PACKAGE = str(Path(cp.__file__).parent)
Status = cp.Status
CLAIMS = {Status.CERTIFIED, Status.SWAP_OPTIMAL, Status.OPTIMAL}
MONOTONE = ("bcd-g", "bcd-l", "swap", "search", "exact", "pdca")
OWN_ERRORS = ("counterpoise.rules",)
FEASIBLE = 1e-9
# What is said of problems without feasible points.
NO_POINT = re.compile("^no point|coordinates reach from")
SECONDS = 5.0
TOL = 1e-9
# A descent by pairs that ends without a claim leaves pairs that gain at most this, relative to the size of F.
UNSEEN = 1e-6


def build(spec):
    """Return the package's problem."""
    g, u, h = spec["g"], spec["u"], _separable(spec)
    concave = {
        None: lambda: None,
        "top": lambda: cp.TopSum(g["s"], g["lam"]),
        "at most": lambda: cp.AtMost(g["s"]),
        "norm": lambda: cp.Norm2(g["lam"]),
        "square": lambda: cp.ConcaveQuadratic(g["lam"]),
    }[g["kind"]]()
    if u["kind"] == "sphere":
        return cp.Problem(_smooth(spec["f"]), h, concave, cp.Sphere(signed=bool(u.get("signed", False))))
    total = cp.Sum(u["c"], weights=None if u.get("a") is None else np.array(u["a"]))
    for k, (members, *limits) in enumerate(u.get("groups") or []):
        limits = [None if np.isinf(limit) else limit for limit in limits]
        fixed = limits[0] is not None and limits[0] == limits[1]
        # A mapping from names to members, or the name of the group of every coordinate.
        groups = {k: members} if spec.get("index", 0) % 2 else [k if i in members else None for i in range(spec["n"])]
        total = total.within(groups, {k: limits[0] if fixed else limits})
    return cp.Problem(_smooth(spec["f"]), h, concave, total)


def _smooth(f):
    if f["kind"] == "quad":
        return cp.Quadratic(np.array(f["Q"]), np.array(f["p"]))
    # In single precision, if f says so; its numbers are exact in that.
    dtype = np.float32 if f.get("single") else float
    A, storage, v = np.array(f["A"], dtype=dtype), f.get("storage"), f.get("v")
    if storage in ("csc", "csr-columns"):
        A = sp.csc_array(A) if storage == "csc" else sp.csr_array(A)
    y, v = np.array(f["y"], dtype=dtype), None if v is None else np.array(v)
    if f["kind"] == "ls":
        gram = False if storage in ("columns", "csr-columns") else None
        return cp.LeastSquares(A, y, scale=f["scale"], gram=gram, weights=v)
    ties = f.get("ties", 0.0)
    return {
        "huber": lambda: cp.Huber(A, y, f["delta"], v),
        "downside": lambda: cp.Downside(A, y, v, ties),
        "huber-downside": lambda: cp.HuberDownside(A, y, f["delta"], v, ties),
        "logistic": lambda: cp.Logistic(A, np.array(f["labels"]), v),
    }[f["name"]]()


def _separable(spec):
    parts = [cp.Bounds(np.array(spec["lo"]), np.array(spec["hi"]))]
    if np.any(spec["w"]):
        parts.append(cp.Linear(np.array(spec["w"])))
    if spec.get("ridge"):
        parts.append(cp.Ridge(*(np.array(v) for v in spec["ridge"])))
    if spec.get("floor"):
        parts.append(cp.SemiContinuous(np.array(spec["floor"])))
    parts += [cp.AbsoluteDeviation(*(np.array(v) for v in kink)) for kink in spec["kinks"]]
    return functools.reduce(operator.add, parts)


class Examiner:
    """Runs methods on one problem and gathers what is wrong with their answers.

    ``findings`` are (check, run, detail); ``counts`` say how often each check was made, ``refusals`` what was refused.
    """

    # Whether methods run in threads of their own, as they do for users.
    threads = True

    def __init__(self, spec, brute=True, problem=None):
        self.spec, self.outer = spec, Case(spec)
        # Where the sum has weights a, everything but feasibility and F is looked at in z = a∘x.
        self.case, self.a = Case(in_sums(spec)), self.outer.a
        self.findings, self.counts, self.refusals = [], {}, {}
        self.problem = problem
        self.known = []  # (F, x) of feasible points
        self._least = self._optimum = None
        self._pairs = {}
        self.brute = brute
        # Starting a thread for every call takes as long as the call itself; one problem in four is enough of that.
        self.threads = spec.get("index", 0) % 4 == 0
        if problem is None:
            self.problem = self.call("Problem", lambda: build(spec))

    def violation(self, x):
        """How far x is from feasible."""
        return self.outer.violation(x)

    def inner(self, x):
        """The point in the coordinates of ``case``."""
        return np.asarray(x, dtype=float) if self.a is None else self.a * np.asarray(x, dtype=float)

    def back(self, z):
        """The point in the coordinates of the problem."""
        return z if self.a is None else z / self.a

    def best_pair(self, x):
        """The reference's best pair, once a point: runs end where others do, and certificates are made there."""
        key = x.tobytes()
        if key not in self._pairs:
            self._pairs[key] = best_pair(self.case, x)
        return self._pairs[key]

    def made(self, check, good, run, detail=""):
        """Count a check, and note a finding if it failed."""
        self.counts[check] = self.counts.get(check, 0) + 1
        if not good:
            self.findings.append((check, run, detail))
        return good

    def include(self, other, what):
        """Take over the checks of another examination, under a name that says what it is."""
        self.findings += [(check, f"{what}: {run}", detail) for check, run, detail in other.findings]
        for check, count in other.counts.items():
            self.counts[check] = self.counts.get(check, 0) + count

    def call(self, run, do, finite=True):
        """Call; a refusal must be a sentence of the package's own, and nothing else may be raised or warned of."""
        try:
            with warnings.catch_warnings(record=True) as said, nullcontext() if self.threads else inline():
                warnings.simplefilter("always")
                result = do()
        except (ValueError, TypeError, NotImplementedError, OverflowError) as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            kinds = (ValueError, TypeError, NotImplementedError)
            own = last.filename.startswith(PACKAGE) and (type(error) in kinds or type(error).__module__ in OWN_ERRORS)
            text = str(error)
            # What the user did not give, such as x0, is not the user's to mend.
            blamed = finite and text.startswith("x0") and "x0" not in run
            sentence = (
                not blamed
                and len(text) > 10
                and text[-1] == "."
                and "\n" not in text
                and not (finite and "nan" in text)
            )
            if self.brute and NO_POINT.search(text):
                some = optima.some_point(self.case)
                self.made(
                    "nothing feasible", some is None, run, f"{text} But {None if some is None else some.tolist()}"
                )
            key = f"{run.split('(')[0]}: {text[:90]}"
            self.refusals[key] = self.refusals.get(key, 0) + 1
            self.made(
                "refusal",
                own and sentence,
                run,
                f"{type(error).__name__} {Path(last.filename).name}:{last.lineno}: {text}",
            )
            return None
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            self.made(
                "refusal", False, run, f"{type(error).__name__} {Path(last.filename).name}:{last.lineno}: {error}"
            )
            return None
        foreign = [str(one.message) for one in said if not issubclass(one.category, UserWarning)]
        self.made("warning", not foreign, run, "; ".join(foreign[:2]))
        return result

    def run(self, method, x0=None, **options):
        """Run a method and check everything that its result says."""
        label = f"{method}({', '.join(f'{k}={v!r}' for k, v in options.items())})" + (
            " from x0" if x0 is not None else ""
        )
        options, clock = {"max_time": SECONDS, **options}, time.process_time()
        result = self.call(label, lambda: cp.minimize(self.problem, x0, method=method, **options))
        if result is not None and result.status is Status.TIME_LIMIT and time.process_time() - clock < 0.8 * SECONDS:
            # Other processes had the time.
            options["max_time"] *= 10
            result = self.call(label, lambda: cp.minimize(self.problem, x0, method=method, **options))
        if result is not None:
            self.check(result, label, method, x0)
        return result

    def check(self, result, label, method, x0=None):
        case, x, status = self.case, self.inner(result.x), result.status
        self.made(
            "ends", status is not Status.TIME_LIMIT, label, f"{result.nit} iterations, tolerance {result.tolerance:g}"
        )
        if not self.made(
            "feasible", self.violation(result.x) <= FEASIBLE, label,
            f"violation {self.violation(result.x):.3g}, {status.name}, x {result.x.tolist()}",
        ):  # fmt: skip
            return
        value, noise = self.outer.value(result.x), case.noise(x)
        off = abs(result.objective - value)
        self.made("objective", off <= noise + FEASIBLE * 0.0, label, f"says {result.objective!r}, is {value!r}")
        self.known.append((value, x.copy()))
        self._check_history(result, label, method, noise)
        if method == "exact":
            # Eigenvalues cannot be told apart if they differ by less than the rounding error of the largest.
            hidden = 1e-9 * abs(value) <= 512.0 * EPS * case.n * float(case.abs_Q.max()) and not case.on_line
            proved = status is Status.OPTIMAL or (hidden and status is Status.CERTIFIED)
            self.made("proved", proved, label, f"{status.name}, F {value!r}")
        self.made("success", result.success == (status in CLAIMS), label, f"{status.name}, success {result.success}")
        if x0 is not None and method != "psg":
            before, spare = self.outer.value(x0), noise + case.noise(self.inner(x0))
            self.made("not worse", value <= before + spare, label, f"from {before!r} to {value!r}")
        if status in CLAIMS:
            self._check_claim(result, label, x, value, noise)
        elif status is Status.STATIONARY and method == "bcd-g" and "theta" not in label:
            # Without a proximal weight, a descent by pairs may end without a claim where rounding hides what a pair
            # gains, and nowhere else.
            gain = self.best_pair(x)[0]
            self.made(
                "certified",
                gain <= UNSEEN * (case.size(x) + abs(value)) + noise + case.step_noise(x),
                label,
                f"STATIONARY, but a pair gains {gain:.6g} of {value:g}",
            )
        if not np.isnan(result.get("cws_gap", np.nan)):
            self._check_gap(result.cws_gap, x, noise, label)
        self._check_bounds(result, x, value, noise, label)

    def _check_gap(self, gap, x, noise, label):
        """A gap over pairs is that of F at x, whatever the proximal weight of the run was."""
        gain, total, point = self.best_pair(x)
        self.made(
            "cws_gap not less",
            gain <= gap * (1 + 1e-6) + noise,
            label,
            f"says {gap:.6g}, a pair gains {gain:.6g}: {x.tolist()} → {point.tolist()}",
        )
        hidden = noise + 1e-5 * total + 1e-13 * self.case.slopes(x) * float(np.abs(x).max())
        self.made(
            "cws_gap not more",
            gap <= total * (1 + 1e-5) + hidden,
            label,
            f"says {gap:.6g}, no pair gains more than {total:.6g} at {x.tolist()}",
        )

    def _check_claim(self, result, label, x, value, noise):
        case, status, tolerance = self.case, result.status, result.tolerance
        most = 2.0 * TOL * (case.size(x) + abs(value)) + noise + case.step_noise(x)
        sane = np.isfinite(tolerance) and 0.0 <= tolerance <= most
        if not self.made(
            "tolerance", bool(sane), label, f"tolerance {tolerance:g}, size {case.size(x):g}, F {value:g}"
        ):
            return
        gain, _, point = self.best_pair(x)
        self.made(
            "no pair gains", gain <= tolerance + noise, label,
            f"{status.name}, F {value:.10g}: a pair gains {gain:.4g}, tolerance {tolerance:.3g}, rounding {noise:.3g}, x {x.tolist()} → {point.tolist()}",
        )  # fmt: skip
        if status is Status.SWAP_OPTIMAL and case.sparse:
            held = np.count_nonzero(x)
            if self.made("s-sparse", held <= case.s, label, f"holds {held}, s = {case.s}") and self.least is not None:
                best, point = optima.best_exchange(case, x, self.least, own=False)
                spare = tolerance + noise + case.noise(x if point is None else point)
                self.made(
                    "no exchange gains", value - best <= spare, label,
                    f"F {value:.10g}, an exchange reaches {best:.10g}, tolerance {tolerance:.3g}, x {x.tolist()} → {None if point is None else point.tolist()}",
                )  # fmt: skip
        if status is Status.OPTIMAL:
            best, point = self.optimum
            spare = tolerance + noise + case.noise(point) if point is not None else np.inf
            self.made(
                "optimal",
                value - best <= spare,
                label,
                f"F {value:.10g}, {best:.10g} at {point if point is None else point.tolist()}",
            )

    def _check_history(self, result, label, method, noise):
        rows = np.asarray(result.history, dtype=float)
        shape = rows.ndim == 2 and rows.shape[1] >= 3 and np.isfinite(rows).all()
        if not self.made("history", bool(shape), label, f"shape {rows.shape}"):
            return
        F = rows[:, 2]
        room = 4.0 * noise + 1e-12 * np.abs(F).max()
        if method in MONOTONE and "extrapolate" not in label:
            rise = float(np.max(np.diff(F), initial=0.0))
            self.made("history falls", rise <= room, label, f"rises by {rise:.3g} of {F[-1]:.6g}")
        self.made(
            "history ends",
            result.objective == F[-1] == F.min(),
            label,
            f"least {F.min()!r}, last {F[-1]!r}, result {result.objective!r}",
        )
        late = (np.diff(rows[:, 0]) < 0).any() or (np.diff(rows[:, 1]) < -1e-6).any()
        self.made("history in order", not late, label, "iterations or seconds go back")

    def _check_bounds(self, found, x, value, noise, label):
        """Check ``convex_gap``, over all points, and ``support_gap``, over those that hold the same coordinates."""
        case, bounds = self.case, [(name, found.get(name)) for name in ("convex_gap", "support_gap")]
        bounds = [(name, bound) for name, bound in bounds if bound is not None and not np.isnan(bound)]
        self.made("one bound", len(bounds) <= 1, label, f"{bounds}")
        for name, bound in bounds:
            best, point = self.optimum
            if name == "convex_gap":
                self.made("convex", case.is_convex, label, f"convex_gap {bound:.6g}, but F is not convex")
            else:
                # Coordinates with floors stay 0, or at or above them. What projecting leaves of a 0 is 0.
                loose, away = case.gapped.any() and case.free, np.abs(x) > (32 + case.n) * EPS * case.extent
                held = np.flatnonzero(~case.gapped | away) if loose else np.flatnonzero(away)
                fits = loose or (case.sparse and len(held) <= case.s)
                self.made("support", fits, label, f"support_gap {bound:.6g} with {len(held)} non-zeros")
                best, point = (np.inf, None) if self.least is None or not fits else self.least(held)
            if point is not None:
                room = bound * (1 + 1e-9) + noise + case.noise(point) + case.sum_noise(x)
                self.made(
                    name,
                    value - best <= room,
                    label,
                    f"says {bound:.6g}, but {value - best:.6g} above {point.tolist()}",
                )

    @property
    def least(self):
        """The least F on a support, or None where that is not defined or too much work."""
        if self._least is None and self.brute:
            case = self.case
            fits = (case.sparse or (case.free and case.on_line)) and (
                case.g != "top" or (case.lo >= 0.0).all() or not case.on_line
            )
            self._least = (optima.sparse_best(case) if fits else None) or False
        return self._least or None

    @property
    def optimum(self):
        """The least F known of all feasible points, and the point: enumerated where possible."""
        if self._optimum is None:
            self._optimum = (np.inf, None)
            for points in (
                self._enumerated(),
                optima.binary_points(self.case) if self.brute and self.case.on_line and self.case.n <= 8 else None,
            ):
                if points is not None and len(points[0]):
                    k = int(points[1].argmin())
                    self._optimum = min(
                        self._optimum, (self.case.value(points[0][k]), points[0][k]), key=lambda pair: pair[0]
                    )
            if self.case.loss and self.case.free and self.least is not None and not self.case.gapped.any():
                self._optimum = min(self._optimum, self.least(range(self.case.n)), key=lambda pair: pair[0])
        return min([self._optimum, *self.known], key=lambda pair: pair[0])

    def _enumerated(self):
        return optima.candidates(self.case) if self.brute else None

    def certificate(self, x, label="certify", level="pair", **options):
        """Hold a certificate of a feasible point against the references."""
        certificate = self.call(label, lambda: cp.certify(self.problem, x, level=level, **options))
        if certificate is None:
            return None
        case, value, x = self.case, self.outer.value(x), self.inner(x)
        noise = case.noise(x)
        self._check_gap(certificate.cws_gap, x, noise, label)
        self.made(
            "certify objective",
            abs(certificate.objective - value) <= noise,
            label,
            f"says {certificate.objective!r}, is {value!r}",
        )
        if level == "swap" and self.least is not None and certificate.swap_gap is not None:
            best, point = optima.best_exchange(case, x, self.least)
            if not case.on_line:
                near = [refined(case, each) for each in (x, point) if each is not None]
                best, point = min([(best, point), *near], key=lambda pair: pair[0])
            then, other = optima.best_exchange_then(case, x, self.least)
            best, point = min((best, point), (then, other), key=lambda pair: pair[0])
            decrease, gap = max(value - best, 0.0), certificate.swap_gap
            room = 2.0 * (noise + case.noise(x if point is None else point)) + 1e-6 * decrease + case.sum_noise(x)
            # Exchanges on the sphere are compared by eigenvalues, which are exact to rounding of the largest.
            room += 0.0 if case.on_line else 64.0 * EPS * case.n * float(np.abs(np.diag(case.Q)).max())
            bound = getattr(certificate, "swap_bound", gap)
            said = f"found {gap:.8g} by {certificate.worst_swap}, bound {bound:.8g}, an exchange gains {decrease:.8g}: {x.tolist()} → {None if point is None else point.tolist()}"
            self.made("swap_gap not more", gap <= decrease + room, label, said)
            decrease = max(value - then, 0.0)
            said += f"; from the new weights on its support {decrease:.8g}: {None if other is None else other.tolist()}"
            self.made("swap_bound not less", decrease <= bound + room, label, said)
            if case.on_line:
                self.made("swap_gap not less", decrease <= gap + room, label, said)
        self._check_bounds(vars(certificate), x, value, noise, label)
        return certificate
