"""What breaks around a command: damaged caches, Ctrl-C at any moment, full disks, folders that cannot be written."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numba
import numpy as np
import pytest
from typer.testing import CliRunner

import counterpoise
from counterpoise import output
from counterpoise.cli import app
from counterpoise.cli.base import OneSentence
from counterpoise.kernels.dispatch import entry_point

pd = pytest.importorskip("pandas")
PACKAGE = Path(counterpoise.__file__).parent


# The cache of kernels.


def twice(x):
    return 2.0 * x


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder with the cache of one small kernel, compiled for two signatures."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    kernel = entry_point(twice)
    assert (kernel(3.0), kernel(3)) == (6.0, 6.0)
    assert hits(entry_point(twice)) == 2
    return tmp_path


def hits(kernel):
    assert (kernel(3.0), kernel(4)) == (6.0, 8.0)
    return sum(kernel.stats.cache_hits.values())


def files(folder, suffix):
    return sorted(folder.rglob(f"*.{suffix}"))


@pytest.mark.compiled
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", ["empty", "half", "garbled", "text", "other version"])
def test_a_damaged_cache_is_compiled_again(cache, suffix, damage):
    for file in files(cache, suffix):
        content = file.read_bytes()
        middle = len(content) // 2
        file.write_bytes(
            {
                "empty": b"",
                "half": content[:middle],
                "garbled": content[:middle]
                + bytes(byte ^ 0xFF for byte in content[middle : middle + 64])
                + content[middle + 64 :],
                "text": b"<html>404 not found</html>",
                "other version": b"\x80\x04\x95\x09\x00\x00\x00\x00\x00\x00\x00\x8c\x050.1.0\x94." + content[20:],
            }[damage]
        )
    assert hits(entry_point(twice)) == 0
    assert hits(entry_point(twice)) == 2


@pytest.mark.compiled
def test_a_data_file_of_another_signature_is_not_run(cache):
    """Two processes that compile at once may write to the same name."""
    first, second = files(cache, "nbc")
    first_content, second_content = first.read_bytes(), second.read_bytes()
    first.write_bytes(second_content)
    second.write_bytes(first_content)
    assert hits(entry_point(twice)) == 0
    assert hits(entry_point(twice)) == 2


@pytest.mark.compiled
def test_a_full_disk_costs_the_cache_and_not_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    with small_files(100):
        assert hits(entry_point(twice)) == 0
    assert hits(entry_point(twice)) == 0
    assert not list(tmp_path.rglob("*.tmp.*"))
    assert hits(entry_point(twice)) == 2


TOGETHER = """
from counterpoise.kernels.dispatch import entry_point
import numpy as np, shared
for kind in (np.float64, np.int64, np.float32, np.int32, np.complex128, np.uint8):
    assert shared.total(np.ones(5, kind)) == 5
print("right")
"""


@pytest.mark.slow
@pytest.mark.compiled
def test_two_processes_compile_at_once(tmp_path):
    (tmp_path / "shared.py").write_text(
        "from counterpoise.kernels.dispatch import entry_point\n@entry_point\ndef total(x):\n    return x.sum()\n"
    )
    places = os.pathsep.join([str(tmp_path), str(PACKAGE.parent)])
    environment = {**os.environ, "PYTHONPATH": places, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for _ in range(2):  # the second time from what the first left
        both = [
            subprocess.Popen([sys.executable, "-c", TOGETHER], env=environment, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        assert [process.communicate(timeout=300)[0] for process in both] == ["right\n"] * 2


NOWHERE = """
import counterpoise as cp
from counterpoise.kernels import sweep
print(type(sweep.epoch._cache).__name__)
"""


@pytest.mark.slow
@pytest.mark.compiled
def test_no_home_and_no_place_for_a_cache(tmp_path):
    """A package that cannot be written, and a home that does not exist."""
    copy = tmp_path / "src" / "counterpoise"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "kernels" / "__pycache__").write_text("a file where a folder would be")
    dropped = ("HOME", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment |= {"PYTHONPATH": str(copy.parent), "HOME": "/proc/nobody"}
    code = NOWHERE + "from counterpoise.cli import app\napp(['data', '--quiet'])"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "NullCache\n"), done.stderr


# Files.


class small_files:
    """No file may grow beyond so many bytes: a full disk, as far as a program can see."""

    def __init__(self, most):
        self.most = most

    def __enter__(self):
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.most, self.before[1]))

    def __exit__(self, *_):
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)
        signal.signal(signal.SIGXFSZ, self.handler)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Small files for every command, in the folder where it runs."""
    rng = np.random.default_rng(0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COUNTERPOISE_DATA", raising=False)
    steps = 1.0 + 0.01 * rng.standard_normal((31, 5))
    prices = pd.DataFrame(100.0 * np.cumprod(steps, axis=0), pd.bdate_range("2024-01-02", periods=31), list("ABCDE"))
    prices.assign(SPX=prices.mean(axis=1)).rename_axis("date").to_csv("prices.csv")
    pd.DataFrame(rng.standard_normal((20, 4)), columns=list("abcd")).to_csv("units.csv", index=False)
    A = rng.standard_normal((6, 8))
    np.savez("data.npz", A=A, y=A @ np.full(8, 0.125))
    np.savez("x.npz", x=np.full(8, 0.125))
    Path("mine.toml").write_text(
        'title = "Mine"\nkind = "curves"\nmeasure = "quality"\nalong = "s"\nstarts = [0, 1]\nmethods = ["BCD-g", "PDCA"]\n'
        '[[grids]]\nproblem = "SIT"\nsets = ["MINE"]\ns = [2, 3]\nlam = [1.0]\n'
    )
    return tmp_path


ADD = "data add prices.csv --index SPX --name MINE --into sets"
# Each command, and the files that it writes: all of them whole, or none at all.
COMMANDS = {
    "demo": ("demo --stocks 20 --days 30 --hold 4", ()),
    "track": ("track prices.csv --index SPX --assets 2 --seconds 0.05 --output out", ("weights.csv", "report.html")),
    "pca": ("pca units.csv --components 1 --nonzero 2 --seconds 0.05 --output out", ("loadings.csv", "report.html")),
    "split": ("split units.csv --treated 10 --seconds 0.05 --output out", ("labels.csv", "report.html")),
    "solve": ("solve data.npz --problem sit -s 3 --lam 10 --method bcd-g --method pdca --save out/found.npz", ("found.npz",)),
    "certify": ("certify data.npz --problem sit -s 3 --lam 10 --point x.npz", ()),
    "bench": ("bench --size 60 --starts 1 --seconds 0.02", ()),
    "data": ("data --data sets", ()),
    "prepare": ("data prepare randn-a --into out", ("blocks/randn-a.npz",)),
    "add": ("data add prices.csv --index SPX --name OTHER --into out", ("index_tracking/OTHER.npz",)),
    "reproduce": ("reproduce mine.toml --data sets --output out --jobs 1", ()),
}  # fmt: skip


def run(line):
    return CliRunner().invoke(app, line.split())


def clean(folder):
    """Empty the folder of output."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "out").mkdir()


def left(folder):
    """Files in the folder of output, and those hidden ones that should not be anywhere."""
    found = [path.relative_to(folder / "out").as_posix() for path in (folder / "out").rglob("*") if path.is_file()]
    assert not [path for path in folder.rglob(".*") if path.is_file()]
    return sorted(found)


@pytest.mark.parametrize("command", ["track", "pca", "split", "solve", "prepare", "add", "reproduce"])
@pytest.mark.compiled
def test_a_full_disk_is_one_sentence_and_leaves_nothing(folder, command):
    line, _ = COMMANDS[command]
    assert run(ADD).exit_code == 0
    Path("out").mkdir()
    assert run(line).exit_code == 0  # compiles
    clean(folder)
    with small_files(200):
        found = run(line)
    assert found.exit_code == 1 or command == "reproduce", found.output
    assert found.stderr.count("\n") == 1 and "Errno" not in found.stderr, found.stderr
    assert [name for name in left(folder) if not name.startswith("records")] == []


@pytest.mark.parametrize("command", ["track", "pca", "split", "solve", "prepare", "add", "reproduce"])
def test_a_folder_that_cannot_be_written_is_one_sentence(folder, command):
    line = COMMANDS[command][0].replace(" out", " /proc/out")
    assert run(ADD).exit_code == 0
    found = run(line)
    assert found.exit_code in (1, 2) and found.stdout == ""
    assert found.stderr.count("\n") == 1 and "cannot be written" in found.stderr, found.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_an_output_that_is_full_is_one_sentence():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "counterpoise", "data"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
        )
    assert (done.returncode, done.stderr) == (1, "The output cannot be read or written: No space left on device.\n")


def test_files_written_together_appear_together(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("before")
    replace = Path.replace

    def interrupted(path, target):
        signal.raise_signal(signal.SIGINT)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        output.write_texts(tmp_path, {"a": "after", "b": "after"})
    assert [path.read_text() for path in sorted(tmp_path.iterdir())] == ["after", "after"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# Ctrl-C.


class Presser:
    """Press Ctrl-C after the k-th call of a Python function, from another thread as a terminal would.

    Compiled functions call the profiler too, and crash if it raises or removes itself.
    """

    def __init__(self, at=None):
        self.at, self.calls = at, 0
        self.now, self.pressed = threading.Event(), False

    def __call__(self, frame, event, argument):
        if event == "call":
            self.calls += 1
            if self.calls == self.at:
                self.now.set()

    def press(self):
        self.now.wait()
        if not self.ended:
            os.kill(os.getpid(), signal.SIGINT)
            self.pressed = True

    def run(self, line):
        """Run a command; only what the command itself does is counted, and not what the test's runner does."""
        main = OneSentence.main

        def counted(group, *arguments, **options):
            if not options.get("standalone_mode", True):
                return main(group, *arguments, **options)
            thread = threading.Thread(target=self.press)
            thread.start()
            sys.setprofile(self)
            try:
                return main(group, *arguments, **options)
            finally:
                sys.setprofile(None)
                self.ended = True
                self.now.set()
                try:
                    thread.join()
                except KeyboardInterrupt:  # it came after the command's end
                    thread.join()
                    self.pressed = False
                signal.signal(signal.SIGINT, signal.default_int_handler)

        self.ended = False
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(OneSentence, "main", counted)
            return run(line)


@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "command",
    [pytest.param(name, marks=pytest.mark.slow) if name in ("bench", "reproduce") else name for name in COMMANDS],
)
def test_ctrl_c_at_random_moments(folder, command, rng):
    line, written = COMMANDS[command]
    assert run(ADD).exit_code == 0
    clean(folder)
    assert run(line).exit_code == 0  # compiles and imports
    clean(folder)
    whole = Presser()
    assert whole.run(line).exit_code == 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    for at in rng.integers(2, whole.calls, MOMENTS):
        clean(folder)
        presser = Presser(int(at))
        found = presser.run(line)
        if not presser.pressed:  # the run was shorter this time, by its clock
            continue
        assert found.exit_code == 130, f"call {at} of {whole.calls}: {found.output}"
        assert "Traceback" not in found.output
        names = left(folder)
        if command != "reproduce":
            assert names in ([], sorted(written)), f"call {at} of {whole.calls}"


# More of them: FAULT_MOMENTS=200 pytest tests/test_faults.py -k moments
MOMENTS = int(os.environ.get("FAULT_MOMENTS", "8"))
LONG = """
import sys
from counterpoise.cli import app
print("ready", flush=True)
app(sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.compiled
def test_ctrl_c_in_a_process_keeps_the_best_point(folder):
    line = "solve data.npz --problem sit -s 3 --lam 10 --method search --max-time 60 --save found.npz --json"
    process = subprocess.Popen(
        [sys.executable, "-c", LONG, *line.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(4.0)
    process.send_signal(signal.SIGINT)
    said, wrong = process.communicate(timeout=60)
    assert process.returncode == 130, wrong
    if said:  # the run itself was stopped, and not what comes before it
        with np.load("found.npz") as found:
            assert abs(found["search"].sum() - 1.0) < 1e-9
    else:
        assert wrong == "Stopped before the end.\n" and not Path("found.npz").exists()


@pytest.mark.slow
@pytest.mark.compiled
def test_a_worker_that_dies_is_one_sentence_and_its_command_goes_on(folder):
    psutil = pytest.importorskip("psutil")
    assert run(ADD).exit_code == 0
    Path("mine.toml").write_text(Path("mine.toml").read_text().replace("[0, 1]", str(list(range(30)))))
    command = [sys.executable, "-m", "counterpoise", *COMMANDS["reproduce"][0].split()[:-1], "2"]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    store, deadline = Path("out/records.sqlite"), time.monotonic() + 300.0
    while (not store.exists() or store.stat().st_size < 30_000) and time.monotonic() < deadline:
        assert process.poll() is None, "it was to be met at work"
        time.sleep(0.01)
    workers = [each for each in psutil.Process(process.pid).children() if "loky" in " ".join(each.cmdline())]
    max(workers, key=lambda each: each.memory_info().rss).kill()
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1 and said.startswith("A worker died") and said.count("\n") == 1, said
