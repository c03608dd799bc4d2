"""Read targets from TOML files and list their runs."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterpoise.checks import choice
from counterpoise.experiments.sets import Data, is_tracking, load_present

if TYPE_CHECKING:
    from counterpoise.problem import Problem

# Targets that are measured again each time, with neither a file of settings nor records.
MEASURED = ("theory", "sparse-pca")
TABLES = ("table-1", "table-2", "table-2-time", "table-3")
FIGURES = ("fig-s", "fig-c", "fig-time", "fig-time-k", "fig-hybrid", "fig-rules")
TARGETS = (*TABLES, *FIGURES, *MEASURED)
KINDS = ("sizes", "table", "curves", "histories")
MEASURES = ("quality", "timing")
# The parameter of each problem besides λ.
LETTERS = {"SIT": "s", "NNSPCA": "s", "DCPB1": "c", "DCPB2": "c"}


@dataclasses.dataclass(frozen=True)
class Method:
    """A column: stages, each a method of ``minimize`` with options; whether it is ours; its setting in words."""

    name: str
    stages: tuple[dict[str, Any], ...]
    ours: bool
    setting: str


@dataclasses.dataclass(frozen=True)
class Grid:
    """A problem on several sets, for every combination of s or c with λ."""

    problem: str
    sets: tuple[str, ...]
    values: tuple[float, ...]
    lams: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Target:
    """One table or figure."""

    name: str
    title: str
    kind: str
    measure: str
    starts: tuple[int, ...]
    methods: tuple[Method, ...]
    grids: tuple[Grid, ...]
    seconds_each: float


@dataclasses.dataclass(frozen=True)
class Place:
    """The identity of a run: its target, its cell, the digest of its data, its start, and what is measured."""

    target: str
    problem: str
    dataset: str
    digest: str
    value: float
    lam: float
    start: int
    measure: str

    @property
    def cell(self) -> tuple[str, str, float, float]:
        """(problem, set, s or c, λ)."""
        return self.problem, self.dataset, self.value, self.lam


@dataclasses.dataclass(frozen=True)
class Task(Place):
    """One run: everything that its result depends on, except the code."""

    method: Method

    def key(self, code: str) -> str:
        """Return a key that identifies this run with this version of the code."""
        asked = dataclasses.asdict(self)
        asked["method"] = {"name": self.method.name, "stages": self.method.stages}
        return hashlib.sha256(json.dumps([asked, code], sort_keys=True).encode()).hexdigest()


def build(problem: str, A: Any, y: Any, value: float, lam: float) -> Problem:
    """Return one of the paper's problems."""
    from counterpoise import problems

    if problem == "NNSPCA":
        return problems.NNSPCA(A, int(value), lam)
    made: Problem = getattr(problems, problem)(A, y, int(value) if problem == "SIT" else value, lam)
    return made


def read_target(name: str, quick: bool = False, sets: list[str] | None = None) -> Target:
    """Read one of :data:`TARGETS`, or the user's own TOML file.

    Parameters
    ----------
    name : str
    quick : bool
        Apply the file's ``[quick]`` table: fewer starts, sets and values.
    sets : list of str, optional
        Use these sets instead of the file's, each for the problems that it suits.
    """
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist.")
        text, label = path.read_text("utf-8"), path.stem
    elif name in TARGETS and name not in MEASURED:
        text, label = (resources.files(__package__) / f"{name}.toml").read_text("utf-8"), name
    else:
        raise ValueError(f"TARGET is {name!r}; it must be one of {', '.join(TARGETS)}, all, or a .toml file.")
    try:
        asked = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name} is not valid TOML: {error}.") from None
    return _target(label, asked, quick, sets)


def _target(name: str, asked: dict[str, Any], quick: bool, sets: list[str] | None) -> Target:
    less = asked.get("quick", {}) if quick else {}
    kind = choice(asked.get("kind", "table"), f"The kind of {name}", KINDS, quoted=False)
    known = {**shared_methods(), **_methods(asked.get("own_methods", {}), name)}
    methods = [choice(method, f"A method of {name}", known, quoted=False) for method in asked.get("methods", [])]
    grids = tuple(_grid(grid, less, sets, name) for grid in asked.get("grids", []))
    starts = tuple(less.get("starts", asked.get("starts", [0])))
    if not starts or any(not isinstance(seed, int) or seed < 0 for seed in starts):
        raise ValueError(f"starts of {name} is {list(starts)}; give seeds, whole numbers from 0.")
    measure = choice(asked.get("measure", "quality"), f"The measure of {name}", MEASURES, quoted=False)
    run = tuple(known[method] for method in methods), tuple(grid for grid in grids if grid.sets)
    return Target(
        name, str(asked.get("title", name)), kind, measure, starts, *run, float(asked.get("seconds_each", 0.0))
    )


def _grid(asked: dict[str, Any], less: Mapping[str, Any], sets: list[str] | None, name: str) -> Grid:
    problem = choice(asked.get("problem", ""), f"A problem of {name}", LETTERS, quoted=False)
    letter, wanted = LETTERS[problem], {**asked}
    for key in (letter, "lam"):
        if key not in asked or not asked[key]:
            raise ValueError(f"A grid of {name} has no {key}; give a list of values.")
        if key in less:
            wanted[key] = [value for value in asked[key] if value in less[key]] or asked[key][:1]
    if sets is None and "sets" in less:
        # The simulated set does not replace another one; it is an additional set for SIT.
        wanted["sets"] = [x for x in less["sets"] if x in asked["sets"] or (x == "simulated" and problem == "SIT")]
    elif sets is not None:
        wanted["sets"] = sets
    return Grid(problem, tuple(wanted["sets"]), tuple(wanted[letter]), tuple(wanted["lam"]))


@functools.cache
def shared_methods() -> dict[str, Method]:
    """Return the methods of ``methods.toml``."""
    text = (resources.files(__package__) / "methods.toml").read_text("utf-8")
    return _methods(tomllib.loads(text), "methods.toml")


def _methods(asked: Mapping[str, Any], place: str) -> dict[str, Method]:
    from counterpoise.solvers import METHODS

    found = {}
    for name, entry in asked.items():
        stages = tuple(entry.get("stages", ()))
        if not stages:
            raise ValueError(f"{name} in {place} has no stages; give at least one, such as {{ method = 'bcd-g' }}.")
        for stage in stages:
            choice(stage.get("method", ""), f"A stage's method of {name} in {place}", METHODS, quoted=False)
        found[name] = Method(name, stages, bool(entry.get("ours", False)), str(entry.get("setting", "")))
    return found


def present(target: Target, folder: Path | None) -> tuple[dict[str, Data], dict[str, str]]:
    """Return the target's available sets, and a message for each one that is missing."""
    return load_present(dict.fromkeys(name for grid in target.grids for name in grid.sets), folder)


def tasks(target: Target, here: Mapping[str, Data], folder: Path | None) -> Iterator[Task]:
    """Yield every run of a target on the available sets; starts are the outermost loop."""
    for start, grid in itertools.product(target.starts, target.grids):
        for name, value, lam in itertools.product(grid.sets, grid.values, grid.lams):
            fits = is_tracking(name, folder) == (grid.problem == "SIT")
            if name not in here or not fits:
                continue
            for method in target.methods:
                place = target.name, grid.problem, name, here[name].digest, value, lam, start, target.measure
                yield Task(*place, method)
