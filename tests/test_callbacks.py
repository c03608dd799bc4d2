import subprocess
import sys
import textwrap

import numpy as np
import pytest

from counterpoise.cli import base, portfolio, track
from counterpoise.estimators import callbacks
from counterpoise.estimators.binary import BinaryLeastSquares
from counterpoise.estimators.pca import NonnegativeSparsePCA
from counterpoise.estimators.tracking import IndexTracker


def data(m=40, n=12):
    rng = np.random.default_rng(3)
    X = 0.01 * (rng.standard_normal((m, n)) + rng.standard_normal((m, 1)))
    return X, X @ rng.dirichlet(np.ones(n))


# The estimator, and how many batches, totals, components or rounds it tells of; None for what depends on the clock.
CASES = {
    "tracker": (IndexTracker(3, work=20, random_state=0), 5),
    "tracker with all rules": (IndexTracker(5, min_weight=0.05, work=20, random_state=0), 5),
    "tracker by exchanges": (IndexTracker(3, method="swap", random_state=0), None),
    "tracker with a clock": (IndexTracker(3, max_time=0.3, random_state=0), None),
    "one component": (NonnegativeSparsePCA(n_nonzero=3, random_state=0), 1),
    "components": (NonnegativeSparsePCA(3, 3, backfit=0, random_state=0), 3),
    "components together": (NonnegativeSparsePCA(3, 3, backfit=4, random_state=0), None),
    "binary": (BinaryLeastSquares(work=20, random_state=0), 3),
    "binary with a total": (BinaryLeastSquares(total=0, random_state=0), 16),
    "binary, proved": (BinaryLeastSquares(method="exact", random_state=0), 13),
    "binary, pairs": (BinaryLeastSquares(method="bcd-g", random_state=0), None),
}
SAME = [name for name in CASES if "clock" not in name]


def fresh(name):
    from sklearn.base import clone

    return clone(CASES[name][0])


def found(estimator):
    """What a fit found, bit by bit."""
    results = estimator.results_ if hasattr(estimator, "results_") else [estimator.result_]
    parts = [estimator.components_ if hasattr(estimator, "components_") else estimator.coef_]
    parts += [np.append(result.x, [result.objective, result.nit]) for result in results]
    return [part.tobytes() for part in parts]


class Recorder:
    """A callback that notes what it sees, and stops after some tasks."""

    def __init__(self, stop_after=None):
        self.begun, self.ended, self.fitted, self.totals = [], [], [], {}
        self.stop_after, self.calls = stop_after, []

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(self.path(context))
        self.totals[self.path(context)] = context.max_subtasks

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.ended.append(self.path(context))
        if fitted_estimator is not None:
            self.fitted.append(fitted_estimator)
            assert X is not None
            getattr(fitted_estimator, "predict", getattr(fitted_estimator, "transform", None))(X)
        return self.stop_after is not None and len(self.ended) >= self.stop_after

    @staticmethod
    def path(context):
        above = () if context.parent is None else Recorder.path(context.parent)
        return (*above, (context.task_name, context.task_id))


@pytest.mark.parametrize("name", CASES)
def test_a_progress_bar_runs_to_the_end(name, capsys):
    module = pytest.importorskip("sklearn.callback")
    estimator = fresh(name).set_callbacks(module.ProgressBar()).fit(*data())
    assert f"{type(estimator).__name__} - fit" in capsys.readouterr().out
    if name in SAME:
        assert found(estimator) == found(fresh(name).fit(*data()))


@pytest.mark.parametrize("name", CASES)
def test_tasks_begin_and_end(name, monkeypatch):
    pytest.importorskip("sklearn.callback")
    monkeypatch.setattr(callbacks, "PAUSE", 0.0)
    recorder = Recorder()
    estimator = fresh(name).set_callbacks(recorder).fit(*data())
    assert recorder.calls == ["setup", "teardown"]
    assert sorted(recorder.begun) == sorted(recorder.ended)
    assert len(set(recorder.begun)) == len(recorder.begun)
    root = recorder.begun[0]
    assert recorder.ended[-1] == root == (("fit", 0),)
    if CASES[name][1] is not None:
        assert recorder.totals[root] == len(recorder.begun) - 1 == CASES[name][1]
    else:
        assert len(recorder.begun) > 1
    assert not [attribute for attribute in vars(estimator) if attribute.startswith("_callback")]
    if name in SAME:
        assert found(estimator) == found(fresh(name).fit(*data()))


def test_rounds_of_backfitting_are_tasks():
    pytest.importorskip("sklearn.callback")
    recorder = Recorder()
    pca = fresh("components together").set_callbacks(recorder).fit(*data())
    assert recorder.totals[("fit", 0),] == 4
    assert [path[-1][0] for path in recorder.begun if len(path) == 3] == ["round"] * pca.n_iter_


@pytest.mark.parametrize("name", ["tracker", "tracker with all rules", "binary with a total"])
def test_a_callback_sees_points_and_stops_the_search(name):
    pytest.importorskip("sklearn.callback")
    recorder = Recorder(stop_after=1)
    estimator = fresh(name).set_callbacks(recorder).fit(*data())
    assert recorder.ended == [(("fit", 0), ("batch", 0)), (("fit", 0),)]
    assert sorted(recorder.begun) == sorted(recorder.ended)
    assert len(recorder.fitted) == 2
    assert np.array_equal(recorder.fitted[1].coef_, estimator.coef_)


def test_a_callback_stops_backfitting():
    pytest.importorskip("sklearn.callback")
    recorder = Recorder(stop_after=4)
    assert fresh("components together").set_callbacks(recorder).fit(*data()).n_iter_ == 1


def test_a_bar_for_a_grid_of_trackers(capsys):
    module = pytest.importorskip("sklearn.callback")
    from sklearn.model_selection import GridSearchCV

    grid = GridSearchCV(IndexTracker(work=8, random_state=0), {"n_assets": [2, 3]}, cv=2)
    if not hasattr(grid, "set_callbacks"):
        pytest.skip("this scikit-learn's grids take no callbacks")
    grid.set_callbacks(module.ProgressBar()).fit(*data())
    assert "IndexTracker - fit" in capsys.readouterr().out


def test_a_failed_fit_tidies_up():
    pytest.importorskip("sklearn.callback")
    recorder = Recorder()
    with pytest.raises(ValueError, match="n_assets"):
        IndexTracker(0).set_callbacks(recorder).fit(*data())
    assert recorder.calls == []
    X = np.random.default_rng(0).standard_normal((80, 60))
    with pytest.raises(ValueError, match="components"):
        NonnegativeSparsePCA(1, 20, method="exact").set_callbacks(recorder).fit(X)
    assert recorder.calls == ["setup", "teardown"]


# Who listens from outside, as the command line does.


def test_a_listener_hears_the_objective():
    heard = []
    X, y = data()
    with callbacks.listening(lambda *said: heard.append(said)):
        tracker = fresh("tracker with all rules").fit(X, y)
    # The last batch of all is followed by reports of the certificate.
    shares = [share for _, share in heard]
    assert list(dict.fromkeys(shares)) == [k / 5 for k in range(1, 6)] and shares == sorted(shares)
    for progress, _ in heard:
        assert progress.objective == pytest.approx(0.5 * np.sum((X @ progress.x - y) ** 2), abs=1e-12)
    assert heard[-1][0].objective == pytest.approx(tracker.result_.objective, rel=1e-6)
    assert found(tracker) == found(fresh("tracker with all rules").fit(X, y))
    before = len(heard)
    fresh("tracker").fit(X, y)
    assert len(heard) == before


@pytest.mark.parametrize("max_time", [None, 0.3])
@pytest.mark.parametrize("split", [None, 30])
def test_the_command_says_the_objective_and_the_time_left(max_time, split, monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.setattr(base, "LONG", 0.0)
    X, y = data()
    said, left = [], []
    line = base.Line(lambda text: (said.append(text), left.append(line.left()) if len(said) > 1 else None))
    returns = pandas.DataFrame(X).add_prefix("N")
    tables = portfolio.Data(returns, returns, pandas.Series(y), "index", False, 5, [], list(returns))
    tracker = IndexTracker(3, max_time=max_time, random_state=0)
    track._fit(tracker, tables, split, None, False, line)
    assert said[1] == "3 of 12 names …"
    assert said[2].startswith("3 of 12 names: objective ")
    about = "about " if max_time is None else ""
    assert left[1].startswith(about) and left[1].endswith(" s left")


# Without the callbacks of scikit-learn.


def test_fits_without_scikit_learns_callbacks():
    program = """
        import sys
        sys.modules["sklearn.callback"] = None
        import numpy as np
        import counterpoise.estimators.callbacks as callbacks
        from counterpoise.estimators.binary import BinaryLeastSquares
        from counterpoise.estimators.pca import NonnegativeSparsePCA
        from counterpoise.estimators.tracking import IndexTracker
        assert callbacks.CallbackSupport is callbacks.NoCallbackSupport
        X = np.random.default_rng(0).standard_normal((20, 6))
        for estimator in (
            IndexTracker(2, work=8, random_state=0),
            NonnegativeSparsePCA(2, 3, backfit=2, random_state=0),
            BinaryLeastSquares(work=8, random_state=0),
            BinaryLeastSquares(method="exact", random_state=0),
        ):
            assert not hasattr(estimator.fit(X, X.mean(axis=1)), "set_callbacks")
        heard = []
        with callbacks.listening(lambda *said: heard.append(said)):
            IndexTracker(2, work=8, random_state=0).fit(X, X.mean(axis=1))
        assert len(heard) >= 2 and heard[-1][1] == 1.0
    """
    # scikit-learn itself needs the module where it has it, so it may not be blocked before it is loaded.
    program = "import sklearn.base, sklearn.utils.validation, sklearn.linear_model\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_the_fallback_does_nothing():
    context = callbacks.NoCallbackSupport()._init_callback_context(max_subtasks=3)
    assert context.subcontext(task_name="batch").call_on_fit_task_begin(estimator=None) is context
    assert context.call_on_fit_task_end(estimator=None) is False
