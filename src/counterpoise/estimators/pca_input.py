"""Check the input of SparsePCA: data or a covariance, the numbers of components and of loadings, and the options."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import validate_data

from counterpoise.checks import SMALLEST, choice, flag, is_sparse, refuse_extreme, whole_number
from counterpoise.estimators.deflation import KINDS
from counterpoise.estimators.options import RunOptions, refuse_non_finite, refuse_unusable
from counterpoise.estimators.sources import Centred, Given, Source

METHODS = ("search", "swap", "bcd-g", "exact")
# Starts per component before backfitting, which makes up for the rest: 8 starts end no better on digits and MNIST,
# and 2 find less variance in other data, such as breast cancer and stock returns.
FEW_STARTS = 4
# Default backfitting visits LOOKS components in total, but takes at least LEAST_ROUNDS rounds; twice as many with more
# than WIDE columns. On digits this is as fast as EM with five starts.
LOOKS, LEAST_ROUNDS, WIDE = 60, 5, 256
# Default number of non-zeros per component.
DEFAULT_NONZERO = 10


def source_of(estimator: Any, X: Any, covariance: Any) -> tuple[Source, Any]:
    """Return the source of covariances, either data or a given matrix, and its dtype."""
    if (X is None) == (covariance is None):
        given = "X and covariance are both" if X is not None else "Neither X nor covariance is"
        raise ValueError(f"{given} given; give one of them.")
    standardize = flag(estimator.standardize, "standardize")
    name = "X" if covariance is None else "covariance"
    values = X if covariance is None else covariance
    refuse_unusable(**{name: values})
    if covariance is not None:
        if is_sparse(covariance):
            raise TypeError("covariance is a sparse matrix; give a dense one, covariance.toarray().")
        C = validate_data(estimator, covariance, dtype=[np.float64, np.float32], ensure_all_finite=False)
        refuse_non_finite(C, name)
        data: Source = Given(C, standardize)
        values = C
    else:
        values = validated(estimator, X, reset=True)
        refuse_extreme(values.data if is_sparse(values) else values, "X", smallest=SMALLEST)
        data = Centred(values, standardize)
    if not len(data.varying):
        over = f" over {values.shape[0]} samples" if covariance is None else ""
        raise ValueError(
            f"{name} is constant: none of its {data.n} columns varies{over}; principal components need variance."
        )
    return data, values.dtype


def validated(estimator: Any, X: Any, reset: bool) -> Any:
    """Return X in single or double precision, dense, CSR or CSC; refuse non-finite entries."""
    X = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse=("csr", "csc"),
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        ensure_min_samples=2 if reset else 1,
    )
    refuse_non_finite(X, "X")
    return X


def sizes_of(estimator: Any, data: Source) -> list[int]:
    """Return the maximum number of non-zeros of each component."""
    count = whole_number(estimator.n_components, "n_components", 1)
    most, samples = data.most_components, "" if data.m is None else f"{data.m} samples and "
    if count > most:
        raise ValueError(
            f"n_components is {count}, but {data.name} has {samples}{_features(data.n)}; it must be at most {most}."
        )
    if estimator.n_nonzero is None:
        return [min(DEFAULT_NONZERO, data.n)] * count
    if np.ndim(estimator.n_nonzero) == 0:
        return [size_of(estimator.n_nonzero, "n_nonzero", data)] * count
    sizes = [size_of(size, f"n_nonzero[{k}]", data) for k, size in enumerate(np.ravel(estimator.n_nonzero))]
    if len(sizes) != count:
        raise ValueError(f"n_nonzero has {len(sizes)} entries; give one number, or one for each of {count} components.")
    return sizes


def size_of(value: Any, name: str, data: Source) -> int:
    """Check that a number of loadings is between 1 and the number of features, and return it."""
    size = whole_number(value, name, 1)
    if size > data.n:
        raise ValueError(
            f"{name} is {size}, but {data.name} has {_features(data.n)}; it must be between 1 and {data.n}."
        )
    return size


def _features(count: int) -> str:
    return "1 feature(s)" if count == 1 else f"{count} features"  # scikit-learn looks for these words


class Plan(NamedTuple):
    """The options of a fit."""

    sizes: list[int]
    run: RunOptions
    backfit: int
    signed: bool
    deflation: str

    @property
    def joint(self) -> bool:
        """Whether components are backfitted, which needs several of them and the Schur complement."""
        return self.backfit > 0 and len(self.sizes) > 1 and self.deflation == "schur"

    @property
    def by_size(self) -> bool:
        """Whether components are ordered by adjusted variance; if sizes differ, the user's order is kept."""
        return self.joint and len(set(self.sizes)) == 1

    @property
    def is_quick(self) -> bool:
        """Whether a few descents suffice for each component, because backfitting improves on them."""
        return self.joint and self.run.method == "search" and self.run.max_time is None


def plan_of(estimator: Any, data: Source) -> Plan:
    """Return the checked options of an estimator."""
    sizes = sizes_of(estimator, data)
    default = max(LEAST_ROUNDS, LOOKS // len(sizes)) * (2 if data.n > WIDE else 1)
    backfit = default if estimator.backfit is None else whole_number(estimator.backfit, "backfit", 0)
    signed, deflation = not flag(estimator.nonnegative, "nonnegative"), choice(estimator.deflation, "deflation", KINDS)
    plan = Plan(sizes, RunOptions.of(estimator, METHODS), backfit, signed, deflation)
    if plan.is_quick and plan.run.work is None:
        plan = plan._replace(run=plan.run._replace(work=FEW_STARTS))
    return plan
