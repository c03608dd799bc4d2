"""What an installed counterpoise must do, with nothing else installed: run by make wheel-smoke in an empty environment."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np

import counterpoise as cp


def main() -> None:
    """Solve a problem whose answer is known, and run the command."""
    installed = Path(cp.__file__).resolve()
    assert Path(sysconfig.get_paths()["purelib"]).resolve() in installed.parents, f"this is {installed}"
    assert importlib.metadata.version("counterpoise") == cp.__version__
    for absent in ("pandas", "matplotlib", "pytest"):
        assert importlib.util.find_spec(absent) is None, f"{absent} is here, so the environment is not empty"

    # ½‖x − p‖² on the simplex: the least is p + (1 − Σp)/n, as it is positive.
    p = np.array([0.5, 0.2, 0.1, 0.4])
    result = cp.minimize(cp.Problem(cp.Quadratic(np.eye(4), -p), cp.Bounds(0, 1), u=cp.Sum(1)))
    assert result.success and np.allclose(result.x, p - 0.05, atol=1e-6), result
    assert (installed.parent / "py.typed").exists() and (installed.parent / "experiments" / "table-3.toml").exists()

    command = Path(sys.executable).with_name("counterpoise")
    said = subprocess.run([command, "--help"], capture_output=True, text=True, check=True).stdout
    assert all(name in said for name in ("track", "pca", "split", "solve", "certify", "reproduce")), said
    lacking = subprocess.run([command, "pca", __file__], capture_output=True, text=True)
    assert lacking.returncode == 2 and lacking.stderr.count("\n") == 1, lacking.stderr
    print(f"counterpoise {cp.__version__} from its wheel: {result.status.name}, {installed.parent}")


if __name__ == "__main__":
    main()
