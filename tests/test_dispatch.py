"""The registry, the cache on disk, a user's own problem, and installs that cannot be written."""

from __future__ import annotations

import ast
import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

import counterpoise as cp
import counterpoise.plotting
from conftest import scaled
from counterpoise.kernels import cache
from counterpoise.kernels.cache import fingerprint
from counterpoise.kernels.concave import ConcaveQuadratic, change, slope_floor
from counterpoise.kernels.dispatch import has_body, implements, verb

ROOT = Path(__file__).parent.parent
PACKAGE = Path(cp.__file__).parent


def run(code, folder, **environment):
    """Run Python code in a new process; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, **{key: str(value) for key, value in environment.items()}},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Tilt(NamedTuple):
    lam: float


def test_verbs_have_defaults_and_bodies():
    @verb
    def colour(term, x):
        return -1.0

    @implements(colour, Tilt)
    def colour_of_tilt(term, x):
        return term.lam * x

    assert colour(Tilt(2.0), 3.0) == 6.0
    assert colour((1.0,), 3.0) == -1.0
    assert has_body(colour, Tilt)
    assert not has_body(colour, tuple)
    assert slope_floor((1.0,), np.zeros(1), 0) == (-1e300, 0.0)


def test_a_body_from_outside_changes_the_fingerprint_of_what_uses_it_alone():
    class Later(NamedTuple):
        lam: float

    def of(*terms):
        return fingerprint("counterpoise.kernels.sweep", [numba.typeof(term) for term in terms])

    mine, theirs = (Later(1.0), 2.0), (ConcaveQuadratic(1.0), 2.0)
    before = of(mine), of(theirs), of(3)
    implements(change, Later)(lambda g, x, i, a, j, b: 0.0)
    assert of(mine) != before[0]
    assert (of(theirs), of(3)) == before[1:]


def test_the_fingerprint_covers_every_module_that_an_entry_point_is_made_of(tmp_path, monkeypatch):
    """Copies of the kernels, of which one is edited: the entry points that import it have another fingerprint."""
    folder = tmp_path / "kernels"
    shutil.copytree(PACKAGE / "kernels", folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache, "__file__", str(folder / "cache.py"))
    users = {
        "topsum": {"sweep", "block"},
        "line": {"sweep", "block", "swap_line", "tabu_line", "enumerate"},
        "swap_line": {"swap_line", "tabu_line", "swap_arc", "enumerate"},
        "groups": {"block", "swap_line", "tabu_line", "swap_arc", "enumerate"},
        "exchange": {"exchange"},
        "dispatch": {"sweep", "block", "swap_line", "tabu_line", "swap_arc", "enumerate", "exchange"},
    }

    def all_of_them():
        cache._text_of.cache_clear()
        cache._imports_of.cache_clear()
        return {name: fingerprint(f"counterpoise.kernels.{name}", []) for name in users["dispatch"]}

    before = all_of_them()
    assert len(set(before.values())) == len(before)
    for edited, affected in users.items():
        with (folder / f"{edited}.py").open("a") as file:
            file.write("\nEDITED = True\n")
        after = all_of_them()
        changed = {name for name in after if after[name] != before[name]}
        assert affected <= changed, edited
        assert "sweep" in affected or "sweep" not in changed, edited
        before = after
    cache._text_of.cache_clear()
    cache._imports_of.cache_clear()


EDITED = """
from pathlib import Path
from counterpoise.kernels import cache
file = Path(cache.__file__).with_name("topsum.py")
file.write_text(file.read_text() + "\\nEDITED = True\\n")
print(cache.fingerprint("counterpoise.kernels.sweep", []))
"""


def test_a_process_whose_sources_are_edited_keeps_its_kernels_under_the_old_key(tmp_path):
    copy = tmp_path / "src" / "counterpoise"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    first, second = (run(EDITED, tmp_path, PYTHONPATH=tmp_path / "src") for _ in range(2))
    assert first == fingerprint("counterpoise.kernels.sweep", []) != second


def load_example(file="own_penalty", name="CappedL1"):
    namespace = {"__name__": f"{file}_example"}
    path = ROOT / "examples" / f"{file}.py"
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    return namespace[name]


def test_the_examples_own_penalty_is_solved_and_certified(rng):
    CappedL1 = load_example()
    n = scaled(15, 7)
    A, y = rng.standard_normal((20, n)), rng.standard_normal(20)
    g = CappedL1(5.0, 0.1)
    problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 0.4), g, cp.Sum(1))

    def F(points):
        return 0.5 * ((points @ A.T - y) ** 2).sum(axis=1) + 5.0 * np.minimum(points, 0.1).sum(axis=1)

    for rule in ("hybrid", "cyclic", "semi-greedy"):
        result = cp.minimize(problem, working_set=rule)
        x = result.x
        assert result.success
        assert result.objective == pytest.approx(F(x[None])[0])
        for i in range(n):
            for j in range(i):
                eta = np.linspace(max(-x[i], x[j] - 0.4), min(0.4 - x[i], x[j]), 101)
                points = np.repeat(x[None], 101, axis=0)
                points[:, i] += eta
                points[:, j] -= eta
                assert F(points).min() >= result.objective - result.tolerance - 1e-9


def test_an_own_penalty_may_have_an_s_that_is_no_number_of_non_zeros():
    """A convex gap would claim that g is constant on every support of at most s coordinates."""
    CappedL1 = load_example()

    class Named(CappedL1):
        s = 2.5

        def kernel(self, lo, hi):
            return CappedL1(*self)

    problem = cp.Problem(cp.LeastSquares(np.eye(3), [4.0, 4.0, 0.0]), cp.Bounds(0, 8), Named(5.0, 3.0), cp.Sum(8))
    certificate = cp.certify(problem, [4.0, 4.0, 0.0])
    assert certificate.cws_gap == pytest.approx(1.25)
    assert certificate.convex_gap is None
    assert problem.free is None and problem.most_nonzeros == 3
    pytest.importorskip("matplotlib")
    assert cp.plotting.plot_pair(problem, [4.0, 4.0, 0.0], 0, 1).get_title("left") == "F falls by 1.25"


def test_the_examples_own_pieces_are_its_formula(rng):
    HuberDistance = load_example("own_pieces", "HuberDistance")
    A, y, x0 = rng.standard_normal((12, 6)), rng.standard_normal(12), rng.uniform(0, 0.4, 6)
    problem = cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 1) + HuberDistance(x0, 0.1), u=cp.Sum(1))

    def F(x):
        far = np.abs(x - x0)
        return 0.5 * np.sum((A @ x - y) ** 2) + np.where(far <= 0.1, 0.5 * far**2, 0.1 * far - 0.005).sum()

    for seed in range(20):
        x = problem.start(seed)
        assert problem.objective(x) == pytest.approx(F(x), abs=1e-12)
    result = cp.minimize(problem)
    assert result.success and result.convex_gap <= result.tolerance
    rows = {"type": "eq", "fun": lambda x: x.sum() - 1.0}
    best = scipy_minimize(F, result.x, bounds=[(0, 1)] * 6, constraints=rows, options={"ftol": 1e-14})
    assert result.objective <= best.fun + 1e-8


def test_rules_and_options_that_do_not_fit_are_refused(rng):
    ellipsoid = load_example("own_constraint", "Ellipsoid")(np.ones(6))
    f = cp.LeastSquares(rng.standard_normal((8, 6)), np.ones(8))
    problem = cp.Problem(f, cp.Bounds(0, np.inf), u=ellipsoid)
    for rule in ("semi-greedy", "violating"):
        with pytest.raises(ValueError, match=f"working_set is '{rule}'.*but Ellipsoid has no measure of that"):
            cp.minimize(problem, working_set=rule)
    assert cp.minimize(problem, working_set="cyclic").success
    problem = cp.Problem(f, cp.Bounds(0, 1), u=cp.Sum(1))
    with pytest.raises(ValueError, match="newton is False, but k is 3; newton is an option for k = 2"):
        cp.minimize(problem, newton=False, k=3)


@pytest.mark.compiled
def test_the_examples_own_constraint_is_solved_globally_over_pairs(rng):
    Ellipsoid = load_example("own_constraint", "Ellipsoid")
    for _ in range(5):
        A, y, d = rng.standard_normal((8, 5)), rng.standard_normal(8), rng.uniform(0.3, 3.0, 5)
        h = cp.Bounds(0, np.inf) + cp.Linear(rng.standard_normal(5))
        problem = cp.Problem(cp.LeastSquares(A, y), h, u=Ellipsoid(d))
        result = cp.minimize(problem)
        assert result.success and abs(d @ result.x**2 - 1.0) < 1e-12 and (result.x >= 0.0).all()
        certificate = cp.certify(problem, result.x, scan="all")
        assert certificate.cws_gap <= result.tolerance and np.isnan(certificate.critical_residual)
        for i, j in itertools.combinations(range(5), 2):
            v = np.sqrt(d[i] * result.x[i] ** 2 + d[j] * result.x[j] ** 2)
            for angle in np.linspace(0.0, np.pi / 2, 400):
                moved = result.x.copy()
                moved[i], moved[j] = v * np.sin(angle) / np.sqrt(d[i]), v * np.cos(angle) / np.sqrt(d[j])
                assert problem.objective(moved) >= result.objective - result.tolerance - 1e-12
        assert cp.minimize(problem, method="pdca").objective >= result.objective - 1.0
    for method in ("swap", "search", "exact"):
        with pytest.raises(ValueError, match=f"method '{method}' takes TopSum and AtMost"):
            cp.minimize(problem, method=method)
    with pytest.raises(TypeError, match="Ellipsoid has no `step_verb`"):
        cp.Problem(problem.f, problem.h, cp.AtMost(2), problem.u)
    with pytest.raises(ValueError, match=r"Ellipsoid takes Bounds\(0, inf\) and Linear only"):
        cp.Problem(problem.f, cp.Bounds(0, 1), u=problem.u)
    with pytest.raises(TypeError, match="Ellipsoid has no block step: register a body of `solve_state`"):
        cp.minimize(problem, method="bcd-l")


def test_a_constraint_that_lacks_a_body_is_refused_by_name():
    class Bare(cp.Constraint):
        def violation(self, x):
            return 0.0

        def project(self, z, h):
            return z

    f = cp.LeastSquares(np.eye(3), np.ones(3))
    with pytest.raises(
        TypeError, match=r"^u is of type Bare without kernel\(h\); it must be Sum\(c\), Sphere\(\) or a"
    ):
        cp.Problem(f, u=Bare())

    class Term(NamedTuple):
        unused: int

    Bare.kernel = lambda self, h: Term(0)
    with pytest.raises(TypeError, match="Bare has no `pair_step`: register a body of it for Term"):
        cp.Problem(f, u=Bare())

    class Other(cp.Sum):
        pass

    with pytest.raises(TypeError, match="u is of type Other, a subclass of Sum; steps would ignore what it overrides"):
        cp.Problem(f, cp.Bounds(0, 1), u=Other(1))


COMPLETE = {
    "lam": 1.0,
    "value": lambda self, x: 0.0,
    "subgradient": lambda self, x, slope: 0.0 * x,
    "kernel": lambda self, lo, hi: ConcaveQuadratic(self.lam),
}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"lam": None},
            r"^g is of type Own without lam; it must be AtMost, TopSum, Norm2, ConcaveQuadratic or a term ",
        ),
        ({"lam": "much"}, r"^lam of Own is 'much'; it must be a number"),
        (
            {"value": None},
            r"^g is of type Own without value\(x\); .* with lam, value\(x\), subgradient\(x, slope\) and k",
        ),
        ({"subgradient": None}, r"^g is of type Own without subgradient\(x, slope\); it must be"),
        ({"kernel": None}, r"^g is of type Own without kernel\(lo, hi\); it must be"),
        ({"value": 3.0}, r"^g is of type Own without value\(x\); it must be"),
        ({"value": lambda self: 0.0}, r"^g is of type Own, whose value cannot be called as value\(x\)\.$"),
        (
            {"violation": lambda self, x: 0.0},
            r"^g is of type Own, which has violation but not free; a g with violation ",
        ),
    ],
)
def test_a_penalty_that_lacks_a_part_is_refused_by_name(changes, sentence):
    def problem(parts):
        g = type("Own", (), {name: part for name, part in parts.items() if part is not None})()
        return cp.Problem(cp.LeastSquares(np.eye(3), np.ones(3)), cp.Bounds(0, 1), g, cp.Sum(1))

    assert problem(COMPLETE).n == 3
    with pytest.raises(TypeError, match=sentence):
        problem(COMPLETE | changes)


@pytest.mark.parametrize(
    ("kind", "arguments"), [(cp.TopSum, (2, 1.0)), (cp.AtMost, (2,)), (cp.Norm2, (1.0,)), (cp.ConcaveQuadratic, (1.0,))]
)
def test_a_subclass_of_a_penalty_is_refused(kind, arguments):
    """Its value would be another than that which steps know."""

    class Other(kind):
        def value(self, x):
            return 7.0

    with pytest.raises(
        TypeError, match=f"^g is of type Other, a subclass of {kind.__name__}; steps would ignore what it"
    ):
        cp.Problem(cp.LeastSquares(np.eye(3), np.ones(3)), cp.Bounds(0, 1), Other(*arguments), cp.Sum(1))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda f, h, u: cp.Problem(cp.LeastSquares, h, None, u), r"^f is the class LeastSquares; give an instance"),
        (
            lambda f, h, u: cp.Problem(f, cp.Bounds, None, u),
            r"^h is the class Bounds; give an instance of it, such as Bo",
        ),
        (
            lambda f, h, u: cp.Problem(f, h, cp.AtMost, u),
            r"^g is the class AtMost; give an instance of it, such as AtM",
        ),
        (lambda f, h, u: cp.Problem(f, h, None, cp.Sum), r"^u is the class Sum; give an instance of it, such as Sum\("),
        (
            lambda f, h, u: cp.Loss(load_example("own_loss", "LogCosh"), np.eye(3)),
            r"^phi is the class LogCosh; give an",
        ),
    ],
)
def test_a_class_in_place_of_an_instance_is_refused(make, sentence):
    with pytest.raises(TypeError, match=sentence):
        make(cp.LeastSquares(np.eye(3), np.ones(3)), cp.Bounds(0, 1), cp.Sum(1))


@pytest.mark.parametrize(
    ("pieces", "sentence"),
    [
        (lambda self, n: None, r"^Own\.pieces\(n\) returned a NoneType; it must return counterpoise\.Pieces\.$"),
        (lambda self, n: (0, 1), r"^Own\.pieces\(n\) returned a tuple; it must"),
        (lambda self, n: cp.Bounds(0, 1), r"^Own\.pieces\(n\) returned a Bounds; it must"),
        (lambda self: cp.Pieces(0, 1), r"^h is of type Own, whose pieces cannot be called as pieces\(n\)\.$"),
    ],
)
def test_a_separable_term_without_pieces_is_refused(pieces, sentence):
    h = type("Own", (cp.SeparableTerm,), {"pieces": pieces})()
    with pytest.raises(TypeError, match=sentence):
        cp.Problem(cp.LeastSquares(np.eye(3), np.ones(3)), h + cp.Bounds(0, 1), u=cp.Sum(1))


def test_a_constraint_that_says_what_it_is_not_is_refused():
    """``is_line`` is a promise that certificates and steps on faces use."""
    Ellipsoid, f = load_example("own_constraint", "Ellipsoid"), cp.LeastSquares(np.eye(3), np.ones(3))

    def problem(**parts):
        return cp.Problem(f, cp.Bounds(0, np.inf), u=type("Own", (Ellipsoid,), parts)(np.ones(3)))

    assert problem().n == 3
    with pytest.raises(
        TypeError, match=r"^u is of type Own, which has is_line but not c; a u with is_line needs c and t"
    ):
        problem(is_line=True)
    with pytest.raises(
        TypeError, match=r"^u is of type Own, which has is_line but not tree\(n\); a u with is_line needs"
    ):
        problem(is_line=True, c=1.0)
    with pytest.raises(TypeError, match=r"^u is of type Own, which has signed but not shrink\(z, h\); a u with signed"):
        problem(signed=True)


@pytest.mark.parametrize(
    ("name", "most", "parts"),
    [
        ("own_loss", 30, ["LogCosh"]),
        ("own_pieces", 20, ["HuberDistance"]),
        ("own_penalty", 60, ["CappedL1", "capped_change", "capped_step"]),
        ("own_constraint", 80, ["EllipsoidKernel", "Ellipsoid", "turn", "back"]),
    ],
)
def test_a_term_of_ones_own_is_short(name, most, parts):
    """Counted are all lines of its classes and functions, with docstrings, decorators and the blank lines inside.

    Not counted are the docstring of the module, its imports, and what runs it as an example.
    """
    body = ast.parse((ROOT / "examples" / f"{name}.py").read_text()).body
    defined = [node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    assert [node.name for node in defined] == parts
    firsts = [min([node.lineno, *(one.lineno for one in node.decorator_list)]) for node in defined]
    assert sum(node.end_lineno - first + 1 for node, first in zip(defined, firsts, strict=True)) < most


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("name", ["own_penalty", "own_loss"])
def test_the_example_runs(name):
    command = [sys.executable, ROOT / "examples" / f"{name}.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.stdout.startswith("CERTIFIED: F = "), done.stderr


SOLVE = """
import numpy as np, counterpoise as cp
from counterpoise.kernels import sweep
from counterpoise.problems import SIT
rng = np.random.default_rng(0)
problem = SIT(rng.standard_normal((9, 7)), rng.standard_normal(9), 2, 5.0)
assert cp.minimize(problem, working_set="random").success
hits = sum(sum(f.stats.cache_hits.values()) for f in (sweep.epoch,))
print(cp.__file__, hits)
"""


@pytest.mark.slow
@pytest.mark.compiled
def test_cache_is_hit_in_a_new_process_and_missed_after_an_edit_anywhere(tmp_path):
    copy = tmp_path / "src" / "counterpoise"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    place = {"PYTHONPATH": tmp_path / "src", "NUMBA_CACHE_DIR": tmp_path / "cache"}
    assert run(SOLVE, tmp_path, **place) == f"{copy / '__init__.py'} 0"
    assert run(SOLVE, tmp_path, **place) == f"{copy / '__init__.py'} 1"
    # topsum.py is only called by sweep.py's entry points: Numba's own cache would not notice this edit.
    with (copy / "kernels" / "topsum.py").open("a") as file:
        file.write("\nEDITED = True\n")
    assert run(SOLVE, tmp_path, **place).endswith(" 0")


OWN = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np, counterpoise as cp
from counterpoise.kernels import sweep
from penalty import CappedL1
rng = np.random.default_rng(0)
f = cp.LeastSquares(rng.standard_normal((9, 7)), rng.standard_normal(9))
result = cp.minimize(cp.Problem(f, cp.Bounds(0, 1), CappedL1(1.0, 0.1), cp.Sum(1)))
print(sum(sweep.epoch.stats.cache_hits.values()), result.success)
"""


@pytest.mark.slow
@pytest.mark.compiled
def test_a_users_own_term_is_cached_until_it_is_edited(tmp_path):
    source = (ROOT / "examples" / "own_penalty.py").read_text()
    (tmp_path / "penalty.py").write_text(source)
    place = {"NUMBA_CACHE_DIR": tmp_path / "cache"}
    code = OWN.format(folder=str(tmp_path))
    solve = SOLVE.replace('working_set="random"', "")
    assert run(solve, ROOT, **place).endswith(" 0")
    assert run(code, tmp_path, **place) == "0 True"
    assert run(code, tmp_path, **place) == "1 True"
    # Kernels of the package outlast a term of a module that the next process does not have.
    assert run(solve, ROOT, **place).endswith(" 1")
    assert run(code, tmp_path, **place) == "1 True"
    (tmp_path / "penalty.py").write_text(source.replace("(-1.0, 0.0, 1.0)", "(1.0, 0.0, -1.0)"))
    assert run(code, tmp_path, **place) == "0 True"


@pytest.mark.slow
@pytest.mark.compiled
def test_a_term_of_a_script_is_compiled_again_and_leaves_no_files(tmp_path):
    """Its class is another one in the next process, which could not use what this one compiled."""
    place = {"NUMBA_CACHE_DIR": tmp_path / "cache"}
    code = OWN.format(folder=str(ROOT)).replace(
        "from penalty import CappedL1", (ROOT / "examples" / "own_penalty.py").read_text().split("if __name__")[0]
    )
    counts = []
    for _ in range(2):
        assert run(code, tmp_path, **place) == "0 True"
        counts.append(len(list((tmp_path / "cache").rglob("*.nbc"))))
    assert counts[0] == counts[1]


@pytest.mark.slow
@pytest.mark.compiled
def test_without_a_writable_cache_everything_still_works(tmp_path):
    """Numba raises at decoration time if it finds no place for its cache."""
    code = (
        "import numba.core.caching as c\n"
        "def nowhere(self, *a): raise RuntimeError('cannot cache function: no locator available')\n"
        "c.CacheImpl.__init__ = nowhere\n"
    )
    assert run(code + SOLVE, tmp_path).endswith(" 0")


@pytest.mark.compiled
def test_plain_python_gives_the_same_point(tmp_path, capsys):
    """NUMBA_DISABLE_JIT=1 runs the same kernels as Python."""
    code = """
import numpy as np, counterpoise as cp
from counterpoise.problems import SIT, NNSPCA, DCPB1, DCPB2
rng = np.random.default_rng(0)
A, y = rng.standard_normal((9, 6)), rng.standard_normal(9)
for problem in (SIT(A, y, 2, 5.0), NNSPCA(A, 2, 5.0), DCPB1(A, y, 0, 50.0), DCPB2(A, y, 0, 9.0)):
    print(" ".join(f"{v:.10f}" for v in cp.minimize(problem).x))
"""
    exec(code, {})
    here = capsys.readouterr().out.strip()
    assert run(code, tmp_path, NUMBA_DISABLE_JIT=1) == here
    assert len(here.splitlines()) == 4
