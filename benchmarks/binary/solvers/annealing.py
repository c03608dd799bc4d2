"""Simulated annealing on spins."""

from typing import Any

from benchmark_utils.qubo import best_repaired, spin_model
from benchmark_utils.runs import OneShotSolver
from dwave.samplers import SimulatedAnnealingSampler


class Solver(OneShotSolver):
    """Simulated annealing of dwave-samplers, with a quadratic penalty for the sum, repaired greedily afterwards."""

    name = "annealing"
    requirements = ["pip::dwave-samplers"]
    parameters = {"sweeps": [1000], "reads": [20], "penalty": [0.05]}
    test_config = {"sweeps": 100}

    def solve(self, seed: int, A: Any, y: Any, c: int, lam: float) -> Any:
        """Return x."""
        model = spin_model(A, y, c, self.penalty)
        samples = SimulatedAnnealingSampler().sample(
            model, num_reads=self.reads, num_sweeps=self.sweeps, seed=seed % 2**31
        )
        return best_repaired(A, y, c, samples)
