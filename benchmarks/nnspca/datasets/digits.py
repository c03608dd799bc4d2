"""The digits of scikit-learn."""

from typing import Any

from benchopt import BaseDataset
from sklearn.datasets import load_digits


class Dataset(BaseDataset):
    """1797 digits of 8 × 8 pixels between 0 and 1."""

    name = "digits"
    requirements = ["scikit-learn"]

    def get_data(self) -> dict[str, Any]:
        """Return A."""
        return {"A": load_digits().data / 16.0}
