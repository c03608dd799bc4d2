"""The measurements of :mod:`counterpoise.experiments.theory` as tables and figures."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from counterpoise.experiments.hierarchy import FINDERS, LEVELS, Counts
from counterpoise.experiments.tables import Cell, Table
from counterpoise.experiments.theory import ABOVE, BELOW, EPSILONS, Findings, observed_ratio
from counterpoise.figures.describe import BLACK, BLUE, ORANGE, STYLES, Axis, Chart, Panel, Series, Style
from counterpoise.figures.drawing import draw_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The penalty p of each problem, F = f + λp.
PENALTIES = {"SIT": "1 − ‖x‖_[s]", "NNSPCA": "1ᵀx − ‖x‖_[s]", "DCPB1": "n − ‖x‖²", "DCPB2": "√n − ‖x‖"}
# Size of a panel in inches.
SIZE = 3.2, 2.5


def tables(findings: Findings) -> list[Table]:
    """Return one table per statement."""
    builders = (
        _rate_table,
        _constants_table,
        _complexity_table,
        _decrease_table,
        _exactness_table,
        _hierarchy_table,
    )
    return [build(findings) for build in builders]


def _rate_table(findings: Findings) -> Table:
    rows: list[list[Cell]] = []
    for rate in findings.rates:
        first, last = rate.window
        ending = "too short to fit" if math.isnan(rate.slope) else "linear"
        ending = f"finite, after {rate.accepted} steps" if rate.finite else ending
        window = f"until {last}" if rate.finite else f"{first}–{last}"
        certified = "yes" if rate.certified else "no"
        fit: list[Cell] = [None, None] if rate.finite else [math.exp(rate.slope), rate.r2]
        rows.append([rate.name, rate.ratio, rate.accepted, ending, *fit, window, certified])
    head = ("problem", "λ/threshold", "accepted steps", "ending", "factor per epoch", "R²", "epochs", "certified")
    n = findings.rates[0].n
    note = (
        f"Random pairs, n = {n}, θ = 0; an epoch is n pairs. The factor is fitted by least squares to the log "
        "of the gap where that is between 640 and 6.4e8 times the resolution of F. Finite: the last accepted step "
        "brought more than 1e-6 of the descent. Theorem (theo:dec:x:f) assumes a convex set, which the sphere of "
        "NNSPCA is not, and a large θ; the decrease is linear without them. It bounds the expectation: in a single "
        "run, as shown, an epoch may bring nothing."
    )
    return Table("theory-rate", "Q-linear decrease of F − F(CWS point reached)", head, rows, notes=[note])


def _constants_table(findings: Findings) -> Table:
    rows: list[list[Cell]] = []
    for one in findings.constants:
        factors: list[Cell] = [(1.0 - 1.0 / one.kappa) ** one.n, one.slowest**one.n]
        failed = f"{one.printed} of {one.points}"
        rows.append([one.name, one.theta, one.norm, one.rho, one.delta, one.kappa, *factors, failed])
    head = ("problem", "θ", "max‖Q_BB‖", "ρ", "δ", "κ", "bound per epoch", "slowest epoch", "printed fails")
    n = findings.constants[0].n if findings.constants else 0
    note = (
        f"One run with random pairs, n = {n}, θ = max Q_ii, λ = {BELOW:g}·threshold, ẍ its last point. ρ is how far g "
        "lies below its tangents in units of ½‖ẍ − x‖², δ is ‖x − ẍ‖ over the mean of ‖d_B‖, each the largest over "
        "the points recorded. Corrected theorem (theo:dec:x:f): E q⁺ ≤ (1 − 1/κ)q with q = F(x) − F(ẍ) and "
        "κ = ½n(n − 1) + (max‖Q_BB‖ + θ + ρ)δ²/θ; the largest E q⁺/q, a mean over all pairs, is the slowest epoch. "
        "The last column counts points at which the printed recursion (i), with the printed β and γ, is false."
    )
    return Table("theory-constants", "The constants of the rate", head, rows, notes=[note])


def _complexity_table(findings: Findings) -> Table:
    rows: list[list[Cell]] = []
    for one in findings.complexities:
        shown = [e for e in EPSILONS if (one.needed(e) or 0) > 0]
        rows.extend([one.name, one.theta, one.drop, f"{e:.0e}", one.needed(e), one.bound(e)] for e in shown)
    head = ("problem", "θ", "F(x⁰) − F(x̄)", "ε", "iterations", "bound")
    first = findings.complexities[0]
    note = (
        f"n = {first.n}, θ = max Q_ii, λ = {BELOW:g}·threshold, mean of {first.runs} runs from one start. "
        "The measure is the mean of ‖d_B‖² over all pairs B; the bound ⌈2(F(x⁰) − F(x̄))/(θε)⌉ counts pairs tried and "
        "holds for its expectation at the best t < T, not for the last point nor for every run. F(x̄) is the least F "
        "reached. An iteration count is the next one recorded, on a logarithmic grid."
    )
    return Table("theory-complexity", "Iterations until an ε-approximate CWS point", head, rows, notes=[note])


def _decrease_table(findings: Findings) -> Table:
    rows: list[list[Cell]] = [[one.name, one.theta, one.steps, one.least, one.median] for one in findings.decreases]
    head = ("problem", "θ/max Q_ii", "accepted steps", "least", "median")
    note = (
        f"Random pairs, runs at λ = {BELOW:g} and {ABOVE:g} times the threshold; at least 1 by Theorem (theo:global)."
    )
    return Table("theory-decrease", "Decrease of F in units of ½θ‖xᵗ⁺¹ − xᵗ‖²", head, rows, notes=[note])


def _exactness_table(findings: Findings) -> Table:
    rows: list[list[Cell]] = []
    for one in findings.exactness:
        counts = [f"{bad} of {met}" for bad, met in zip(one.failed, one.covered, strict=True)]
        counts[0] = "–" if math.isnan(one.paper) else counts[0]
        off = "–" if one.fractional is None else " or ".join(map(str, sorted(set(one.fractional))))
        rows.append([one.name, one.threshold, one.paper, observed_ratio(one), *counts, off])
    head = ("problem", "threshold", "paper's", "exact from λ/threshold", "paper fails", "corrected fails", "off parity")
    first = findings.exactness[0]
    notes = [
        f"n = {first.n}, {first.starts} starts for each of {len(first.ratios)} values of λ. "
        '"Fails": points that meet the condition (by 1e-4) and violate the constraint, of those that meet it.',
        "SIT: the paper asks for 2‖∇f(x)‖∞, max|∇ᵢf − ∇ⱼf| suffices; columns 2 and 3 are the largest of each over the "
        "simplex. NNSPCA: the paper gives none, √2‖Gx‖∞ suffices. DCPB2: φ√(n+2) in the paper, ½√n·max α suffices. "
        "DCPB1: ¼max α in both.",
        "Off parity: how many coordinates are fractional above the threshold when c ≢ n (mod 2). "
        "The paper says none; one is true.",
    ]
    return Table("theory-exactness", "Exactness thresholds and violations observed", head, rows, notes=notes)


def _hierarchy_table(findings: Findings) -> Table:
    rows: list[list[Cell]] = []
    for one in findings.hierarchy:
        rows.append([one.name, "all candidates", one.candidates, *_with_shares(one.enumerated)])
        for method in FINDERS:
            rows.append([one.name, method, one.found[method], *_with_shares(one.levels[method])])
    head = ("problem", "points of", "distinct points", *LEVELS)
    first, wrong = findings.hierarchy[0], sum(one.exceptions for one in findings.hierarchy)
    notes = [
        f"{first.instances} instances of n = {first.n}, s = {first.s} or c = {first.n % 2}, {first.starts} starts "
        "each, λ = 1.01·threshold. Shares are of the column before. Candidates are all points of at most s non-zeros "
        "that are stationary on their support, or all ±1 vectors of sum c: above the threshold no other point is CWS.",
        f"Exceptions to optimal ⊆ swap-optimal ⊆ CWS ⊆ critical: {wrong}. "
        "For DCPB the swaps are pair steps, so CWS and swap-optimal are the same.",
    ]
    return Table("theory-hierarchy", "Critical, CWS, swap-optimal and optimal points", head, rows, notes=notes)


def _with_shares(counts: Counts) -> list[Cell]:
    """Return the counts, each except the first with its share of the previous one."""
    later = [f"{b} ({b / a:.1%})" if a else str(b) for a, b in itertools.pairwise(counts.tolist())]
    return [int(counts[0]), *later]


def charts(findings: Findings) -> list[Chart]:
    """Return the measurements as charts, one panel per problem."""
    needed = "Iterations until an ε-approximate CWS point, and their bound"
    shares = "Share of CWS points that are s-sparse or binary, and their mean penalty"
    levels = "Of the points that a method finds, how many are more than critical"
    note = "Dotted lines are thresholds: the corrected one, and the paper's where it differs."
    return [
        Chart("rate", "How F falls to that of the CWS point reached", "line", _rate_panels(findings)),
        Chart("complexity", needed, "line", _complexity_panels(findings)),
        Chart("exactness", shares, "line", _exactness_panels(findings), note),
        Chart("hierarchy", levels, "bar", _hierarchy_panels(findings)),
    ]


def figures(findings: Findings) -> dict[str, Figure]:
    """Return the measurements as figures by name: rate and complexity, exactness, hierarchy."""
    rate, complexity, exactness, hierarchy = charts(findings)
    count = len(findings.exactness)
    return {
        "theory-rate": draw_grid([*rate.panels, *complexity.panels], "line", count, *SIZE),
        "theory-exactness": draw_grid(exactness.panels, "line", count, *SIZE),
        "theory-hierarchy": draw_grid([*hierarchy.panels, _enumerated(findings)], "bar", 3, *SIZE),
    }


def _rate_panels(findings: Findings) -> list[Panel]:
    panels = []
    for name in dict.fromkeys(rate.name for rate in findings.rates):
        chosen = [rate for rate in findings.rates if rate.name == name]
        series, fits = [], []
        for rate in chosen:
            positive = np.flatnonzero(rate.gap > 0.0)
            look = Style(BLACK, "-") if rate.ratio > 1.0 else Style(BLUE, (0, (7, 2)))
            series.append(Series(f"λ = {rate.ratio:g} of the threshold", positive, rate.gap[positive], look=look))
            if rate.finite:
                end, square = positive[-1:], Style(BLACK, "", marker="s")
                fits.append(Series("ended after finitely many steps", end, rate.gap[end], look=square))
            elif not math.isnan(rate.slope):
                window = np.array(rate.window)
                fit, look = np.exp(rate.intercept + rate.slope * window), Style(ORANGE, "-", 5.0, 0.4)
                fits.append(Series(f"linear fit, λ = {rate.ratio:g}", window, fit, style="muted", look=look))
        axes = Axis(f"epochs of {chosen[0].n} pairs"), Axis("F − F(CWS point reached)", "log")
        panels.append(Panel(name, *axes, [*series, *fits]))
    return panels


def _complexity_panels(findings: Findings) -> list[Panel]:
    panels = []
    for one in findings.complexities:
        reached = [e for e in EPSILONS if (one.needed(e) or 0) > 0]
        if reached:
            bound, mean = Style(ORANGE, "--"), Style(BLACK, "-", marker="o", filled=True)
            series = [
                Series("bound", reached, [one.bound(e) for e in reached], style="muted", look=bound),
                Series(f"BCD-g, mean of {one.runs} runs", reached, [one.needed(e) for e in reached], look=mean),
            ]
            panels.append(Panel(one.name, Axis("ε", "log"), Axis("iterations", "log"), series))
    return panels


def _exactness_panels(findings: Findings) -> list[Panel]:
    """Return panels of the share of exact points per problem, then of the mean penalty."""
    shares, penalties = [], []
    for one in findings.exactness:
        lam, look = one.ratios * one.threshold, Style(BLACK, "-", marker="o", filled=True)
        marks = list(dict.fromkeys(mark for mark in (one.threshold, one.paper) if not math.isnan(mark)))
        share = Panel(one.name, Axis("λ", "log"), Axis("share", "percent"), (), marks=marks)
        penalty = share._replace(label=f"{one.name}: mean {PENALTIES[one.name]}", y=Axis("penalty"))
        shares.append(share._replace(series=[Series("BCD-g, random starts", lam, one.share, look=look)]))
        penalties.append(penalty._replace(series=[Series("BCD-g, random starts", lam, one.violation, look=look)]))
    return [*shares, *penalties]


def _hierarchy_panels(findings: Findings) -> list[Panel]:
    axes, panels = (Axis("share of the distinct points found", "percent"), Axis("")), []
    for one in findings.hierarchy:
        shares = {method: one.levels[method][1:] / max(1, one.found[method]) for method in FINDERS}
        series = [Series(method, share, look=STYLES[method]) for method, share in shares.items()]
        panels.append(Panel(one.name, *axes, series, LEVELS[1:]))
    return panels


def _enumerated(findings: Findings) -> Panel:
    """Return a panel of the number of points of each level per instance."""
    counts = np.array([one.enumerated / one.instances for one in findings.hierarchy])
    greys = [Style(grey, "-") for grey in ("0.85", "0.6", "0.35", "0.0")]
    series = [Series(level, counts[:, k], look=greys[k]) for k, level in enumerate(LEVELS)]
    names = [f"{one.name}, n = {one.n}" for one in findings.hierarchy]
    return Panel("all points", Axis("points per instance, all enumerated", "log"), Axis(""), series, names)
