"""``counterpoise compile``: compile all kernels in advance, so that no first call waits for the compiler."""

from __future__ import annotations

import os
from typing import Annotated

from rich.console import Console

from counterpoise.checks import whole_number
from counterpoise.cli import options
from counterpoise.cli.base import app, command, status_line, tell
from counterpoise.cli.results import print_json
from counterpoise.output import CannotWriteError


@command(app.command("compile"))
def compile_(
    *, jobs: Annotated[int | None, "Processes at a time; by default one per core."] = None, manners: options.Manners
) -> None:
    """Compile all kernels in advance, for container images and CI.

    Example: counterpoise compile --jobs 2
    """
    jobs = None if jobs is None else whole_number(jobs, "--jobs", 1)
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        raise ValueError("NUMBA_DISABLE_JIT is set, so kernels run as plain Python; unset it to compile them.")
    from counterpoise.warm import RECIPES, compile_kernels

    with status_line(manners.silent) as say:
        say("Compiling")
        made = compile_kernels(
            jobs, lambda name, done: say.show(f"Compiling: {name}, {done} of {len(RECIPES)} parts done")
        )
    if made.folder is None:
        raise CannotWriteError(
            "There is no writable folder for compiled kernels, so every process compiles its own; set "
            "NUMBA_CACHE_DIR to one."
        )
    if made.lost:
        raise CannotWriteError(f"{made.folder} did not keep {', '.join(made.lost)}; is the disk full?")
    if manners.as_json:
        print_json({**made._asdict(), "folder": str(made.folder)})
    elif not manners.quiet:
        said = f"{made.kernels} kernels are ready, {made.compiled} of them compiled in {made.seconds:.0f} s"
        tell(Console(highlight=False), f"{said}; they are kept in {made.folder}.")
