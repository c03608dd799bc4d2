"""
A questionnaire, from its correlations alone
============================================

Answers to items that measure the same trait are correlated, negatively if an item is worded the other way round. Signed
sparse components name a few items of each trait, and the sign says which way round they are worded. A table of
correlations is enough; the answers need not leave the institute.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import counterpoise as cp
from counterpoise.plotting import plot_biplot, plot_loadings

# %%
# 600 people answer 24 items on a scale from 1 to 5. Eight items belong to each of three traits, three of the eight are
# reversed. The answers are simulated, so that the truth is known.

rng = np.random.default_rng(0)
traits = {"calm": "C", "order": "O", "people": "P"}
names = [f"{letter}{k}{'−' if k > 5 else ''}" for letter in traits.values() for k in range(1, 9)]
signs = np.tile(np.r_[np.ones(5), -np.ones(3)], 3)
people = rng.standard_normal((600, 3)) @ np.array([[1.0, 0.3, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
latent = people[:, np.repeat(np.arange(3), 8)] * signs * rng.uniform(0.6, 1.0, 24) + rng.standard_normal((600, 24))
answers = pd.DataFrame(np.clip(np.round(3.0 + latent), 1, 5), columns=names)
correlations = answers.corr()

# %%
# How many items? The path shows how much each number of loadings explains, and suggests where more add little.

path = cp.SparsePCA(n_components=3, random_state=0).path(n_nonzero=range(1, 25), covariance=correlations)
print(f"suggested: {path.elbow} items a component")
path.plot()
plt.show()

# %%
# With as many items the components are the three traits, and the hatched bars are the reversed items.

pca = cp.SparsePCA(n_components=3, n_nonzero=path.elbow, random_state=0).fit(covariance=correlations)
right = 0
for row in pca.components_:
    held = np.flatnonzero(row)
    turn = np.sign(row[held] @ signs[held])
    right += int((np.sign(row[held]) * turn == signs[held]).sum())
print(f"{right} of {np.count_nonzero(pca.components_)} loadings have the sign of their item")
print("correlations of the scores:", pca.score_correlation_[np.triu_indices(3, 1)].round(2).tolist())
plot_loadings(pca.components_, names=names)
plt.show()

# %%
# A biplot of the answers: people are points, items are arrows, dashed if their loading is negative. With
# ``standardize`` the answers are divided by their standard deviation, so that their covariance is the table above.

model = cp.SparsePCA(n_components=3, n_nonzero=path.elbow, standardize=True, random_state=0).fit(answers)
same = np.allclose(np.abs(model.components_), np.abs(pca.components_), atol=1e-6)
print(f"the same components from the answers themselves: {same}")
plot_biplot(model, answers)
plt.show()
