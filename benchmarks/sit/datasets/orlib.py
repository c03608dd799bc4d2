"""The OR-Library's index tracking sets."""

from typing import Any

from benchmark_utils.data import load
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Weekly returns: 1 Hang Seng, 2 DAX, 3 FTSE, 5 Nikkei."""

    name = "OR-Library"
    parameters = {"number": [1, 2, 3, 5]}
    test_parameters = {"number": [1]}

    def get_data(self) -> dict[str, Any]:
        """Return percent returns of stocks and index, or the reason why they are absent."""
        arrays, absent = load(f"orlib_indtrack/indtrack{self.number}.npz")
        if absent:
            return {"absent": absent}
        prices, index = arrays["prices"], arrays["index"]
        return {"A": 100.0 * (prices[1:] / prices[:-1] - 1.0), "y": 100.0 * (index[1:] / index[:-1] - 1.0)}
