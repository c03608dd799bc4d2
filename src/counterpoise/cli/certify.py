"""``counterpoise certify``: say what can be proved about a point, for a problem whose data is in a file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import numpy as np
from rich.console import Console

import counterpoise as cp
from counterpoise.checks import Vector, choice
from counterpoise.cli import base, options, results
from counterpoise.cli.base import app, status_line
from counterpoise.cli.problem import File, Instance, Kind, build, check_problem, read_x
from counterpoise.sentences import by_more_than, counted

LEVELS = ("pair", "swap")
# A decrease below this, relative to the objective, is rounding error.
ROUNDING = 1e-9


@base.command(app.command())
def certify(
    *,
    file: File,
    problem: Kind,
    point: Annotated[Path, "x: .npy, .npz, .txt or .csv: numbers, or name, weight as track writes.", "--point"],
    name: Annotated[str | None, "Which array or column of --point, if it holds several."] = None,
    instance: Instance,
    marks: options.Marks,
    level: Annotated[
        str, f"Examine pairs of coordinates, or exchanges as well: {', '.join(LEVELS)}.", "LEVEL", LEVELS
    ] = "pair",
    project: Annotated[bool, "Move the point onto the constraints first."] = False,
    manners: options.Telling,
) -> None:
    """Say what can be proved about a point.

    Example: counterpoise certify data.npz --problem sit -s 30 --point x.npz --level swap
    """
    options.check_files(file, point=point)
    choice(level, "--level", LEVELS, quoted=False)
    check_problem(problem, instance)
    with base.kept_warnings() as warned, status_line(manners.silent) as say:
        say(f"Reading {file.name}")
        read = build(file, problem, instance, marks)
        built, x = read.problem, read_x(point, name, ("--point", "--name"), read, file)
        if project:
            x = built.project(x)
        violation = built.violation(x)
        if violation > 1e-6:
            raise ValueError(
                f"{point} violates the constraints by {violation:.3g}, so no certificate is possible; "
                "--project moves it onto them first."
            )
        pairs = built.n * (built.n - 1) // 2
        say(f"Looking at {counted(pairs, 'pair')}: objective {built.objective(x):.4g}, gap –")
        certificate = cp.certify(built, x, level=level)
    least = built.value_and_resolution(x)[1]
    claims = sentences(built, certificate, read.names, least)
    if manners.as_json:
        fields = {"file": str(file), "point": str(point), "problem": problem}
        shape = {"lam": float(built.g.lam), "columns": built.n, "non_zeros": int(np.count_nonzero(x))}
        body = {**fields, **shape, **dataclasses.asdict(certificate), "sentences": [*claims, *read.notes, *warned]}
        results.print_json(body)
    elif not manners.quiet:
        base.warn(warned)
        _print(Console(highlight=False), built, x, certificate, [*read.notes, *claims], manners.verbose)


def sentences(
    problem: cp.Problem, certificate: cp.Certificate, names: list[str] | None = None, resolution: float = 0.0
) -> list[str]:
    """Return the certificate in plain words; ``resolution`` is the rounding error of the objective."""

    def called(k: int) -> str:
        return str(k) if names is None else names[k]

    one = "coordinate " if names is None else ""
    pairs, rounding = problem.n * (problem.n - 1) // 2, ROUNDING * max(1.0, abs(certificate.objective))
    said = [f"The objective is {certificate.objective:.8g}; the constraints hold to {certificate.violation:.1e}."]
    gap = certificate.cws_gap
    if gap <= rounding or certificate.worst_pair is None:
        said.append(f"No change of any two coordinates, of {pairs:,} pairs, lowers it {by_more_than(gap, resolution)}.")
    else:
        (i, j), (di, dj) = certificate.worst_pair, certificate.worst_step or (0.0, 0.0)
        said.append(
            f"Changing {one}{called(i)} by {di:+.4g} and {called(j)} by {dj:+.4g} lowers it by {gap:.4g}, the "
            f"largest decrease of any of {pairs:,} pairs; counterpoise solve --start continues from here."
        )
    residual = certificate.critical_residual
    said.append(f"Its first-order residual is {residual:.1e}, which is 0 at a critical point.")
    if certificate.swap_gap is not None:
        if certificate.swap_gap <= rounding:
            said.append("No exchange of a held coordinate for another one lowers it, with all weights re-optimised.")
        elif certificate.worst_swap is None:
            said.append(
                f"Other weights of the same coordinates lower it by {certificate.swap_gap:.4g}; from the best of them "
                "no exchange of a held coordinate for another one gains."
            )
        else:
            leaves, enters = certificate.worst_swap
            who = f"Letting {one}{called(enters)} in"
            if leaves >= 0:
                who = f"Exchanging {one}{called(leaves)} for {called(enters)}"
            said.append(f"{who}, with all weights re-optimised, lowers it by {certificate.swap_gap:.4g}.")
    if certificate.exact:
        said.append(
            f"λ is above {certificate.exact_lam:.4g}, so every point without a better pair is as sparse, or as binary, "
            "as requested."
        )
    elif certificate.exact is False:
        said.append(
            f"λ is not above {certificate.exact_lam:.4g}, so points without a better pair need not be as sparse, or as "
            "binary, as requested."
        )
    return said


def _print(
    console: Console, problem: cp.Problem, x: Vector, certificate: cp.Certificate, claims: list[str], verbose: bool
) -> None:
    size = f"{problem.name}: {problem.n:,} coordinates, {np.count_nonzero(x):,} of them not 0, λ = {problem.g.lam:g}."
    base.tell(console, size, *claims)
    if verbose:
        console.print(results.grid(dataclasses.asdict(certificate)))
