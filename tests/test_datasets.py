import numpy as np
import pytest
from scipy.stats import kurtosis

from counterpoise.datasets import simulate_market


def test_shapes_and_labels():
    market = simulate_market(n_days=20, n_stocks=30, n_sectors=12)
    assert market.returns.shape == (20, 30)
    assert market.index.shape == (20,)
    assert market.weights.shape == market.sectors.shape == (30,)
    assert market.tickers[:3] == ["AAA", "AAB", "AAC"]
    assert market.tickers[26] == "ABA"
    assert len(set(market.tickers)) == 30
    assert len(set(market.sectors)) == 12


def test_tickers_grow_when_three_letters_are_too_few():
    tickers = simulate_market(n_days=2, n_stocks=26**3 + 1).tickers
    assert len(set(tickers)) == 26**3 + 1
    assert tickers[-1] == "BAAA"


def test_same_seed_same_market():
    first, second, other = (simulate_market(n_days=10, n_stocks=15, seed=seed) for seed in (3, 3, 4))
    for field in ("returns", "index", "weights", "sectors"):
        assert np.array_equal(getattr(first, field), getattr(second, field))
    assert not np.array_equal(first.returns, other.returns)
    assert not np.array_equal(first.weights, other.weights)


def test_index_is_the_weighted_sum_of_returns():
    market = simulate_market(seed=1)
    assert (market.weights > 0.0).all()
    assert market.weights.sum() == pytest.approx(1.0, abs=1e-14)
    by_hand = [sum(w * r for w, r in zip(market.weights, day, strict=True)) for day in market.returns]
    assert market.index == pytest.approx(by_hand, abs=1e-12)


def test_capitalisations_are_heavy_tailed():
    weights = np.sort(simulate_market(seed=2).weights)
    assert weights[-40:].sum() > 0.35  # a tenth of the stocks; equal weights would give 0.1


def test_volatility_is_that_of_a_stock_market_in_percent():
    market = simulate_market(n_days=5000, n_stocks=200)
    per_stock = market.returns.std(axis=0)
    assert 1.5 < np.median(per_stock) < 2.5
    assert ((per_stock > 1.2) & (per_stock < 3.0)).all()
    assert 0.8 < market.index.std() < 1.3
    beta = [np.cov(stock, market.index)[0, 1] / market.index.var() for stock in market.returns.T]
    assert np.mean(beta) == pytest.approx(1.0, abs=0.1)


def test_returns_have_heavier_tails_than_the_normal():
    market = simulate_market(n_days=2000, n_stocks=50)
    assert (kurtosis(market.returns) > 0.5).all()  # the normal's is 0, ± 0.11 in a sample of this size
    assert kurtosis(market.index) > 0.5
    assert market.returns.min() > -100.0


def test_few_stocks_have_few_sectors():
    market = simulate_market(5, 2)
    assert market.returns.shape == (5, 2) and len(set(market.sectors)) == 2
    assert len(set(simulate_market(5, 30).sectors)) == 10


def test_sectors_move_together():
    market = simulate_market(n_days=2000, n_stocks=40, n_sectors=4)
    correlation = np.corrcoef(market.returns.T)
    same = market.sectors[:, None] == market.sectors[None, :]
    apart = ~np.eye(40, dtype=bool)
    assert correlation[same & apart].mean() > correlation[~same].mean() + 0.05


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n_days": 1}, "n_days is 1; it must be at least 2."),
        ({"n_stocks": 1}, "n_stocks is 1; it must be at least 2."),
        ({"n_stocks": 5, "n_sectors": 6}, "n_sectors is 6; it must be between 1 and 5."),
        ({"seed": -1}, "seed is -1; it must be at least 0."),
    ],
)
def test_bad_values_are_refused_with_a_sentence(arguments, sentence):
    with pytest.raises(ValueError) as caught:
        simulate_market(**arguments)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("value", [2.5, "10", True, None])
def test_counts_are_whole_numbers(value):
    with pytest.raises(TypeError, match=r"n_stocks is .*; it must be a whole number\."):
        simulate_market(n_stocks=value)
