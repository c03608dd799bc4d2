"""counterpoise: block coordinate descent for F = f + h + g under one nonseparable constraint, with proof."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from counterpoise.backtest import Backtest, backtest
from counterpoise.certificates import Certificate, certify
from counterpoise.problem import Problem, Result, Status
from counterpoise.solvers import minimize
from counterpoise.solvers.exact import prove
from counterpoise.solvers.path import Path, path
from counterpoise.terms.concave import ConcaveQuadratic, Norm2, TopSum
from counterpoise.terms.constraint import Sphere, Sum
from counterpoise.terms.separable import AbsoluteDeviation, Bounds, Linear
from counterpoise.terms.smooth import LeastSquares, Quadratic

if TYPE_CHECKING:
    from counterpoise.estimators.binary import BinaryLeastSquares
    from counterpoise.estimators.pca import NonnegativeSparsePCA
    from counterpoise.estimators.split import balanced_split
    from counterpoise.estimators.tracking import IndexTracker
    from counterpoise.prices import to_returns

__version__ = "0.1.0"

__all__ = [
    "AbsoluteDeviation",
    "Backtest",
    "BinaryLeastSquares",
    "Bounds",
    "Certificate",
    "ConcaveQuadratic",
    "IndexTracker",
    "LeastSquares",
    "Linear",
    "NonnegativeSparsePCA",
    "Norm2",
    "Path",
    "Problem",
    "Quadratic",
    "Result",
    "Sphere",
    "Status",
    "Sum",
    "TopSum",
    "backtest",
    "balanced_split",
    "certify",
    "minimize",
    "path",
    "prove",
    "to_returns",
]

# scikit-learn takes as long to import as all the rest; who solves a problem of the paper does not need it.
_LATER = {
    "BinaryLeastSquares": "counterpoise.estimators.binary",
    "IndexTracker": "counterpoise.estimators.tracking",
    "NonnegativeSparsePCA": "counterpoise.estimators.pca",
    "balanced_split": "counterpoise.estimators.split",
    "to_returns": "counterpoise.prices",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'counterpoise' has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
