"""Processes that examine problems, watched: one that is stuck or dies is a finding, and is replaced."""

from __future__ import annotations

import collections
import multiprocessing as mp
import sys
import time
from multiprocessing.connection import wait

# Seconds without an answer after which a worker is given up: the first use of a kernel compiles it.
STUCK = 300.0
# Seconds that waiting for one second may take; if it takes longer, somebody has stopped the processes for a while.
PAUSED = 30.0
SHOWN = 5
# Problems between two lines of progress.
PROGRESS = 1000
# Parts, and how many of their problems belong to one small problem.
PARTS = {"small": 1.0, "medium": 0.04, "words": 0.001, "estimators": 0.01}


def part_of(name):
    """Return the function ``examine(seed, index)`` of a part; imported late, because that is where time goes."""
    if name == "small":
        from fuzz.small import examine
    elif name == "medium":
        from fuzz.medium import examine
    elif name == "words":
        from fuzz.words import examine
    else:
        from fuzz.estimators import examine
    return examine


def examine(part, seed, index, plain=False, rich=True):
    """Examine one problem of a part."""
    one = part_of(part)
    return one(seed, index, plain, rich) if part in ("small", "medium") else one(seed, index)


def work(part, seed, plain, pipe):
    """Examine the problems that come, and report each."""
    while True:
        index = pipe.recv()
        one = examine(part, seed, index, plain)
        pipe.send((one.counts, one.findings, one.refusals))


class Worker:
    """A process, the problem it is at, and since when."""

    def __init__(self, *task):
        context = mp.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=work, args=(*task, other), daemon=True)
        self.process.start()
        other.close()
        self.index = self.since = None

    def examine(self, index):
        self.index, self.since = index, time.monotonic()
        self.pipe.send(index)

    def end(self):
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Tally:
    """Counts of problems, checks, findings and refusals."""

    def __init__(self):
        self.made, self.failed, self.refused = collections.Counter(), collections.Counter(), collections.Counter()
        self.examples, self.problems = {}, collections.Counter()

    def add(self, part, index, counts, findings, refusals):
        self.problems[part] += 1
        if self.problems[part] % PROGRESS == 0:
            print(f"{part}: {self.problems[part]} problems", file=sys.stderr, flush=True)
        self.made.update({(part, check): count for check, count in counts.items()})
        self.refused.update(refusals)
        for check, run, detail in findings:
            # At once, so that a run that is stopped has told what it found.
            print(f"{part}, index {index}: {check}, {run}: {detail}", file=sys.stderr, flush=True)
            self.failed[part, check] += 1
            self.examples.setdefault((part, check), []).append((index, run, detail))

    def show(self, seed, plain=False, refusals=False):
        print(f"\n{'part':<12}{'check':<28}{'made':>10}{'findings':>10}")
        for key in sorted(self.made | self.failed):
            print(f"{key[0]:<12}{key[1]:<28}{self.made[key]:>10}{self.failed[key]:>10}")
        for (part, check), found in sorted(self.examples.items()):
            again = f"fuzz.replay({part!r}, {seed}, index{', plain=True' if plain else ''})"
            print(f"\n{check} ({part}), {len(found)} findings; {again} runs one again:")
            for index, run, detail in sorted(found, key=lambda one: len(one[2]))[:SHOWN]:
                print(f"  index {index}, {run}: {detail}")
        if refusals:
            print("\nrefused:")
            for text, count in self.refused.most_common(60):
                print(f"{count:>8}  {text}")


def run(part, count, seed, seconds, processes, tally, plain=False):
    """Examine problems 0 … count − 1 of one part, or as many as the seconds allow."""
    end, task = time.monotonic() + seconds, (part, seed, plain)
    indices = iter(range(count))
    workers = [Worker(*task) for _ in range(processes)]

    def hand(worker):
        index = next(indices, None) if time.monotonic() < end else None
        if index is not None:
            worker.examine(index)
        else:
            worker.index = None

    for worker in workers:
        hand(worker)
    while any(worker.index is not None for worker in workers):
        busy = {worker.pipe: worker for worker in workers if worker.index is not None}
        asked = time.monotonic()
        ready = wait(list(busy), timeout=1.0)
        away = time.monotonic() - asked
        if away > PAUSED:  # this process was stopped, and the others with it
            for worker in busy.values():
                worker.since += away
        for pipe in ready:
            worker = busy[pipe]
            try:
                tally.add(part, worker.index, *pipe.recv())
            except (EOFError, OSError):
                tally.add(part, worker.index, {}, [("worker died", "process", "the process ended")], {})
                workers[workers.index(worker)] = worker = _replaced(worker, task)
            hand(worker)
        for place, worker in enumerate(workers):
            if worker.index is not None and time.monotonic() - worker.since > STUCK:
                tally.add(part, worker.index, {}, [("endless", "process", f"no answer for {STUCK:g} s")], {})
                workers[place] = _replaced(worker, task)
                hand(workers[place])
    for worker in workers:
        worker.end()


def _replaced(worker, task):
    worker.end()
    return Worker(*task)
