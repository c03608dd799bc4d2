"""A table of results, written as Markdown, CSV, LaTeX or HTML."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from counterpoise.output import csv_text

# A cell holds text, a whole number, a number or nothing.
Cell = str | int | float | None
LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "$": r"\$",
    "λ": r"$\lambda$", "±": r"$\pm$", "×": r"$\times$", "≤": r"$\le$", "≥": r"$\ge$", "−": r"$-$", "√": r"$\surd$",
    "ε": r"$\varepsilon$", "θ": r"$\theta$", "·": r"$\cdot$", "∞": r"$\infty$", "…": r"\dots{}", "–": "--",
    "*": r"$^\ast$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Table:
    """A caption, a head and rows; ``bold`` lists the cells to emphasise, by (row, column).

    Examples
    --------
    >>> print(Table("t", "A caption", ("set", "F"), (("NAS-16", 1.75), ("SP-16", None)), {(0, 1)}).markdown())
    **A caption**
    <BLANKLINE>
    | set | F |
    |:--|--:|
    | NAS-16 | **1.75** |
    | SP-16 | – |
    """

    name: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    bold: set[tuple[int, int]] = dataclasses.field(default_factory=set)
    notes: Sequence[str] = ()

    def markdown(self) -> str:
        """Return a pipe table, or only the caption if there are no rows; columns of numbers are right-aligned."""
        lines = ["**{}**".format(self.caption.replace("*", r"\*"))]
        if not self.rows:
            return lines[0]
        marks = ["--:" if self.is_numeric(column) else ":--" for column in range(len(self.head))]
        lines += ["", _piped(self.head), "|" + "|".join(marks) + "|"]
        lines += map(_piped, self.cells(lambda value, bold: f"**{show(value)}**" if bold else show(value)))
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)])

    def csv(self) -> str:
        """Return comma-separated values, with numbers in full precision."""
        return csv_text(self.head, self.rows)

    def latex(self) -> str:
        """Return a ``tabular`` in a ``table``, with booktabs rules."""
        shape = "".join("r" if self.is_numeric(column) else "l" for column in range(len(self.head)))
        lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{shape}}}", r"\toprule"]
        lines += [" & ".join(map(escape_latex, self.head)) + r" \\", r"\midrule"]
        texts = self.cells(lambda value, bold: (r"\textbf{%s}" if bold else "%s") % escape_latex(show(value)))
        lines += [" & ".join(row) + r" \\" for row in texts]
        lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{escape_latex(self.caption)}}}"]
        lines += [rf"\label{{tab:{self.name}}}", r"\end{table}"]
        return "\n".join(lines)

    def cells(self, make: Callable[[Cell, bool], Any]) -> list[list[Any]]:
        """Return ``make(value, whether it is bold)`` for all cells."""
        rows = enumerate(self.rows)
        return [[make(value, (r, c) in self.bold) for c, value in enumerate(row)] for r, row in rows]

    def is_numeric(self, column: int) -> bool:
        """Return whether a column holds a number."""
        return any(isinstance(row[column], int | float) for row in self.rows)


def show(value: Cell) -> str:
    """Return a cell's text: numbers to five digits, a dash for nothing."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.5g}"
    return str(value)


def escape_latex(text: str) -> str:
    """Escape text for LaTeX; Greek letters and mathematical symbols become commands."""
    return re.sub(".", lambda match: LATEX.get(match[0], match[0]), text)


def _piped(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(str(cell).replace("|", r"\|") for cell in cells) + " |"
