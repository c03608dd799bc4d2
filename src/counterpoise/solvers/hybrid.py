"""Hybrids of the paper: a method that starts where another ended."""

from __future__ import annotations

import numpy as np

from counterpoise.problem import Result


def join(first: Result, second: Result) -> Result:
    """Return the second run as the continuation of the first, from whose point it started.

    The point, the status and all claims are those of the second. The history has the rows of the first, then those of
    the second, with iterations and seconds continued and the objective of the best point so far; ``nit``, ``nacc`` and
    ``time`` are sums.

    Examples
    --------
    >>> import numpy as np
    >>> import counterpoise as cp
    >>> problem = cp.Problem(cp.LeastSquares(np.eye(3), [0.7, 0.3, 0.1]), cp.Bounds(0, 1), u=cp.Sum(1))
    >>> first = cp.minimize(problem, working_set="random", max_iter=1)
    >>> second = cp.minimize(problem, x0=first.x)
    >>> both = join(first, second)
    >>> both.status.name, both.nit == first.nit + second.nit == int(both.history[-1, 0])
    ('CERTIFIED', True)
    """
    iteration, seconds, _ = first.history[-1]
    history = np.vstack([first.history, second.history + np.array([iteration, seconds, 0.0])])
    history[:, 2] = np.minimum.accumulate(history[:, 2])
    sums = {name: first[name] + second[name] for name in ("nit", "nacc", "time")}
    return Result(**{**second, **sums, "history": history})
