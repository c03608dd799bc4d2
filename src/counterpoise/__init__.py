"""counterpoise: block coordinate descent for F = f + h + g under one nonseparable constraint, with proof."""

from counterpoise.certificates import Certificate, certify
from counterpoise.problem import Problem, Result, Status
from counterpoise.solvers import minimize
from counterpoise.solvers.exact import prove
from counterpoise.solvers.path import Path, path
from counterpoise.terms.concave import ConcaveQuadratic, Norm2, TopSum
from counterpoise.terms.constraint import Sphere, Sum
from counterpoise.terms.separable import AbsoluteDeviation, Bounds, Linear
from counterpoise.terms.smooth import LeastSquares, Quadratic

__version__ = "0.1.0"

__all__ = [
    "AbsoluteDeviation",
    "Bounds",
    "Certificate",
    "ConcaveQuadratic",
    "LeastSquares",
    "Linear",
    "Norm2",
    "Path",
    "Problem",
    "Quadratic",
    "Result",
    "Sphere",
    "Status",
    "Sum",
    "TopSum",
    "certify",
    "minimize",
    "path",
    "prove",
]
