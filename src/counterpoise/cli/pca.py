"""``counterpoise pca``: find sparse principal components of a table, non-negative or signed."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console

import counterpoise as cp
from counterpoise.checks import choice, whole_number
from counterpoise.cli import base, options, results
from counterpoise.cli.base import Line, app, status_line
from counterpoise.findings import component_claims, ending, loadings_table
from counterpoise.output import csv_text
from counterpoise.sentences import counted, percent, some
from counterpoise.tables.read import read_sheet

if TYPE_CHECKING:
    from counterpoise.solvers.run import Progress as RunProgress

# A note mentions a column with more than this share of the variance.
DOMINANT = 0.9
FILES = ("loadings.csv", "report.html")
OPTIONS = base.option_names("deflation backfit method work", n_components="--components", n_nonzero="--nonzero")


@base.command(app.command())
def pca(
    *,
    context: typer.Context,
    table: Annotated[Path, "One row per sample, one column per feature: .csv, .parquet or .xlsx."],
    components: Annotated[int, "Number of components."] = 5,
    nonzero: Annotated[
        list[int] | None, "Maximum number of non-zero loadings; repeat for one per component. [10]"
    ] = None,
    signed: Annotated[bool, "Allow negative loadings."] = False,
    standardise: Annotated[bool, "Divide every column by its standard deviation."] = False,
    covariance: Annotated[bool, "The table holds covariances or correlations; one triangle is enough."] = False,
    rows: Annotated[str | None, "Column with the names of the rows.", "COL"] = None,
    ignore: options.Ignore = None,
    missing: options.Gaps = "refuse",
    marks: options.Marks,
    deflation: Annotated[str, "Deflation: schur, hotelling, projection, orthogonal.", "NAME"] = "schur",
    backfit: Annotated[int | None, "Maximum number of rounds that improve components jointly."] = None,
    method: Annotated[
        str, "Method for each component: search, swap, bcd-g; exact for few features.", "NAME"
    ] = "search",
    effort: options.Effort,
    seed: Annotated[int, "The same seed gives the same components."] = 0,
    output: Annotated[Path, f"Folder to write {' and '.join(FILES)} to.", "DIR"] = Path("counterpoise-pca"),
    manners: options.Writing,
) -> None:
    """Find principal components with few non-zero loadings, non-negative or signed.

    Example: counterpoise pca cells.csv --components 5 --nonzero 10 --standardise --signed
    """
    options.check_files(table)
    whole_number(components, "--components", 1)
    sizes = [whole_number(size, "--nonzero", 1) for size in nonzero or []]
    whole_number(seed, "--seed", 0)
    options.check_seconds(effort.seconds)
    choice(missing, "--missing", options.GAPS, quoted=False)
    options.check_folder(output, FILES, manners.force, may_ask=not manners.silent)
    with base.kept_warnings() as warned, status_line(manners.silent) as say:
        say(f"Reading {table.name}")
        data = _read(table, rows, ignore, missing, covariance, **marks.arguments())
        if not (standardise or covariance):
            data.notes.extend(_dominant(data))
        n = data.X.shape[1]
        if sizes and max(sizes) > n:
            raise ValueError(f"--nonzero is {max(sizes)}, but there are {n} features; it must be at most {n}.")
        say(f"Looking for {counted(components, 'component')}", effort.seconds)
        from counterpoise.estimators.callbacks import listening

        with base.in_options(OPTIONS):
            estimator = cp.SparsePCA(
                components,
                None if not sizes else sizes[0] if len(sizes) == 1 else sizes,
                nonnegative=not signed,
                standardize=standardise,
                deflation=deflation,
                backfit=backfit,
                method=method,
                random_state=seed,
                **effort.arguments(),
            )
            with listening(lambda progress, share: _hear(say, components, progress, share)):
                fitted = estimator.fit(covariance=data.X) if covariance else estimator.fit(data.X)
    notes = [*warned, *data.notes]
    from counterpoise.report import components_report

    report = components_report(
        fitted,
        None if covariance else data.X,
        names=data.features,
        rows=data.rows,
        title=f"{counted(fitted.n_components_, 'sparse component')} of {table.name}",
        command=results.command_of(context),
        settings=results.settings_of(context),
        notes=notes,
    )
    files = {"loadings.csv": _csv(fitted, data), "report.html": report.html()}
    summary = _summary(fitted, data, notes)
    show = functools.partial(_print, fitted=fitted, data=data, verbose=manners.verbose)
    cut = any(result.status is cp.Status.INTERRUPTED for result in fitted.results_)
    results.publish(context, output, files, summary, show, manners, warned, cut=cut)


def _hear(say: Line, components: int, progress: RunProgress, share: float | None) -> None:
    """Show the progress of the component just found, or of a round that improves all of them."""
    found, rounds = min(progress.iteration, components), progress.iteration - components
    alone = rounds <= 0 or math.isfinite(progress.gap)
    say.hear(progress, share, f"Component {found} of {components}" if alone else f"All together, round {rounds}")


class _Data(NamedTuple):
    """Numbers with the names of rows and columns, and notes on what was left out."""

    X: Any
    features: list[str]
    rows: list[str]
    notes: list[str]


def _read(
    path: Path, rows: str | None, ignore: list[str] | None, missing: str, covariance: bool, **marks: Any
) -> _Data:
    sheet = read_sheet(path, may_lack_names=True, **marks)
    left = set(options.columns_in(sheet, "--ignore", ignore))
    if rows is not None:
        left.add(sheet.require(rows, "--rows"))
    notes = list(sheet.notes)
    words = [name for name in sheet.words if name not in left and not sheet.is_mixed(name)]
    if rows is None and not covariance:
        rows = next((name for name in words if len(set(sheet.as_written(name)) - {""}) == len(sheet.lines)), None)
        if rows is not None:
            notes.append(f"Took column {rows!r} for the names of the rows, as no two are the same.")
            words, left = [name for name in words if name != rows], {*left, rows}
    if words:
        notes.append(f"Left out {_columns(words)} without numbers: {some(words)}.")
    chosen = [name for name in sheet.names if name not in left and name not in words]
    if len(chosen) < 2:
        raise ValueError(f"{path} has {_columns(chosen)} of numbers; components need at least 2.")
    X = np.column_stack([sheet.numbers(name) for name in chosen])
    infinite = np.argwhere(np.isinf(X))
    if len(infinite):
        row, k = map(int, infinite[0])
        raise ValueError(f"{sheet.place(row, chosen[k])} is {X[row, k]:g}; it must be finite.")
    if covariance:
        features = [name for name in sheet.names if name != rows and name not in words]
        if len(X) == len(features) > len(chosen):  # drop the rows of ignored features as well
            X = X[[k for k, name in enumerate(features) if name in chosen]]
        return _Data(_mirrored(X, path, notes), chosen, chosen, notes)
    labels = sheet.labels(rows) if rows is not None else [str(place + 1) for place in range(len(sheet.lines))]
    kept, whole, said = options.without_gaps(np.isnan(X), missing, labels, chosen, "row", sheet.place)
    X, chosen = X[np.ix_(kept, whole)], [name for name, keep in zip(chosen, whole, strict=True) if keep]
    notes += said
    if len(X) < 3 or X.shape[1] < 2:
        raise ValueError(
            f"The table has {counted(len(X), 'row')} and {_columns(chosen)}; components need at least 3 rows and 2 "
            "columns."
        )
    still = [name for name, spread in zip(chosen, np.ptp(X, axis=0), strict=True) if spread == 0.0]
    if still:
        verbs = "does not vary and has" if len(still) == 1 else "do not vary and have"
        notes.append(f"{_columns(still)} {verbs} no loading: {some(still)}.")
    return _Data(X, chosen, [str(label) for label, keep in zip(labels, kept, strict=True) if keep], notes)


def _dominant(data: _Data) -> list[str]:
    """Return a note on a column whose variance dwarfs that of all others, if there is one."""
    variances = data.X.var(axis=0)
    largest, share = int(variances.argmax()), float(variances.max() / max(variances.sum(), 1e-300))
    if share < DOMINANT:
        return []
    said = f"Column {data.features[largest]!r} has {percent(share)} of the variance"
    return [f"{said}; --standardise gives all columns the same weight."]


def _mirrored(C: Any, path: Path, notes: list[str]) -> Any:
    """Return a square table; empty cells, as in a triangular table, are filled from across the diagonal."""
    if len(C) != C.shape[1]:
        raise ValueError(
            f"{path} has {counted(len(C), 'row')} and {counted(C.shape[1], 'column')} of numbers; --covariance takes a "
            "square table, one row and one column per feature."
        )
    gaps = np.isnan(C)
    if (gaps & gaps.T).any():
        i, j = map(int, np.argwhere(gaps & gaps.T)[0])
        raise ValueError(
            f"{path} has no covariance of features {i + 1} and {j + 1}: the cell and the one across the diagonal are "
            "empty; --covariance takes a full table or one triangle, including the diagonal."
        )
    if gaps.any():
        notes.append(f"Filled {counted(gaps.sum(), 'empty cell')} from across the diagonal.")
    return np.where(gaps, C.T, C)


def _columns(names: list[str]) -> str:
    return counted(len(names), "column")


def _csv(fitted: Any, data: _Data) -> str:
    """Return the loadings as CSV, one row per feature that has any."""
    V = np.asarray(fitted.components_, dtype=np.float64)
    head = ["feature", *(f"component {k}" for k in range(1, len(V) + 1))]
    used = np.flatnonzero(V.any(axis=0))
    return csv_text(head, ([data.features[j], *(float(value) for value in V[:, j])] for j in used))


def _summary(fitted: Any, data: _Data, notes: list[str]) -> dict[str, Any]:
    """Return what --json prints."""
    order = [np.argsort(-np.abs(row), kind="stable") for row in fitted.components_]
    return {
        "rows": data.X.shape[0],
        "features": data.X.shape[1],
        "explained_variance_ratio": [float(share) for share in fitted.explained_variance_ratio_],
        "score_correlation": np.asarray(fitted.score_correlation_, dtype=np.float64).tolist(),
        "components": [
            {
                "loadings": {data.features[j]: float(row[j]) for j in order[k] if row[j] != 0.0},
                "share": float(fitted.explained_variance_ratio_[k]),
                "variance": float(fitted.score_variance_[k]),
                "upper_bound": float(fitted.upper_bound_[k]),
                "status": result.status.name,
                "certified": bool(result.success),
                "cws_gap": float(result.cws_gap),
            }
            for k, (row, result) in enumerate(zip(fitted.components_, fitted.results_, strict=True))
        ],
        "notes": notes,
    }


def _print(console: Console, fitted: Any, data: _Data, verbose: bool) -> None:
    base.tell(console, *data.notes)
    listing, last, rows = loadings_table(fitted, data.features), 0, []
    for component, feature, loading in listing.rows:
        share = f"{component} ({percent(fitted.explained_variance_ratio_[component - 1], 1)})"
        rows.append([share if component != last else "", feature, f"{loading:.3f}".replace("-", "−")])
        last = component
    results.print_table(console, "Loadings", listing, "loadings.csv", rows)
    total = percent(float(np.sum(fitted.explained_variance_ratio_)), 1)
    base.tell(console, f"Together they explain {total} of the variance.")
    claims = component_claims(fitted)
    if verbose:
        claims += [f"Component {k}: {ending(result)}" for k, result in enumerate(fitted.results_, 1)]
    base.tell(console, *claims)
