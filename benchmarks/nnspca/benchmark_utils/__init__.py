"""What the parts of this benchmark share; ``runs``, ``data`` and ``scoring`` are those beside the first benchmark."""

from pathlib import Path

__path__.append(str(Path(__file__).resolve().parents[2] / "sit" / "benchmark_utils"))
