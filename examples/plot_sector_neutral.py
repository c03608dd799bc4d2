"""
Sector weights and turnover
===========================

A tracker of 25 names with the sector weights of the index, on a simulated market of 150 stocks; and how the tracking
error rises as turnover is reduced.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import counterpoise as cp
from counterpoise.datasets import simulate_market
from counterpoise.plotting import SPARE, STYLES

market = simulate_market(n_days=504, n_stocks=150, n_sectors=8, seed=3)
returns = pd.DataFrame(market.returns / 100, columns=market.tickers)
index = pd.Series(market.index / 100)
sector = pd.Series(market.sectors, index=market.tickers)
first, second = slice(0, 252), slice(252, 504)

# %%
# Sector weights
# --------------
# One number per group in ``group_limits`` fixes the sum of its weights; limits such as ``(0.1, 0.2)`` bound it.

of_index = pd.Series(market.weights, index=market.tickers).groupby(sector).sum()
free = cp.IndexTracker(n_assets=25, random_state=0)
neutral = cp.IndexTracker(n_assets=25, groups=sector, group_limits=of_index, random_state=0)
for name, tracker in (("free", free), ("sector-neutral", neutral)):
    tracker.fit(returns[first], index[first])
    later = tracker.tracking_error(returns[second], index[second])
    print(f"{name:15} tracking error a day: {tracker.tracking_error_:.5f} in sample, {later:.5f} in the year after")
off = (neutral.weights_.groupby(sector).sum() - of_index).abs().max()
print(f"largest difference of a sector's weight: {off:.1e}")

# %%
# Turnover
# --------
# A year later the portfolio is fitted again. With a transaction cost in the objective, only trades that are worth their
# cost are made. The sector weights hold at every point of the curve.

held = neutral.weights_
costs = [0.0, 1e-4, 1.5e-4, 2e-4, 3e-4, 5e-4, 2e-3]
turnovers, errors = [], []
for cost in costs:
    again = cp.IndexTracker(
        n_assets=25,
        groups=sector,
        group_limits=of_index,
        previous_weights=held,
        transaction_cost=cost,
        random_state=0,
    ).fit(returns[second], index[second])
    turnovers.append(again.turnover_)
    errors.append(1e4 * again.tracking_error_)

# %%
# Turnover is the sum of all purchases and sales; 2 replaces the whole portfolio.

fig, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.4), layout="constrained")
order = of_index.sort_values().index
place = np.arange(len(order))
for shift, name, weights, colour in (
    (0.25, "index", of_index, "0.6"),
    (0.0, "free tracker", free.weights_.groupby(sector).sum(), SPARE[0].colour),
    (-0.25, "sector-neutral tracker", neutral.weights_.groupby(sector).sum(), STYLES["bcd-l"].colour),
):
    left.barh(place + shift, 100 * weights[order], height=0.23, color=colour, label=name)
left.set_yticks(place, order)
left.set_xlabel("weight of the sector, percent")
left.legend(frameon=False, loc="lower right")
right.plot(turnovers, errors, "o-", color=STYLES["bcd-l"].colour, mfc="white", mew=1.6)
for cost, turnover, error in zip(costs, turnovers, errors, strict=True):
    right.annotate(f"{1e4 * cost:g}", (turnover, error), (0, 8), textcoords="offset points", ha="center")
right.set_title("numbers: transaction cost in basis points", loc="left", fontsize="medium")
right.set_xlabel("turnover")
right.set_ylabel("tracking error, basis points a day")
right.set_ylim(0, 1.15 * max(errors))
for ax in (left, right):
    ax.grid(True, color="0.92")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
