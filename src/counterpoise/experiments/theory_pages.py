"""The measurements of :mod:`counterpoise.experiments.theory` as tables and figures."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from counterpoise import plotting
from counterpoise.experiments.pages import Chart
from counterpoise.experiments.tables import Cell, Table
from counterpoise.experiments.theory import (
    ABOVE,
    BELOW,
    EPSILONS,
    FINDERS,
    LEVELS,
    NAMES,
    Complexity,
    Counts,
    Decrease,
    Exactness,
    Findings,
    Hierarchy,
    Rate,
    observed_ratio,
)
from counterpoise.report import Axis, Panel, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, BLACK = plotting.STYLES["bcd-l"].colour, plotting.STYLES["psg"].colour, plotting.STYLES["bcd-g"].colour


def tables(findings: Findings) -> list[Table]:
    """Return one table for each statement."""
    return [
        _rate_table(findings.rates),
        _complexity_table(findings.complexities),
        _decrease_table(findings.decreases),
        _exactness_table(findings.exactness),
        _hierarchy_table(findings.hierarchy),
    ]


def _rate_table(rates: tuple[Rate, ...]) -> Table:
    rows: list[list[Cell]] = []
    for rate in rates:
        first, last = rate.window
        ending = "too short to fit" if math.isnan(rate.slope) else "linear"
        ending = f"finite, after {rate.accepted} steps" if rate.finite else ending
        window = f"until {last}" if rate.finite else f"{first}–{last}"
        certified = "yes" if rate.certified else "no"
        fit: list[Cell] = [None, None] if rate.finite else [math.exp(rate.slope), rate.r2]
        rows.append([rate.name, rate.ratio, rate.accepted, ending, *fit, window, certified])
    head = ("problem", "λ/threshold", "accepted steps", "ending", "factor per epoch", "R²", "epochs", "certified")
    note = (
        f"Random pairs, n = {rates[0].n}, θ = 0; an epoch is n pairs. The factor is fitted by least squares to the log "
        "of the gap where that is between 640 and 6.4e8 times the resolution of F. Finite: the last accepted step "
        "brought more than 1e-6 of the descent. Theorem (theo:dec:x:f) assumes a convex set, which the sphere of "
        "NNSPCA is not, and a large θ; the decrease is linear without them. It bounds the expectation: in a single "
        "run, as shown, an epoch may bring nothing."
    )
    return Table("theory-rate", "Q-linear decrease of F − F(CWS point reached)", head, rows, notes=[note])


def _complexity_table(complexities: tuple[Complexity, ...]) -> Table:
    rows: list[list[Cell]] = []
    for one in complexities:
        shown = [e for e in EPSILONS if (one.needed(e) or 0) > 0]
        rows.extend([one.name, one.theta, one.drop, f"{e:.0e}", one.needed(e), one.bound(e)] for e in shown)
    head = ("problem", "θ", "F(x⁰) − F(x̄)", "ε", "iterations", "bound")
    first = complexities[0]
    note = (
        f"n = {first.n}, θ = max Q_ii, λ = {BELOW:g}·threshold, mean of {first.runs} runs from one start. "
        "The measure is the mean of ‖d_B‖² over all pairs B; the bound ⌈2(F(x⁰) − F(x̄))/(θε)⌉ counts pairs tried and "
        "holds for its expectation at the best t < T, not for the last point nor for every run. F(x̄) is the least F "
        "reached. An iteration count is the next one recorded, on a logarithmic grid."
    )
    return Table("theory-complexity", "Iterations until an ε-approximate CWS point", head, rows, notes=[note])


def _decrease_table(decreases: tuple[Decrease, ...]) -> Table:
    rows: list[list[Cell]] = [[one.name, one.theta, one.steps, one.least, one.median] for one in decreases]
    head = ("problem", "θ/max Q_ii", "accepted steps", "least", "median")
    note = (
        f"Random pairs, runs at λ = {BELOW:g} and {ABOVE:g} times the threshold; at least 1 by Theorem (theo:global)."
    )
    return Table("theory-decrease", "Decrease of F in units of ½θ‖xᵗ⁺¹ − xᵗ‖²", head, rows, notes=[note])


def _exactness_table(results: tuple[Exactness, ...]) -> Table:
    rows: list[list[Cell]] = []
    for one in results:
        counts = [f"{bad} of {met}" for bad, met in zip(one.failed, one.covered, strict=True)]
        counts[0] = "–" if math.isnan(one.paper) else counts[0]
        off = "–" if one.fractional is None else " or ".join(map(str, sorted(set(one.fractional))))
        rows.append([one.name, one.threshold, one.paper, observed_ratio(one), *counts, off])
    head = ("problem", "threshold", "paper's", "exact from λ/threshold", "paper fails", "corrected fails", "off parity")
    notes = [
        f"n = {results[0].n}, {results[0].starts} starts for each of {len(results[0].ratios)} values of λ. "
        '"Fails": points that meet the condition (by 1e-4) and violate the constraint, of those that meet it.',
        "SIT: the paper asks for 2‖∇f(x)‖∞, max|∇ᵢf − ∇ⱼf| suffices; columns 2 and 3 are the largest of each over the "
        "simplex. NNSPCA: the paper gives none, √2‖Gx‖∞ suffices. DCPB2: φ√(n+2) in the paper, ½√n·max α suffices. "
        "DCPB1: ¼max α in both.",
        "Off parity: how many coordinates are fractional above the threshold when c ≢ n (mod 2). "
        "The paper says none; one is true.",
    ]
    return Table("theory-exactness", "Exactness thresholds and violations observed", head, rows, notes=notes)


def _hierarchy_table(results: tuple[Hierarchy, ...]) -> Table:
    rows: list[list[Cell]] = []
    for one in results:
        rows.append([one.name, "all candidates", one.candidates, *_with_shares(one.enumerated)])
        for method in FINDERS:
            rows.append([one.name, method, one.found[method], *_with_shares(one.levels[method])])
    head = ("problem", "points of", "distinct points", *LEVELS)
    first, wrong = results[0], sum(one.exceptions for one in results)
    notes = [
        f"{first.instances} instances of n = {first.n}, s = {first.s} or c = {first.n % 2}, {first.starts} starts "
        "each, λ = 1.01·threshold. Shares are of the column before. Candidates are all points of at most s non-zeros "
        "that are stationary on their support, or all ±1 vectors of sum c: above the threshold no other point is CWS.",
        f"Exceptions to optimal ⊆ swap-optimal ⊆ CWS ⊆ critical: {wrong}. "
        "For DCPB the swaps are pair steps, so CWS and swap-optimal are the same.",
    ]
    return Table("theory-hierarchy", "Critical, CWS, swap-optimal and optimal points", head, rows, notes=notes)


def _with_shares(counts: Counts) -> list[Cell]:
    """Return the counts, each but the first with its share of the one before."""
    later = [f"{b} ({b / a:.1%})" if a else str(b) for a, b in itertools.pairwise(counts.tolist())]
    return [int(counts[0]), *later]


def charts(findings: Findings) -> list[Chart]:
    """Return the figures' data as charts of a page, one panel a problem."""
    return [
        Chart("rate", "How F falls to that of the CWS point reached", "line", _rate_panels(findings.rates)),
        Chart(
            "complexity",
            "Iterations until an ε-approximate CWS point, and their bound",
            "line",
            _complexity_panels(findings.complexities),
        ),
        Chart(
            "exactness",
            "Share of CWS points that are s-sparse or binary",
            "line",
            _exactness_panels(findings.exactness),
            "Dotted lines are thresholds: the corrected one, and the paper's where it differs.",
        ),
        Chart(
            "hierarchy",
            "Of the points that a method finds, how many are more than critical",
            "bar",
            _hierarchy_panels(findings.hierarchy),
        ),
    ]


def _rate_panels(rates: tuple[Rate, ...]) -> list[Panel]:
    panels = []
    for name in dict.fromkeys(rate.name for rate in rates):
        chosen = [rate for rate in rates if rate.name == name]
        series = []
        for rate in chosen:
            positive = np.flatnonzero(rate.gap > 0.0)
            series.append(Series(f"λ = {rate.ratio:g} of the threshold", positive, rate.gap[positive]))
        axes = Axis(f"epochs of {chosen[0].n} pairs"), Axis("F − F(CWS point reached)", "log")
        panels.append(Panel(name, *axes, series))
    return panels


def _complexity_panels(complexities: tuple[Complexity, ...]) -> list[Panel]:
    panels = []
    for one in complexities:
        reached = [e for e in EPSILONS if (one.needed(e) or 0) > 0]
        if reached:
            series = [
                Series("bound", reached, [one.bound(e) for e in reached], style="muted"),
                Series(f"BCD-g, mean of {one.runs} runs", reached, [one.needed(e) for e in reached]),
            ]
            panels.append(Panel(one.name, Axis("ε", "log"), Axis("iterations", "log"), series))
    return panels


def _exactness_panels(results: tuple[Exactness, ...]) -> list[Panel]:
    panels = []
    for one in results:
        series = [Series("BCD-g, random starts", one.ratios * one.threshold, one.share)]
        marks = [mark for mark in (one.threshold, one.paper) if not math.isnan(mark)]
        axes = Axis("λ", "log"), Axis("share", "percent")
        panels.append(Panel(one.name, *axes, series, marks=list(dict.fromkeys(marks))))
    return panels


def _hierarchy_panels(results: tuple[Hierarchy, ...]) -> list[Panel]:
    axes = Axis("share of the distinct points found", "percent"), Axis("")
    return [
        Panel(
            one.name,
            *axes,
            [Series(method, one.levels[method][1:] / max(1, one.found[method])) for method in FINDERS],
            LEVELS[1:],
        )
        for one in results
    ]


def figures(findings: Findings) -> dict[str, Figure]:
    """Return the figures by name: rate and complexity, exactness, hierarchy."""
    return {
        "theory-rate": _rate_figure(findings.rates, findings.complexities),
        "theory-exactness": _exactness_figure(findings.exactness),
        "theory-hierarchy": _hierarchy_figure(findings.hierarchy),
    }


def _rate_figure(rates: tuple[Rate, ...], complexities: tuple[Complexity, ...]) -> Figure:
    figure = plotting.new_figure(13.0, 6.4)
    top, bottom = figure.subplots(2, len(NAMES))
    for rate in rates:
        ax, above = top[NAMES.index(rate.name)], rate.ratio > 1.0
        colour, dash = (BLACK, "-") if above else (BLUE, (0, (7, 2)))
        positive = np.flatnonzero(rate.gap > 0.0)
        ending = "finite" if rate.finite else f"{math.exp(rate.slope):.3f} per epoch"
        ax.plot(positive, rate.gap[positive], color=colour, ls=dash, lw=1.6, label=f"λ = {rate.ratio:g} thr.: {ending}")
        if rate.finite:
            ax.plot(positive[-1:], rate.gap[positive[-1:]], "s", color=colour, mfc="white", ms=7)
        else:
            window = np.array(rate.window)
            ax.plot(window, np.exp(rate.intercept + rate.slope * window), color=ORANGE, lw=5.0, alpha=0.4)
        ax.set(yscale="log", title=rate.name, xlabel=f"epochs of {rate.n} pairs")
    for one in complexities:
        ax = bottom[NAMES.index(one.name)]
        reached = [e for e in EPSILONS if (one.needed(e) or 0) > 0]
        for values, colour, dash, mark, label in (
            ([one.bound(e) for e in reached], ORANGE, "--", "", "bound 2(F(x⁰) − F(x̄))/(θε)"),
            ([one.needed(e) for e in reached], BLACK, "-", "o", f"BCD-g, mean of {one.runs} runs"),
        ):
            ax.plot(reached, values, color=colour, ls=dash, marker=mark, label=label)
        ax.set(xscale="log", yscale="log", xlabel="ε")
        ax.invert_xaxis()
    top[0].set_ylabel("F(xᵗ) − F(CWS point reached)")
    bottom[0].set_ylabel("iterations until the measure is ≤ ε")
    for ax in (*top, *bottom):
        _dress(ax)
    for ax in (*top, bottom[0]):
        ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.12 if ax in top else 1.0), handlelength=3.0)
    return figure


def _exactness_figure(results: tuple[Exactness, ...]) -> Figure:
    figure = plotting.new_figure(13.0, 5.6)
    top, bottom = figure.subplots(2, len(NAMES), sharex="col")
    for column, one in enumerate(results):
        lam = one.ratios * one.threshold
        top[column].plot(lam, one.share, "o-", color=BLACK, ms=4, label="BCD-g, random starts")
        bottom[column].plot(lam, one.violation, "o-", color=BLACK, ms=4)
        top[column].set(title=one.name, ylim=(-0.05, 1.05))
        bottom[column].set(xscale="log", xlabel="λ")
        for ax in (top[column], bottom[column]):
            ax.axvline(one.threshold, color=BLUE, lw=2.0, label="corrected threshold")
            if not math.isnan(one.paper):
                ax.axvline(one.paper, color=ORANGE, lw=2.0, ls=(0, (2, 2)), label="the paper's")
            _dress(ax)
    top[0].set_ylabel("share of CWS points\nthat are exact")
    for ax, penalty in zip(bottom, ("1 − ‖x‖_[s]", "1ᵀx − ‖x‖_[s]", "n − ‖x‖²", "√n − ‖x‖"), strict=True):
        ax.set_ylabel(f"mean {penalty}")
    handles, labels = top[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return figure


def _hierarchy_figure(results: tuple[Hierarchy, ...]) -> Figure:
    figure = plotting.new_figure(13.0, 6.0)
    grid = figure.add_gridspec(2, len(NAMES))
    above = figure.add_subplot(grid[0, :])
    place = np.arange(len(results))
    counts = np.array([one.enumerated / one.instances for one in results])
    shades = zip(LEVELS, ("0.85", "0.6", "0.35", "0.0"), ("", "//", "", ""), strict=True)
    for k, (level, shade, hatch) in enumerate(shades):
        bars = above.bar(place + 0.2 * (k - 1.5), counts[:, k], 0.18, color=shade, hatch=hatch, ec="black", label=level)
        above.bar_label(bars, fmt="%.3g", fontsize=8)
    above.set(yscale="log", ylabel="points per instance,\nall enumerated", ylim=(0.5, 4.0 * counts.max()))
    above.set_xticks(place, [f"{one.name}, n = {one.n}" for one in results])
    above.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for column, one in enumerate(results):
        ax = figure.add_subplot(grid[1, column])
        for k, (method, hatch) in enumerate(zip(FINDERS, ("..", "xx", "", ""), strict=True)):
            share = 100.0 * one.levels[method][1:] / one.found[method]
            at = np.arange(len(share)) + 0.2 * (k - 1.5)
            bars = ax.bar(
                at, share, 0.2, color=plotting.STYLES[method].colour, hatch=hatch, ec="white", lw=0.5, label=method
            )
            ax.bar_label(bars, fmt="%.0f", fontsize=7)
        ax.set(title=one.name, ylim=(0.0, 108.0))
        ax.set_xticks(np.arange(len(LEVELS) - 1), [level.replace("-", "-\n") for level in LEVELS[1:]])
        _dress(ax)
        if column == 0:
            ax.set_ylabel("% of the distinct points\nthat a method finds")
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    _dress(above)
    return figure


def _dress(ax: Axes) -> None:
    ax.grid(True, color="0.9")
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
