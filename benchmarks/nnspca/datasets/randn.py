"""A Gaussian matrix."""

from typing import Any

import numpy as np
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Independent standard normal entries, size × size."""

    name = "randn"
    parameters = {"size": [256], "seed": [0]}
    test_parameters = {"size": [20]}

    def get_data(self) -> dict[str, Any]:
        """Return A."""
        return {"A": np.random.default_rng(self.seed).standard_normal((self.size, self.size))}
