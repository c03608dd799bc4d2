"""Mixed solves in many threads for an hour: ``python -m fuzz.soak --seconds 3600``, with tests/ on the path.

Every answer must be the serial one, bit for bit, and the memory of the process must not grow.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
import warnings

import numpy as np

import counterpoise as cp
from counterpoise.datasets import simulate_market
from counterpoise.problems import DCPB1, DCPB2, NNSPCA, SIT

GROWTH, WARM_SHARE, WARM_LEAST = 0.05, 0.1, 10.0


def solves(seed):
    """Return names and functions without arguments, each with one answer: an array."""
    rng = np.random.default_rng(seed)
    A, y = rng.standard_normal((30, 60)), rng.standard_normal(30)
    R = 0.01 * rng.standard_normal((80, 25))
    index = R @ rng.dirichlet(np.ones(25))
    X = np.abs(rng.standard_normal((40, 30)))
    units = rng.standard_normal((24, 3))
    problems = {
        "SIT": SIT(A, y, 8, 50.0),
        "NNSPCA": NNSPCA(A, 6, 500.0),
        "DCPB1": DCPB1(A, y, 0, 30.0),
        "DCPB2": DCPB2(A, y, 2, 300.0),
        "QP": cp.Problem(cp.LeastSquares(A, y), cp.Bounds(0, 0.2), u=cp.Sum(1)),
    }
    made = {}
    for name, problem in problems.items():
        made[f"{name} bcd-g"] = lambda problem=problem: cp.minimize(problem, seed=1).x
        made[f"{name} bcd-l"] = lambda problem=problem: cp.minimize(problem, method="bcd-l", k=6, seed=1).x
        made[f"{name} certify"] = lambda problem=problem: np.array([cp.certify(problem, problem.start(3)).cws_gap])
        if name != "QP":
            made[f"{name} swap"] = lambda problem=problem: cp.minimize(problem, method="swap", seed=1).x
            made[f"{name} search"] = lambda problem=problem: cp.minimize(problem, method="search", work=8, seed=1).x
    for method in ("search", "swap", "bcd-g"):
        made[f"IndexTracker {method}"] = lambda method=method: (
            cp.IndexTracker(
                6,
                max_weight=0.4,
                min_weight=0.02,
                method=method,
                work=4 if method == "search" else None,
                random_state=0,
            )
            .fit(R, index)
            .coef_
        )
    made["NonnegativeSparsePCA"] = lambda: (
        cp.NonnegativeSparsePCA(n_components=2, n_nonzero=6, random_state=0).fit(X).components_
    )
    made["BinaryLeastSquares"] = lambda: cp.BinaryLeastSquares(total=0, random_state=0).fit(A, y).coef_
    made["balanced_split"] = lambda: np.asarray(
        cp.balanced_split(units, 12, n_draws=10, random_state=0).draws, dtype=float
    )
    made["backtest"] = lambda: np.asarray(
        cp.backtest(cp.IndexTracker(5, method="bcd-g", random_state=0), R, index, window=40, step=20).portfolio
    )
    return made


def resident():
    """Return the resident memory of this process in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Soak:
    """Threads that solve at random, and a note of what differs."""

    def __init__(self, seed, threads, seconds):
        self.solves, self.until = solves(seed), time.monotonic() + seconds
        self.names, self.wrong, self.done = list(self.solves), [], 0
        self.lock, self.threads, self.seconds, self.seed = threading.Lock(), threads, seconds, seed
        self.memory = []

    def run(self):
        print("serial answers (the first call of each compiles)", flush=True)
        self.answers = {name: np.array(solve()) for name, solve in self.solves.items()}
        self.until = time.monotonic() + self.seconds
        workers = [threading.Thread(target=self.work, args=(k,), daemon=True) for k in range(self.threads)]
        begun = time.monotonic()
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            time.sleep(1.0)
            self.memory.append((time.monotonic() - begun, resident()))
        return self

    def work(self, number):
        rng = np.random.default_rng([self.seed, number])
        while time.monotonic() < self.until:
            name = self.names[int(rng.integers(len(self.names)))]
            try:
                answer = np.array(self.solves[name]())
                good = np.array_equal(answer, self.answers[name])
                said = (
                    ""
                    if good
                    else f"differs by {np.abs(answer - self.answers[name]).max() if answer.shape == self.answers[name].shape else answer.shape}"
                )
            except Exception as error:
                good, said = False, f"{type(error).__name__}: {error}"
            with self.lock:
                self.done += 1
                if not good:
                    self.wrong.append((name, said))

    def growth(self):
        """Return the memory after the warm-up, at the end, and the growth between them: medians of a tenth each."""
        times, sizes = np.array(self.memory).T
        warm = max(WARM_SHARE * times[-1], min(WARM_LEAST, 0.3 * times[-1]))
        first = np.median(sizes[(times >= warm) & (times <= warm + max(0.1 * times[-1], 2.0))])
        last = np.median(sizes[times >= 0.9 * times[-1]])
        return float(first), float(last), float(last / first - 1.0)


def speed(names, repeats=3):
    """Return how many times as fast a search for so many names of 480 is with two workers as with one, and its seconds."""
    market = simulate_market(n_days=252, n_stocks=480, seed=0)
    f, seconds = cp.LeastSquares(market.returns, market.index), {}
    problem = cp.Problem(f, cp.Bounds(0, 1), cp.AtMost(names), cp.Sum(1))
    cp.minimize(problem, method="search", work=4, n_jobs=2)
    for _ in range(repeats):
        for jobs in (1, 2):
            begun = time.perf_counter()
            cp.minimize(problem, method="search", work=48, n_jobs=jobs)
            seconds[jobs] = min(seconds.get(jobs, np.inf), time.perf_counter() - begun)
    return seconds[1] / seconds[2], seconds[1]


def main():
    parser = argparse.ArgumentParser(prog="fuzz.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    soak = Soak(options.seed, options.threads, options.seconds).run()
    first, last, growth = soak.growth()
    print(
        f"{soak.done} solves of {len(soak.names)} kinds in {options.threads} threads, {options.seconds:g} s: {len(soak.wrong)} differ from the serial answer"
    )
    for name, said in soak.wrong[:10]:
        print(f"  {name}: {said}")
    print(
        f"memory {first:.0f} MB after the warm-up, {last:.0f} MB at the end: {100 * growth:+.1f} %, at most {100 * GROWTH:.0f} % allowed"
    )
    for names in (20, 60, 100):
        ratio, alone = speed(names)
        print(f"search for {names} names: {alone:.2f} s with one worker, {ratio:.2f} times as fast with two")
    return 1 if soak.wrong or growth > GROWTH else 0


if __name__ == "__main__":
    sys.exit(main())
