"""Run the machine: ``python -m fuzz --problems 1000 --seed 0 --part small``, with tests/ on the path."""

from __future__ import annotations

import argparse
import sys
import time

from fuzz.runner import PARTS, Tally, run


def main():
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--problems", type=int, default=1000, help="of the part small; of the others in proportion")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for each part")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--part", choices=[*PARTS, "all"], default="all")
    parser.add_argument("--plain", action="store_true", help="only what few kernels serve")
    parser.add_argument("--refusals", action="store_true", help="print what was refused, too")
    options = parser.parse_args()
    tally, clock = Tally(), time.monotonic()
    try:
        for part, share in PARTS.items():
            if options.part in (part, "all"):
                count = options.problems if options.part == part else max(1, round(share * options.problems))
                run(part, count, options.seed, options.seconds, options.jobs, tally, options.plain)
    except KeyboardInterrupt:
        print("\nstopped; what was examined until then:")
    tally.show(options.seed, options.plain, options.refusals)
    findings = sum(tally.failed.values())
    problems = ", ".join(f"{count} {part}" for part, count in tally.problems.items())
    print(f"\n{problems}: {sum(tally.made.values())} checks, {findings} findings, {time.monotonic() - clock:.0f} s")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
