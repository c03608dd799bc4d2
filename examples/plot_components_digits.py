"""
Components of digits, as images
===============================

Ordinary principal components use every pixel, with both signs. Non-negative sparse components use a few each, and are
strokes that one can see: pixels that are dark together.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import counterpoise as cp

digits = load_digits()
X, shape = digits.data, (8, 8)
sparse = cp.NonnegativeSparsePCA(n_components=6, n_nonzero=10, random_state=0).fit(X)
ordinary = PCA(n_components=6).fit(X)
print(f"variance explained together: {sparse.explained_variance_ratio_.sum():.0%} by 6 components of 10 pixels,")
print(f"{ordinary.explained_variance_ratio_.sum():.0%} by 6 of 64 pixels, the most that 6 directions can have")

# %%
# Below each image stands the variance that the component adds to those before it.

fig, axes = plt.subplots(2, 6, figsize=(10.0, 4.1), layout="constrained")
for row, model, name in ((0, sparse, "10 pixels,\nnone negative"), (1, ordinary, "ordinary")):
    for k, ax in enumerate(axes[row]):
        image = model.components_[k].reshape(shape)
        reach = float(np.abs(image).max())
        ax.imshow(image, cmap="RdBu_r", vmin=-reach, vmax=reach)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.spines[:].set_color("0.8")
        ax.set_xlabel(f"{model.explained_variance_ratio_[k]:.1%}")
    axes[row, 0].set_ylabel(name, fontsize="large")
fig.suptitle("red: positive loadings, blue: negative, white: none")
plt.show()

# %%
# More pixels explain more, until the signs alone are what limits a component. For a single component of few pixels the
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
