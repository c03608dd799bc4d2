"""The measures of IndexTracker: against SLSQP on every set of names, ties, weights of days, sentences."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import counterpoise as cp
from conftest import scaled
from counterpoise.datasets import simulate_market
from counterpoise.estimators.tracking import IndexTracker
from counterpoise.problem import Status
from naive import loss_sum
from test_loss_line import DELTA, best_of_all, least_on

KINDS = {"ete": "square", "dr": "downside", "hete": "huber", "hdr": "huber downside"}
CORNERED = ("hete", "hdr")


def market(rng, m=30, n=6):
    """Percent returns of names with one factor in common, and of an index that none of them can keep up with."""
    returns = rng.standard_normal((m, 1)) + rng.standard_normal((m, n))
    return returns, returns @ rng.dirichlet(np.ones(n)) + 0.3 * rng.standard_normal(m)


def tracker(measure, n_assets=3, **options):
    corner = {"huber": DELTA} if measure in CORNERED else {}
    return IndexTracker(n_assets, measure=measure, **{"random_state": 0, "work": 8, **corner, **options})


@pytest.mark.parametrize("measure", KINDS)
def test_the_best_portfolio_of_all_sets_of_names(measure, rng):
    for _ in range(scaled(3, 1)):
        returns, index = market(rng)
        weight = rng.uniform(0.5, 2.0, len(index))
        found = tracker(measure, max_weight=0.6).fit(returns, index, sample_weight=weight)
        reference = (KINDS[measure], returns, index, weight), np.zeros(6), np.full(6, 0.6), np.zeros(6), ()
        best = best_of_all(reference, 6, 3)
        assert found.result_.objective == pytest.approx(best, rel=1e-6, abs=1e-9)
        assert loss_sum(*reference[0], found.coef_, DELTA) == pytest.approx(best, rel=1e-6, abs=1e-9)
        assert found.coef_.sum() == pytest.approx(1.0, abs=1e-12) and found.coef_.max() <= 0.6 + 1e-10
        error = np.sqrt(weight @ (returns @ found.coef_ - index) ** 2 / weight.sum())
        assert found.tracking_error_ == pytest.approx(error, rel=1e-12)


@pytest.mark.parametrize("measure", KINDS)
def test_the_problem_as_stated_certifies_the_portfolio(measure, rng):
    returns, index = market(rng)
    found = tracker(measure).fit(returns, index)
    certificate = cp.certify(found.problem_, found.coef_, level="swap")
    assert found.result_.status is Status.CERTIFIED
    assert certificate.cws_gap == pytest.approx(found.cws_gap_, abs=1e-10)
    assert 0.0 <= certificate.swap_gap <= certificate.swap_bound + 1e-15
    assert found.problem_.objective(found.coef_) == found.result_.objective


@pytest.mark.parametrize("method", ["search", "swap", "bcd-g"])
@pytest.mark.parametrize("measure", KINDS)
def test_every_method_keeps_the_rules(measure, method, rng):
    returns, index = market(rng, 40, 8)
    options = {"work": None} if method != "search" else {}
    groups = {k: "a" if k < 4 else "b" for k in range(8)}
    rules = {"min_weight": 0.1, "max_weight": 0.5, "groups": groups, "group_limits": {"a": (0.3, 0.6)}}
    rules |= {"transaction_cost": 0.01, "previous_weights": {0: 0.5, 5: 0.5}}
    found = tracker(measure, 4, method=method, **options, **rules).fit(returns, index)
    held = found.coef_[found.coef_ != 0.0]
    assert len(held) <= 4 and held.min() >= 0.1 - 1e-10 and held.max() <= 0.5 + 1e-10
    assert 0.3 - 1e-10 <= found.coef_[:4].sum() <= 0.6 + 1e-10
    z = returns @ found.coef_ - index
    cost = 0.01 * np.abs(found.coef_ - np.array([0.5, 0, 0, 0, 0, 0.5, 0, 0])).sum()
    ties = 0.5e-9 * z @ z if measure in ("dr", "hdr") else 0.0
    value = loss_sum(KINDS[measure], returns, index, np.ones(40), found.coef_, DELTA)
    assert found.result_.objective == pytest.approx(value + cost + ties, rel=1e-12)


@pytest.mark.parametrize("ruled", [False, True])
@pytest.mark.parametrize("measure", ["dr", "hete", "hdr"])
def test_very_many_names(measure, ruled, rng):
    """The default method serves more names than AᵀA is formed for, and finds a planted portfolio or a better one."""
    n, planted = 6100, [7, 2000, 4001, 6050]
    returns, _ = market(rng, 60, n)
    index = returns[:, planted] @ [0.4, 0.3, 0.2, 0.1] + 0.1 * rng.standard_normal(60)
    groups = {"groups": {k: "ab"[k % 2] for k in range(n)}, "group_limits": {"b": (0.5, 0.65)}}
    rules = {"min_weight": 0.05, **groups} if ruled else {}
    found = tracker(measure, 4, work=4, **rules).fit(returns, index)
    reference = (KINDS[measure], returns, index, np.ones(60)), planted, np.full(n, 0.05), np.ones(n), np.zeros(n)
    best = least_on(*reference, (([7, 4001], 0.65),) if ruled else ())
    value = loss_sum(*reference[0], found.coef_, DELTA)
    assert found.result_.status is Status.CERTIFIED and value <= best * (1.0 + 1e-6) + 1e-6
    held = found.coef_[found.coef_ != 0.0]
    assert len(held) <= 4 and held.sum() == pytest.approx(1.0, abs=1e-12)
    if ruled:
        assert held.min() >= 0.05 - 1e-10 and 0.5 - 1e-10 <= found.coef_[1::2].sum() <= 0.65 + 1e-10


@pytest.mark.parametrize("measure", ["dr", "hdr"])
def test_ties_at_zero_go_to_the_smallest_squared_error(measure, rng):
    """Names that beat the index every day all have no downside; the closest portfolio of them is wanted."""
    index = 0.01 * rng.standard_normal(50)
    above = np.array([0.001, 0.002, 0.004, 0.008, 0.016])
    returns = index[:, None] + above + 1e-4 * rng.uniform(0.0, 1.0, (50, 5))
    found = tracker(measure, 2).fit(returns, index)
    closest = IndexTracker(2, random_state=0).fit(returns, index)
    assert (returns @ found.coef_ >= index).all()
    np.testing.assert_allclose(found.coef_, closest.coef_, atol=1e-6)


@pytest.mark.parametrize("measure", KINDS)
def test_paths_do_not_rise(measure, rng):
    returns, index = market(rng, 40, 8)
    path = tracker(measure, work=4).path(returns, index, [1, 2, 4])
    objectives = [result.objective for result in path.results]
    assert objectives[0] >= objectives[1] >= objectives[2]
    assert [np.count_nonzero(row) <= s for row, s in zip(path.weights, (1, 2, 4), strict=True)] == [True] * 3


@pytest.mark.parametrize("measure", KINDS)
def test_one_column_is_the_portfolio(measure, rng):
    returns, index = market(rng, 20, 1)
    found = tracker(measure).fit(returns, index)
    value = loss_sum(KINDS[measure], returns, index, np.ones(20), np.ones(1), DELTA)
    assert found.coef_ == [1.0] and found.result_.objective == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("measure", KINDS)
def test_the_problem_of_one_column_has_it_twice(measure, rng):
    returns, index = market(rng, 20, 1)
    rules = {"min_weight": 0.2, "include": [0], "groups": ["a"], "group_limits": {"a": (0.5, 1.0)}}
    for options in ({}, {"previous_weights": [0.5], "transaction_cost": 0.1}, rules):
        found = tracker(measure, **options).fit(returns, index)
        certificate = cp.certify(found.problem_, [1.0, 0.0])
        assert certificate.cws_gap == 0.0 and certificate.objective == found.result_.objective
        assert found.problem_.start(0).tolist() == [1.0, 0.0]


def test_names_come_back_with_every_measure(rng):
    returns, index = market(rng)
    frame = pd.DataFrame(returns, columns=list("ABCDEF"))
    found = tracker("hdr").fit(frame, index)
    assert list(found.weights_.index) == list("ABCDEF") and set(found.support_) <= set("ABCDEF")
    assert clone(found).get_params()["huber"] == DELTA


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"measure": "mad"}, "measure is 'mad'"),
        ({"measure": "hete"}, 'measure "hete" needs huber, the daily difference beyond which it is linear'),
        ({"measure": "hdr"}, 'measure "hdr" needs huber'),
        ({"huber": 0.1}, 'huber is 0.1, but measure "ete" does not use it; leave it out, or use "hete".'),
        ({"measure": "dr", "huber": 0.1}, 'huber is 0.1, but measure "dr" does not use it'),
        ({"measure": "hete", "huber": 0.0}, "huber is 0; it must be positive"),
        ({"measure": "hete", "huber": -1.0}, "huber is -1; it must be positive"),
        ({"measure": "hete", "huber": np.nan}, "huber"),
        ({"measure": "hete", "huber": "small"}, "huber"),
    ],
)
def test_bad_input(options, sentence, rng):
    with pytest.raises((TypeError, ValueError), match=sentence):
        IndexTracker(2, **options).fit(*market(rng))


@pytest.mark.parametrize("measure", ["dr", "hdr"])
def test_little_work_finds_portfolios_ahead_of_the_index(measure):
    """One job ends nearly as low as sixteen."""
    market = simulate_market(80, 60, seed=0)
    little, much = (tracker(measure, 10, work=work).fit(market.returns, market.index) for work in (1, 16))
    assert much.result_.objective <= little.result_.objective <= 1.1 * much.result_.objective
    assert little.result_.status is Status.CERTIFIED
    short = tracker(measure, 10, work=1, max_time=60.0).fit(market.returns, market.index)
    assert short.result_.objective <= 1.1 * much.result_.objective
