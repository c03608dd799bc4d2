"""counterpoise: certified block coordinate descent for F = f + h + g under one nonseparable constraint."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Imported eagerly: module and function share a name, and a later import of the module would overwrite the function.
from counterpoise.backtest import Backtest, backtest

if TYPE_CHECKING:
    from counterpoise.certificates import Certificate, certify
    from counterpoise.estimators.binary import BinaryLeastSquares
    from counterpoise.estimators.pca import NonnegativeSparsePCA, SparsePCA
    from counterpoise.estimators.simplex import SimplexRegression
    from counterpoise.estimators.split import Split, balanced_split
    from counterpoise.estimators.tracking import IndexTracker
    from counterpoise.problem import Problem, Result, Status
    from counterpoise.solvers import minimize
    from counterpoise.solvers.path import Path, path
    from counterpoise.tables.prices import to_returns
    from counterpoise.terms.concave import AtMost, ConcaveQuadratic, Norm2, TopSum
    from counterpoise.terms.constraint import Constraint, Sphere, Sum
    from counterpoise.terms.losses import Downside, Huber, HuberDownside, Logistic, Loss
    from counterpoise.terms.separable import (
        AbsoluteDeviation,
        Bounds,
        Linear,
        Pieces,
        Ridge,
        SemiContinuous,
        SeparableTerm,
    )
    from counterpoise.terms.smooth import LeastSquares, Quadratic

__version__ = "0.2.0"

__all__ = ["AbsoluteDeviation", "AtMost", "Backtest", "BinaryLeastSquares", "Bounds", "Certificate"]
__all__ += ["ConcaveQuadratic", "Constraint", "Downside", "Huber", "HuberDownside", "IndexTracker", "LeastSquares"]
__all__ += ["Linear", "Logistic", "Loss", "NonnegativeSparsePCA", "Norm2", "Path", "Pieces", "Problem", "Quadratic"]
__all__ += ["Result", "Ridge", "SemiContinuous", "SeparableTerm", "SimplexRegression", "SparsePCA", "Sphere", "Split"]
__all__ += ["Status", "Sum", "TopSum", "backtest", "balanced_split", "certify", "minimize", "path"]
__all__ += ["to_returns"]

# Names are imported on first use, because Numba, SciPy and scikit-learn take a second or two to import.
_MODULES = {
    "certificates": ("Certificate", "certify"),
    "estimators.binary": ("BinaryLeastSquares",),
    "estimators.pca": ("NonnegativeSparsePCA", "SparsePCA"),
    "estimators.simplex": ("SimplexRegression",),
    "estimators.split": ("Split", "balanced_split"),
    "estimators.tracking": ("IndexTracker",),
    "problem": ("Problem", "Result", "Status"),
    "solvers": ("minimize",),
    "solvers.path": ("Path", "path"),
    "tables.prices": ("to_returns",),
    "terms.concave": ("AtMost", "ConcaveQuadratic", "Norm2", "TopSum"),
    "terms.constraint": ("Constraint", "Sphere", "Sum"),
    "terms.separable": ("AbsoluteDeviation", "Bounds", "Linear", "Pieces", "Ridge", "SemiContinuous", "SeparableTerm"),
    "terms.losses": ("Downside", "Huber", "HuberDownside", "Logistic", "Loss"),
    "terms.smooth": ("LeastSquares", "Quadratic"),
}
# Names of earlier versions, and what replaces them.
_GONE = {
    "prove": 'use minimize(problem, method="exact"), which enumerates small problems, or give a mixed-integer solver '
    "the problem and the x of a search as a warm start."
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
# Submodules that `import counterpoise` makes available, as in earlier versions.
_SUBMODULES = "certificates checks clock datasets estimators kernels plotting prices problem problems report".split()
_SUBMODULES += ["solvers", "supervision", "terms"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    elif name in _SUBMODULES:
        value = import_module(f"{__name__}.{name}")
    else:
        gone = f" any more: {_GONE[name]}" if name in _GONE else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{gone}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
