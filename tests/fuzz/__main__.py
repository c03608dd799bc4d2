"""Run the machine: ``python -m fuzz --problems 1000 --seed 0 --part small``, with tests/ on the path."""

from __future__ import annotations

import argparse
import collections
import multiprocessing as mp
import sys
import time

# Seconds without a sign of life after which a worker is given up: the first use of a kernel compiles it.
STUCK = 240.0
CHUNK = 16
SHOWN = 5


def part_of(name):
    """Return the function ``examine(seed, index)`` of a part; imported late, so that ``--help`` compiles nothing."""
    if name == "small":
        from fuzz.small import examine
    elif name == "medium":
        from fuzz.medium import examine
    elif name == "words":
        from fuzz.words import examine
    else:
        from fuzz.estimators import examine
    return examine


PARTS = {"small": 1.0, "medium": 0.04, "words": 0.02, "estimators": 0.004}


def work(part, seed, jobs, answers, plain):
    """Examine the problems that come, and report after each."""
    examine = part_of(part)
    while (index := jobs.get()) is not None:
        answers.put(("begin", part, index, None))
        one = examine(seed, index, plain) if part == "small" else examine(seed, index)
        answers.put(("end", part, index, (one.counts, one.findings, one.refusals)))
    answers.put(("bye", part, -1, None))


class Worker:
    """A process, what it is at, and since when."""

    def __init__(self, context, part, seed, jobs, answers, plain):
        self.at, self.since = None, time.monotonic()
        self.process = context.Process(target=work, args=(part, seed, jobs, answers, plain), daemon=True)
        self.process.start()


class Tally:
    """Counts of checks and findings."""

    def __init__(self):
        self.made, self.failed, self.refused = collections.Counter(), collections.Counter(), collections.Counter()
        self.examples, self.problems = {}, collections.Counter()

    def add(self, part, index, counts, findings, refusals):
        self.problems[part] += 1
        self.made.update({(part, check): count for check, count in counts.items()})
        self.refused.update(refusals)
        for check, run, detail in findings:
            self.failed[part, check] += 1
            shown = self.examples.setdefault((part, check), [])
            shown.append((index, run, detail))

    def show(self, seed, refusals):
        print(f"\n{'part':<12}{'check':<28}{'made':>10}{'findings':>10}")
        for key in sorted(self.made | self.failed):
            print(f"{key[0]:<12}{key[1]:<28}{self.made[key]:>10}{self.failed[key]:>10}")
        for (part, check), found in sorted(self.examples.items()):
            print(f"\n{check} ({part}), {len(found)} findings; rebuild one by fuzz.replay({part!r}, {seed}, index):")
            for index, run, detail in sorted(found, key=lambda one: len(one[2]))[:SHOWN]:
                print(f"  index {index}, {run}: {detail}")
        if refusals:
            print("\nrefused:")
            for text, count in self.refused.most_common(60):
                print(f"{count:>8}  {text}")


def run(part, count, seed, seconds, processes, tally, plain):
    """Examine ``count`` problems of one part; a worker that is stuck or dies is a finding, and is replaced."""
    context, end = mp.get_context("spawn"), time.monotonic() + seconds
    jobs, answers = context.Queue(), context.Queue()
    handed, done = 0, 0
    workers = [Worker(context, part, seed, jobs, answers, plain) for _ in range(processes)]
    owner = {}
    while done < count and time.monotonic() < end:
        while handed < count and handed - done < CHUNK * processes:
            jobs.put(handed)
            handed += 1
        try:
            said, _, index, report = answers.get(timeout=1.0)
        except Exception:  # queue.Empty: look after the workers
            said = None
        if said == "begin":
            owner[index] = time.monotonic()
        elif said == "end":
            owner.pop(index, None)
            done += 1
            tally.add(part, index, *report)
        late = [index for index, since in owner.items() if time.monotonic() - since > STUCK]
        dead = [w for w in workers if not w.process.is_alive()]
        if late or dead:
            # It is not known which worker has which problem: all of them start anew, without the problems begun.
            for index in owner:
                kind = "endless" if index in late else "dead worker"
                if late and index not in late:
                    jobs.put(index)
                    continue
                tally.add(
                    part,
                    index,
                    {},
                    [(kind, "process", f"no answer for {STUCK:g} s" if late else "the process ended")],
                    {},
                )
                done += 1
            for worker in workers:
                worker.process.kill()
            owner.clear()
            workers = [Worker(context, part, seed, jobs, answers, plain) for _ in range(processes)]
    for worker in workers:
        worker.process.kill()
    return done


def main():
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--problems", type=int, default=1000, help="of the part small; others in proportion")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for each part")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--part", choices=[*PARTS, "all"], default="all")
    parser.add_argument("--plain", action="store_true", help="only what few kernels serve")
    parser.add_argument("--refusals", action="store_true", help="print what was refused, too")
    options = parser.parse_args()
    tally, clock = Tally(), time.monotonic()
    for part, share in PARTS.items():
        if options.part in (part, "all"):
            count = options.problems if options.part == part else max(1, round(share * options.problems))
            run(part, count, options.seed, options.seconds, options.jobs, tally, options.plain)
    tally.show(options.seed, options.refusals)
    findings = sum(tally.failed.values())
    problems = ", ".join(f"{count} {part}" for part, count in tally.problems.items())
    print(f"\n{problems}: {sum(tally.made.values())} checks, {findings} findings, {time.monotonic() - clock:.0f} s")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
