"""Tabu search on spins."""

from typing import Any

from benchmark_utils.qubo import best_repaired, spin_model
from benchmark_utils.runs import OneShotSolver
from dwave.samplers import TabuSampler


class Solver(OneShotSolver):
    """Tabu search of dwave-samplers, with a quadratic penalty for the sum, repaired greedily afterwards."""

    name = "tabu"
    requirements = ["pip::dwave-samplers"]
    parameters = {"seconds": [1.0], "reads": [4], "penalty": [0.05]}
    test_config = {"seconds": 0.1}

    def solve(self, seed: int, A: Any, y: Any, c: int, lam: float) -> Any:
        """Return x."""
        model = spin_model(A, y, c, self.penalty)
        samples = TabuSampler().sample(
            model, num_reads=self.reads, timeout=round(1e3 * self.seconds / self.reads), seed=seed % 2**31
        )
        return best_repaired(A, y, c, samples)
