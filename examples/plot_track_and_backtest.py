"""
Track the S&P 500 with eight stocks
===================================

The package skfolio includes prices of 20 stocks and of the S&P 500. Follow the index with eight of the 20. The
portfolio is refitted every quarter on the year before, its weights drift in between, and it pays for what it trades.
All charts are out of sample. Without skfolio a simulated market is used instead, and the title says so.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import counterpoise as cp
from counterpoise.datasets import load_sp500_sample, simulate_market

try:
    sample = load_sp500_sample()
    returns, index = sample.returns["2016":], sample.index["2016":]
    title = "S&P 500, 8 of 20 stocks"
except ImportError as error:
    market = simulate_market(n_days=1500, n_stocks=20, seed=0)
    days = pd.bdate_range("2017-01-02", periods=1500)
    returns = pd.DataFrame(market.returns / 100, index=days, columns=market.tickers)
    index = pd.Series(market.index / 100, index=days)
    title = "SIMULATED market, 8 of 20 stocks (skfolio is not installed)"
    print(error)

# %%
# One portfolio
# -------------

tracker = cp.IndexTracker(n_assets=8, max_weight=0.25, transaction_cost=0.0002, random_state=0)
tracker.fit(returns[:252], index[:252])
print(tracker.weights_[tracker.weights_ > 0].sort_values(ascending=False).round(3).to_string())
print(f"tracking error {tracker.tracking_error_:.4f} a day in sample, gap over pairs {tracker.cws_gap_:.1e}")

# %%
# A new one every quarter
# -----------------------

test = cp.backtest(tracker, returns, index, window=252, step=63, cost=0.001)
print(test.summary(periods=252).round(5).to_string())

# %%
# Growth above, daily differences below; dashed lines are rebalances. That the portfolio of real stocks ends above the
# index is not due to the method: the 20 stocks are survivors.

ax = test.plot()
ax.set_title(title, loc="left")
plt.show()

# %%
# What is held from one rebalance to the next, the largest on average at the bottom.

weights = test.weights.loc[:, test.weights.gt(0).any()]
weights = weights[weights.mean().sort_values(ascending=False).index]
edges = [*weights.index, test.portfolio.index[-1]]
base, colours = np.zeros(len(weights)), plt.get_cmap("tab20")
fig, ax = plt.subplots(figsize=(7.6, 4.0), layout="constrained")
for k, name in enumerate(weights):
    ax.stairs(base + weights[name], edges, baseline=base, fill=True, color=colours(k % 20), label=name)
    base = base + weights[name].to_numpy()
ax.set_ylim(0, 1)
ax.set_xlim(edges[0], edges[-1])
ax.set_ylabel("weights")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), reverse=True, fontsize="small")
plt.show()
