"""A Gaussian matrix."""

from typing import Any

import numpy as np
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Independent standard normal entries, size × size, and y = 0; 40 is small enough for SCIP."""

    name = "randn"
    parameters = {"size": [40, 256], "seed": [0]}
    test_parameters = {"size": [16]}

    def get_data(self) -> dict[str, Any]:
        """Return A."""
        return {"A": np.random.default_rng(self.seed).standard_normal((self.size, self.size))}
