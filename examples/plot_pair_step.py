"""
The pair step in one picture
============================

What one coordinate gives, another takes: x + η(eᵢ − eⱼ) keeps the sum of x for every η. Along that line the objective
is a function P of one variable, whose minimum is at one of a few *breakpoints*. All of them are tried, so the step is
the best of any length. A gradient method uses only the slope of P at one point.
"""

import matplotlib.pyplot as plt
import numpy as np

import counterpoise as cp
from counterpoise.kernels import sweep
from counterpoise.plotting import SPARE, STYLES
from counterpoise.problems import NNSPCA

# %%
# A pair of index tracking
# ------------------------
# g is minus λ times the sum of the s = 2 largest weights. Depending on η, the one weight of the pair is among these
# two, or neither is, or the other: three convex parabolas, of which P is the least. Their lowest points are
# −(λ + β)/α, −β/α and (λ − β)/α, where α is the curvature and β the slope of f along the line.

lam, i, j = 1.0, 0, 1
x = np.array([0.115, 0.335, 0.28, 0.27])
problem = cp.Problem(
    f=cp.Quadratic(4.0 * np.eye(4), [-0.12, 0.0, 0.0, 0.0]), h=cp.Bounds(0, 1), g=cp.TopSum(s=2, lam=lam), u=cp.Sum(1)
)
gradient = problem.f.gradient(x)
alpha, beta = 8.0, float(gradient[i] - gradient[j])
direction = np.eye(4)[i] - np.eye(4)[j]
low, high = -x[i], x[j]

eta = np.linspace(low, high, 600)
P = np.array([problem.objective(x + step * direction) - problem.objective(x) for step in eta])
candidates = {"only j": -1.0, "neither": 0.0, "only i": 1.0}
steps = {name: float(np.clip((k * lam - beta) / alpha, low, high)) for name, k in candidates.items()}

# %%
# The kernel returns the same step: it tries the three and scores each by the true objective.

terms = problem.terms()
sweep.start(terms, x)
new_i, new_j, decrease = sweep.step(terms, x, i, j, 0.0)
print(f"x_i: {x[i]:.3f} → {new_i:.3f}, x_j: {x[j]:.3f} → {new_j:.3f}, F falls by {decrease:.4f}")

# %%
# A pair of non-negative sparse PCA
# ---------------------------------
# On the sphere the pair moves on an arc, xᵢ = v sin α and xⱼ = v cos α. Each case is a trigonometric polynomial, whose
# slope is a quartic in tan(α/2); its roots and the two ends are the breakpoints. s = 1, and the pair starts near the
# wrong end of the arc.

A = np.array([[1.2, 0.0, 0.2], [0.0, 1.0, 0.1]])
sphere = NNSPCA(A, s=1, lam=0.9)
point = np.array([np.sin(0.0), np.cos(0.0), 0.0])
angle = np.linspace(0.0, np.pi / 2, 600)
arc = np.array([sphere.objective([np.sin(each), np.cos(each), 0.0]) - sphere.objective(point) for each in angle])
on_arc = sphere.terms()
sweep.start(on_arc, point)
end_i, end_j, gain = sweep.step(on_arc, point, 0, 1, 0.0)

# %%
# At both starting points a gradient method stops, because no small step lowers the objective. The pair step goes on.

fig, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.4), layout="constrained")
colours = [SPARE[0].colour, STYLES["mscr"].colour, STYLES["pdca"].colour]
for (name, k), colour in zip(candidates.items(), colours, strict=True):
    kept = {-1.0: x[2] + x[j] - eta, 0.0: x[2] + x[3] + 0.0 * eta, 1.0: x[2] + x[i] + eta}[k]
    piece = 0.5 * alpha * eta**2 + beta * eta - lam * (kept - x[2] - x[j])
    left.plot(eta, piece, color=colour, lw=1.2, ls=(0, (5, 2)), label=name)
    foot = float(np.interp(steps[name], eta, piece))
    left.plot(steps[name], foot, "o", color=colour, mfc="white", ms=8, mew=1.8, zorder=4)
left.plot(eta, P, color="black", lw=2.4, label="the least: P(η)", zorder=3)
best = float(new_i - x[i])
left.plot(0.0, 0.0, "s", color="black", ms=8, zorder=5)
left.plot(best, -decrease, "*", color=STYLES["psg"].colour, ms=18, zorder=5)
left.text(0.0, 0.013, "P′ = 0", ha="center")
left.annotate(
    "the step", (best, -decrease), (best, -decrease - 0.027), ha="center", color=STYLES["psg"].colour, weight="bold"
)
left.set_ylim(-decrease - 0.045, 0.1)
left.set_xlabel("η, moved from j to i")
left.set_ylabel("change of F")
left.set_title("on a line: sum of x fixed", loc="left")
left.legend(frameon=False, loc="lower left", title="among the 2 largest:", alignment="left")

right.plot(np.degrees(angle), arc, color="black", lw=2.4)
right.plot(0.0, 0.0, "s", color="black", ms=8)
final = float(np.degrees(np.arctan2(end_i, end_j)))
right.plot(final, -gain, "*", color=STYLES["psg"].colour, ms=18, zorder=5, clip_on=False)
right.annotate("here: critical", (0.0, 0.0), (6.0, -0.04), va="center")
right.annotate("the step", (final, -gain), (final - 6.0, -gain), ha="right", color=STYLES["psg"].colour, weight="bold")
right.set_xticks([0, 30, 60, 90])
right.set_xlabel("angle in degrees, xᵢ = sin, xⱼ = cos")
right.set_ylabel("change of F")
right.set_title("on an arc: length of x fixed", loc="left")
for ax in (left, right):
    ax.grid(True, color="0.92")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
