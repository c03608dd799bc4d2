"""
Synthetic control with five donors
==================================

A law takes effect in one of 39 regions. What would have happened without it? The answer is a weighted mean of a few
other regions, the donors, that matched the region before the law. The data are SIMULATED, in the style of the panels
that such studies use: sales per head over 30 years, the last 12 of them under the law, which lowers them by 1.5 more
each year.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import counterpoise as cp
from counterpoise.plotting import STYLES

rng = np.random.default_rng(7)
years = np.arange(1980, 2010)
law, count = 1998, 38
# Regions differ in how they follow three common trends.
trends = np.cumsum(rng.normal(0.0, 1.0, (len(years), 3)), axis=0) + np.outer(np.arange(len(years)), [-0.8, 0.3, 0.0])
names = [f"region {k:02d}" for k in range(1, count + 1)]
donors = pd.DataFrame(100.0 + trends @ rng.uniform(0.3, 1.7, (3, count)), index=years, columns=names)
treated = donors.iloc[:, :5] @ [0.35, 0.25, 0.2, 0.15, 0.05]
donors += rng.normal(0.0, 0.5, donors.shape)
treated += rng.normal(0.0, 0.5, len(years)) - 1.5 * np.maximum(0, years - law + 1)
before = years < law

# %%
# Non-negative weights that sum to 1 do not extrapolate. With ``n_nonzero=5`` there are at most five donors, few enough
# to name and discuss.


def synthetic(others: pd.DataFrame, series: pd.Series) -> tuple[cp.SimplexRegression, pd.Series]:
    """Fit on the years before the law; return the model and the gap in all years."""
    model = cp.SimplexRegression(n_nonzero=5, random_state=0).fit(others[before], series[before])
    return model, series - model.predict(others)


model, gap = synthetic(donors, treated)
weights = pd.Series(model.coef_, index=donors.columns)
print(weights[weights > 0.0].sort_values(ascending=False).round(3).to_string())
print(f"root mean square gap before the law: {np.sqrt((gap[before] ** 2).mean()):.2f}")
print(f"mean gap under the law: {gap[~before].mean():.2f}; simulated: {-1.5 * np.arange(1, 13).mean():.2f}")

# %%
# Is a limit of five too strict? Without one, the minimum is proved, and says nearly the same with more donors.

every = cp.SimplexRegression(random_state=0).fit(donors[before], treated[before])
rest = treated - every.predict(donors)
print(f"without a limit: {len(every.support_)} donors, {every.result_.status.name.lower()};", end=" ")
print(f"gap {np.sqrt((rest[before] ** 2).mean()):.2f} before the law, {rest[~before].mean():.2f} under it")

# %%
# Placebo tests
# -------------
# Pretend that each donor had the law, and make a synthetic control for it from the other donors. The ratio of gaps
# under the law to gaps before it says how unusual the region is. If the law did nothing and each region was as likely
# to have it, the rank of the true region among all is uniform: p is its rank over their number.


def ratio(gap: pd.Series) -> float:
    """Return the root mean square gap under the law over that before it."""
    return float(np.sqrt((gap[~before] ** 2).mean() / (gap[before] ** 2).mean()))


placebos = {name: synthetic(donors.drop(columns=name), donors[name])[1] for name in donors.columns}
ratios = {name: ratio(each) for name, each in placebos.items()}
rank = 1 + sum(value >= ratio(gap) for value in ratios.values())
print(f"ratio {ratio(gap):.1f}, the largest of a placebo {max(ratios.values()):.1f}; p = {rank}/{count + 1}")

# %%
# The region and its synthetic control, the gaps of region and placebos, and their ratios.

ours = STYLES["bcd-l"].colour
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(12.0, 3.8), layout="constrained", width_ratios=(1.2, 1.2, 0.8))
left.plot(years, treated, color=ours, lw=2.2, label="region with the law")
left.plot(years, treated - gap, color="0.3", ls=(0, (4, 2)), label="synthetic, five donors")
left.legend(frameon=False)
left.set_ylabel("sales per head (simulated)")
for each in placebos.values():
    middle.plot(years, each, color="0.8", lw=0.8)
middle.plot(years, gap, color=ours, lw=2.2)
middle.axhline(0.0, color="0.5", lw=0.8)
middle.set_ylabel("gap to the synthetic control")
for ax in (left, middle):
    ax.axvline(law - 0.5, color="0.5", ls=":")
right.hist(list(ratios.values()), bins=list(np.geomspace(0.5, 6.0, 15)), color="0.8")
right.set_xscale("log")
right.axvline(ratio(gap), color=ours, lw=2.2)
right.set_xlabel("gap under the law / gap before it")
right.set_ylabel("placebos")
for ax in (left, middle, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
