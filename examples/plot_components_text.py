"""
Topics of a small library of texts
==================================

The docstrings of SciPy's functions are a corpus that needs no download: a few hundred texts about a dozen subjects.
Each is a row of word weights, most of them zero. A component of eight words with positive loadings reads as a topic,
and the matrix is never made dense.
"""

import importlib
import inspect
import re

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer

import counterpoise as cp
from counterpoise.plotting import STYLES, plot_loadings

subjects = ("cluster.hierarchy", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal",
            "sparse.csgraph", "spatial.distance", "stats")  # fmt: skip
texts: list[str] = []
subject_of: list[str] = []
for subject in subjects:
    module = importlib.import_module(f"scipy.{subject}")
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isfunction(thing) and thing.__doc__:
            texts.append(re.sub(r":math:`[^`]*`|\.\. math::", " ", thing.__doc__.split("Examples\n")[0]))
            subject_of.append(subject)

# %%
# Words that every docstring has, such as parameters and returns, are left out along with English stop words.

trade = "array arrays axis bool default dtype false float input int ndarray none object optional output parameter "
trade += "parameters references return returned returns scipy shape specified true used value values versionadded "
trade += "frac mathbf mathtt"
words = TfidfVectorizer(stop_words=[*ENGLISH_STOP_WORDS, *trade.split()], token_pattern=r"[a-z]{3,}", min_df=4)
X = words.fit_transform(texts)
names = words.get_feature_names_out()
print(f"{X.shape[0]} texts, {X.shape[1]} words, {X.nnz / np.prod(X.shape):.1%} of the entries are not zero")
topics = cp.NonnegativeSparsePCA(n_components=9, n_nonzero=8, random_state=0).fit(X)

# %%
# The title of each panel is the subject whose texts score highest on average.

scores = topics.transform(X)
averages = {subject: scores[np.array(subject_of) == subject].mean(axis=0) for subject in subjects}
fig, axes = plt.subplots(3, 3, figsize=(10.0, 7.2), layout="constrained", sharex=True)
for k, ax in enumerate(axes.flat):
    order = np.argsort(-topics.components_[k])[:8]
    ax.barh(names[order], topics.components_[k][order], color=STYLES["bcd-l"].colour, height=0.7)
    ax.invert_yaxis()
    subject = max(subjects, key=lambda name, k=k: float(averages[name][k]))  # type: ignore[misc]
    ax.set_title(f"scipy.{subject}", loc="left", fontsize="medium")
    ax.tick_params(left=False)
    ax.spines[["top", "right", "left"]].set_visible(False)
for ax in axes[-1]:
    ax.set_xlabel("loading")
plt.show()

# %%
# With signs a component is a contrast: texts that have the words of the plain bars lack those of the hatched ones. The
# share of the variance that both kinds explain, with as many words:

contrasts = cp.SparsePCA(n_components=9, n_nonzero=8, random_state=0).fit(X)
signed, positive = (100.0 * model.explained_variance_ratio_.sum() for model in (contrasts, topics))
print(f"{signed:.2f} % with signs, {positive:.2f} % without")
order = np.argsort([row.min() for row in contrasts.components_], kind="stable")[:2]
titles = [f"component {k}" for k in order]
plot_loadings(contrasts.components_[order], names=names, most=8, titles=titles)
plt.show()
