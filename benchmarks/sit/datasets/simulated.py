"""A simulated market."""

from typing import Any

from benchopt import BaseDataset

from counterpoise.datasets import simulate_market


class Dataset(BaseDataset):
    """A year of daily returns by a factor model with heavy tails."""

    name = "Simulated"
    requirements = ["pip::counterpoise"]
    parameters = {"n_stocks": [400], "seed": [0]}
    test_parameters = {"n_stocks": [30]}

    def get_data(self) -> dict[str, Any]:
        """Return percent returns of stocks and index."""
        market = simulate_market(n_stocks=self.n_stocks, seed=self.seed)
        return {"A": market.returns, "y": market.index}
