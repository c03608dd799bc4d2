"""Registry of strategies by the types of g and u, used by solvers and certificates instead of type tests.

A *strategy* is a class whose instances are made from a problem. Which of these it needs depends on its use:

``refusal(problem)``           a sentence saying why it cannot serve a problem, or None (static)
``pool_for(problem)``          an object that prices columns if there are very many, or None (static)
``has_supports``               whether its points have at most ``s`` non-zeros, which exchanges are defined for
``threshold(problem, theta)``  λ above which every CWS point is sparse or binary, or None (static)
``plan``, ``limits``, ``start``, ``child``, ``descend``   for ``search``, see :mod:`counterpoise.solvers.search`
``advance``, ``tolerance``, ``weighted``, ``gap``         for ``swap`` and ``certify(level="swap")``
``works_by_columns``           whether ``search`` needs no AᵀA, which is not formed by default for very many columns
``for_losses``                 the class that replaces it if f is not quadratic, with ``takes_losses = True``
``enumeration()``              for ``exact``: what is enumerated, how many there are, and the function that does it
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from counterpoise.terms.concave import AtMost, ConcaveQuadratic, Norm2, TopSum
from counterpoise.terms.constraint import Sphere, Sum

_strategies: dict[tuple[type, type], Any] = {}


def register(g: type, u: type, strategy: Any) -> None:
    """Register ``strategy``, a class or "module:name", for problems whose terms have the types g and u."""
    _strategies[g, u] = strategy


def strategy_for(problem: Any) -> Any:
    """Return the strategy class for the terms of a problem, or None."""
    found = _imported(_strategies.get((type(problem.g), type(problem.u))))
    return found if problem.f.quadratic is not None else _imported(getattr(found, "for_losses", found))


def _imported(strategy: Any) -> Any:
    """Return a class that may be given as "module:name"."""
    if not isinstance(strategy, str):
        return strategy
    module, name = strategy.split(":")
    return getattr(import_module(module), name)


def pool_for(problem: Any) -> Any:
    """Return the object that prices the columns of a problem with very many of them, or None."""
    strategy = strategy_for(problem)
    return None if strategy is None else strategy.pool_for(problem)


def serving(problem: Any, method: str) -> Any:
    """Return the strategy class that serves a problem, or raise an error that names the method."""
    strategy = strategy_for(problem)
    if strategy is None:
        g = f"g is {type(problem.g).__name__}" if problem.g.lam > 0.0 else "there is no g"
        raise ValueError(
            f"method {method!r} takes TopSum and AtMost on Sum or Sphere, and Norm2 and ConcaveQuadratic on Sum; here "
            f"{g} and u is {type(problem.u).__name__}. counterpoise.registry.register adds more."
        )
    if problem.g.lam > 0.0 and not getattr(strategy, "takes_losses", False):
        problem.require_quadratic(method)
    refusal = strategy.refusal(problem)
    if refusal is not None:
        raise ValueError(f"method {method!r} cannot serve this problem: {refusal}")
    return strategy


for _g in (TopSum, AtMost):
    register(_g, Sum, "counterpoise.solvers.sparse_line:SparseLine")
    register(_g, Sphere, "counterpoise.solvers.sparse_arc:SparseArc")
for _binary in (Norm2, ConcaveQuadratic):
    register(_binary, Sum, "counterpoise.solvers.binary:Binary")
