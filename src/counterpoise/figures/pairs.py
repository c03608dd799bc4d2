"""Plot how F changes over a pair of coordinates, and the decrease of every pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterpoise.checks import Vector, vector, whole_number
from counterpoise.figures.describe import BLACK, ORANGE, SPARE, Axis, Image, Panel, Series, Style
from counterpoise.figures.drawing import axes_or_new, draw, draw_images, leave_empty

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from counterpoise.problem import Problem

# Number of points at which F is evaluated along a pair, besides its breakpoints.
LANDSCAPE = 601
# Decreases below this multiple of the rounding error of F count as none, as in a run.
NOISE = 64.0
# Decreases below this share of the largest have the lightest colour.
FAINTEST = 1e-6
# Distance on either side of a point for detecting a kink, as a share of the line or arc.
NEARBY = 1e-6


def plot_pair(problem: Problem, x: Any, i: Any, j: Any, ax: Axes | None = None) -> Axes:
    """Plot how F changes when two coordinates move and all others stay fixed, and where it is smallest.

    On ``Sum`` the pair moves along the line x + η(eᵢ − eⱼ) as far as the bounds allow; on ``Sphere``, along the arc (or
    the circle, if signed) xᵢ = v sin α, xⱼ = v cos α. The curve is ``problem.objective`` on a dense grid; the minimum
    is the one that the exact step of BCD-g finds. Vertical lines are the breakpoints of ``TopSum``, where a coordinate
    of the pair enters or leaves the s largest.

    Parameters
    ----------
    problem : Problem
    x : Series or array of length n
        Feasible to 1e-6.
    i, j : int, or str
        Two positions, or names if x is a Series.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.
    """
    at, names = _feasible(problem, x), labels_of(x, problem.n)
    i, j = _position(i, "i", names), _position(j, "j", names)
    if i == j:
        raise ValueError(f"i and j are both {i}; a pair has two different coordinates.")
    ax = axes_or_new(ax)
    from counterpoise.kernels import sweep

    terms = problem.terms()
    sweep.start(terms, at)
    on_line = problem.u.is_line
    track = _line(problem, at, i, j) if on_line else _arc(at, i, j, problem.u.signed)
    if track.low >= track.high:
        leave_empty(ax, f"the pair {names[i]}, {names[j]} cannot move")
        return ax
    new_i, new_j, gain = sweep.step(terms, at, i, j, 0.0)
    level, rounding = problem.value_and_resolution(at)
    gains = gain > NOISE * rounding
    here, best = track.parameter(at[i], at[j]), track.parameter(new_i, new_j)
    breaks = _breakpoints(problem, track)
    along = np.unique(np.r_[np.linspace(track.low, track.high, LANDSCAPE), breaks, here, best])
    change = np.array([problem.objective(track.point(float(t))) - level for t in along])
    series = [
        Series("change of F", track.unit * along, change, look=Style(BLACK, "-", 2.0)),
        Series("here", [track.unit * here], [0.0], look=Style("black", "", 1.8, marker="s")),
    ]
    if gains:
        star = Style(ORANGE, "", 3.4, marker="*", filled=True)
        series.append(Series("exact step", [track.unit * best], [-gain], look=star))
    where = f"η, moved from {names[j]} to {names[i]}"
    where = where if on_line else f"angle in degrees: sine for {names[i]}, cosine for {names[j]}"
    panel = Panel("", Axis(where), Axis(f"F − F(x), where F(x) = {level:.6g}"), series, marks=track.unit * breaks)
    draw(ax, "line", panel, "right", f"breakpoint{'s' * (len(breaks) > 1)} of TopSum")
    ax.set_title(f"F falls by {gain:.3g}" if gains else "no step of this pair gains", loc="left")
    if not on_line:
        ax.set_xticks(np.linspace(track.unit * track.low, track.unit * track.high, 9 if problem.u.signed else 7))
    return ax


def plot_gap(problem: Problem, x: Any, ax: Axes | None = None, most: int = 40) -> Axes:
    """Plot the decrease of F by the exact step of each pair as a heat map, or a message if no pair lowers F.

    The largest decrease is the ``cws_gap`` of :func:`counterpoise.certify`; its pair is always shown, with a star.
    Decreases below the rounding error of F are ignored.

    Parameters
    ----------
    problem : Problem
    x : Series or array of length n
        Feasible to 1e-6.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.
    most : int
        Maximum number of coordinates shown: those held (above their lower bound), and those with the smallest slopes,
        to which moving weight gains most. A quarter of the places is reserved for the latter.
    """
    at, names, most = _feasible(problem, x), labels_of(x, problem.n), whole_number(most, "most", 2)
    ax = axes_or_new(ax, 7.2, 6.0)
    from counterpoise.kernels import sweep

    terms = problem.terms()
    sweep.start(terms, at)
    gap, *pair = sweep.scan(terms, at, 0.0, np.inf)[:3]
    resolved = NOISE * problem.value_and_resolution(at)[1]
    if gap <= resolved:
        leave_empty(ax, "no pair gains")
        ax.set_title(f"none of the {problem.n * (problem.n - 1) // 2:,} pairs lowers F", loc="left")
        return ax
    chosen, held = _relevant(problem, at, [int(k) for k in pair], most)
    count = len(chosen)
    decrease = np.zeros((count, count))
    for a, b in zip(*np.triu_indices(count, 1), strict=True):
        first, second = sorted((chosen[a], chosen[b]))
        decrease[a, b] = decrease[b, a] = sweep.step(terms, at, first, second, 0.0)[2]
    shown: Any = np.ma.masked_less_equal(decrease, resolved)
    largest, least = float(shown.max()), float(shown.min())
    floor = min(max(least, FAINTEST * largest), 0.1 * largest)
    extend = "min" if least < floor else "neither"
    draw_images([ax], [Image("", shown, largest, floor=floor)], "decrease of F; white: none", extend=extend)
    if 0 < held < count:
        for rule in (ax.axvline, ax.axhline):
            rule(held - 0.5, color="0.4", lw=0.8, ls=(0, (3, 2)))
    places = [chosen.index(int(k)) for k in pair]
    ax.plot(places, places[::-1], "*", color=SPARE[0].colour, mec="white", mew=0.8, ms=13)
    words: dict[str, Any] = {"fontsize": 9 if count <= 20 else 6}
    ax.set_xticks(range(count), [names[k] for k in chosen], rotation=90, **words)
    ax.set_yticks(range(count), [names[k] for k in chosen], **words)
    ax.set_title(f"largest decrease: {gap:.3g}, by {names[pair[0]]} and {names[pair[1]]}", loc="left")
    part = "" if count == problem.n else f"{count} of {problem.n} coordinates: "
    ax.set_xlabel(f"{part}{held} held, {count - held} at their lower bound")
    return ax


def labels_of(values: Any, count: int) -> list[str]:
    """Return the names of a Series, or positions."""
    labels = getattr(values, "index", None)
    return [str(label) for label in (range(count) if labels is None or callable(labels) else labels)]


class _Track(NamedTuple):
    """The path of a pair: an interval, a map from it to points, and the inverse map."""

    low: float
    high: float
    unit: float
    point: Callable[[float], Vector]
    parameter: Callable[[float, float], float]
    crossings: Callable[[float], list[float]]
    meetings: tuple[float, ...]


def _line(problem: Problem, x: Vector, i: int, j: int) -> _Track:
    """Return the line x + η(eᵢ − eⱼ) between the bounds."""
    h, x_i, x_j = problem.separable, float(x[i]), float(x[j])

    def point(eta: float) -> Vector:
        moved = x.copy()
        moved[i], moved[j] = x_i + eta, x_j - eta
        return moved

    def crossings(level: float) -> list[float]:
        return [level - x_i, -level - x_i, x_j - level, x_j + level]

    low, high = max(h.lo[i] - x_i, x_j - h.hi[j]), min(h.hi[i] - x_i, x_j - h.lo[j])
    return _Track(float(low), float(high), 1.0, point, lambda a, b: float(a) - x_i, crossings, (0.5 * (x_j - x_i),))


def _arc(x: Vector, i: int, j: int, signed: bool) -> _Track:
    """Return the quarter circle, or if signed the circle, on which xᵢ² + xⱼ² is constant."""
    v = float(np.hypot(x[i], x[j]))

    def point(angle: float) -> Vector:
        moved = x.copy()
        moved[i], moved[j] = v * np.sin(angle), v * np.cos(angle)
        return moved

    def crossings(level: float) -> list[float]:
        if level > v:
            return []
        sine, cosine = float(np.arcsin(level / v)), float(np.arccos(level / v))
        return [sine, -sine, np.pi - sine, sine - np.pi, cosine, -cosine, np.pi - cosine, cosine - np.pi]

    high = (np.pi if signed else 0.5 * np.pi) if v > 0.0 else 0.0
    low, meetings = (-high if signed else 0.0), tuple(0.25 * np.pi * k for k in (-3, -1, 1, 3))
    return _Track(low, high, 180.0 / np.pi, point, lambda a, b: float(np.arctan2(a, b)), crossings, meetings)


def _breakpoints(problem: Problem, track: _Track) -> Vector:
    """Return where −λ‖x‖_[s] has a kink inside the interval.

    There a coordinate of the pair equals its partner, or one of the others of rank s − 1 or s.
    """
    g, free = problem.g, problem.free
    if free is None or not 0.0 < g.lam < np.inf:
        return np.empty(0)
    first, last = track.point(track.low), track.point(0.5 * (track.low + track.high))
    others = np.sort(np.abs(first[first == last]))[::-1][max(free - 2, 0) : free]
    maybe = np.unique([*track.meetings, *(t for level in (0.0, *others) for t in track.crossings(float(level)))])
    near = NEARBY * (track.high - track.low)

    def bends(t: float) -> bool:
        before, at, after = (g.value(track.point(each)) for each in (t - near, t, t + near))
        return bool(abs(before - 2.0 * at + after) > 1e-3 * g.lam * near * float(np.abs(first - last).max()))

    inside = maybe[(maybe > track.low + near) & (maybe < track.high - near)]
    return np.array([t for t in inside if bends(float(t))])


def _feasible(problem: Problem, x: Any) -> Vector:
    """Return a copy of x clipped to its bounds; refuse a point that violates the constraints."""
    x = vector(x, "x", problem.n)
    violation = problem.violation(x)
    if violation > 1e-6:
        raise ValueError(f"x violates the constraints by {violation:g}; give problem.project(x) instead.")
    at: Vector = np.clip(x, problem.separable.lo, problem.separable.hi)
    return at


def _position(item: Any, what: str, names: list[str]) -> int:
    """Return the position of a coordinate given by name or position."""
    if isinstance(item, str):
        if item not in names:
            raise ValueError(f"{what} is {item!r}, which is no name of x; give one of its {len(names)} names.")
        return names.index(item)
    return whole_number(item, what, 0, len(names) - 1)


def _relevant(problem: Problem, x: Vector, pair: list[int], most: int) -> tuple[list[int], int]:
    """Return the coordinates to show, held ones first, and how many are held.

    If too many are held, those whose slopes differ most from the middle are kept; the pair is always kept.
    """
    from counterpoise.terms.separable import one_sided_slopes

    gradient = problem.f.gradient(x)
    right = one_sided_slopes(problem.separable, x)[1]
    slope = gradient + right + problem.g.subgradient(x, gradient + right)
    if not problem.u.is_line:
        slope = slope - (x @ slope) * x
    above = x > problem.separable.lo
    odd = np.abs(slope - np.median(slope[above])) if above.any() else np.zeros(len(x))
    odd[pair] = np.inf
    sought = slope.copy()
    sought[pair] = -np.inf
    held, others = np.flatnonzero(above), np.flatnonzero(~above)
    held, others = held[np.argsort(-odd[held], kind="stable")], others[np.argsort(sought[others], kind="stable")]
    kept = held[: max(most - max(most // 4, 1), most - len(others))]
    entering = others[: most - len(kept)]
    kept, entering = kept[np.argsort(-x[kept], kind="stable")], entering[np.argsort(slope[entering], kind="stable")]
    return [*map(int, kept), *map(int, entering)], len(kept)
