"""
Components of digits, as images
===============================

Ordinary principal components use every pixel, with both signs. Non-negative sparse components use a few pixels each,
and look like strokes: pixels that are dark together.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import counterpoise as cp
from counterpoise.plotting import plot_loadings

digits = load_digits()
X, shape = digits.data, (8, 8)
sparse = cp.NonnegativeSparsePCA(n_components=6, n_nonzero=10, random_state=0).fit(X)
ordinary = PCA(n_components=6).fit(X)
print(f"variance explained together: {sparse.explained_variance_ratio_.sum():.0%} by 6 components of 10 pixels,")
print(f"{ordinary.explained_variance_ratio_.sum():.0%} by 6 of 64 pixels, the most that 6 directions can have")

# %%
# The number above each image is the variance that the component adds to those before it.

fig, axes = plt.subplots(2, 6, figsize=(10.0, 4.1), layout="constrained")
for row, model, name in ((axes[0], sparse, "10 pixels,\nnone negative"), (axes[1], ordinary, "ordinary")):
    shares = [f"{share:.1%}" for share in model.explained_variance_ratio_]
    plot_loadings(model.components_, shape=shape, titles=shares, axes=row)
    row[0].set_ylabel(name, fontsize="large")
fig.suptitle("pixels with a minus sign are negative")
plt.show()

# %%
# More pixels explain more, until only the sign constraint limits a component. For a single component of few pixels the
# optimum can be proved by looking at all supports; the search finds it.

sizes = [3, 5, 10, 20, 40]
shares = [
    cp.NonnegativeSparsePCA(n_components=6, n_nonzero=size, random_state=0).fit(X).explained_variance_ratio_.sum()
    for size in sizes
]
for size, share in zip(sizes, shares, strict=True):
    print(f"{size:3} pixels: {share:.1%}")
middle = X[:, 16:40]
proved = cp.NonnegativeSparsePCA(n_nonzero=4, method="exact").fit(middle)
searched = cp.NonnegativeSparsePCA(n_nonzero=4, random_state=0).fit(middle)
same = np.isclose(proved.explained_variance_[0], searched.explained_variance_[0])
print(f"24 pixels, 4 of them: {proved.results_[0].status.name}, found by search: {bool(same)}")
