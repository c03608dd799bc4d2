"""Draw docs/_static/results.svg, the picture of the README and of the first page: ``python docs/pictures.py``."""

from pathlib import Path

from sklearn.datasets import load_diabetes, load_digits

import counterpoise as cp
from counterpoise.datasets import simulate_market
from counterpoise.figures.drawing import new_figure, save_figure
from counterpoise.plotting import plot_balance, plot_loadings, plot_tracking

TO = Path(__file__).parent / "_static"


def results() -> None:
    """Draw what the three snippets of the README find: a portfolio, five components, two groups."""
    figure = new_figure(11.5, 3.6)
    parts = figure.subfigures(1, 3, width_ratios=(1.2, 0.8, 1.1))
    titles = ("30 of 400 stocks follow an index", "6 components of 10 pixels each", "two groups of patients that match")
    for part, title in zip(parts, titles, strict=True):
        part.suptitle(title, fontweight="bold")

    market = simulate_market(n_days=504, n_stocks=400, seed=0)
    returns, index = market.returns / 100, market.index / 100
    tracker = cp.IndexTracker(n_assets=30, max_weight=0.1, random_state=0).fit(returns[:252], index[:252])
    ax = plot_tracking(returns @ tracker.weights_, index, out_of_sample=252, ax=parts[0].subplots())
    ax.legend(frameon=False, loc="upper right")
    ax.figure.axes[-1].set_xlabel("day")

    pca = cp.NonnegativeSparsePCA(n_components=6, n_nonzero=10, random_state=0).fit(load_digits().data)
    plot_loadings(pca.components_, shape=(8, 8), titles=[""] * 6, axes=parts[1].subplots(3, 2))

    split = cp.balanced_split(load_diabetes(as_frame=True).data, n_treated=150, random_state=0)
    plot_balance(split.balance, ax=parts[2].subplots())
    save_figure(figure, TO / "results.svg", dpi=100)


if __name__ == "__main__":
    results()
