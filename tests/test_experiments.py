"""The plan, the store, the runner and the comparisons behind ``counterpoise reproduce``, on tiny targets."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from counterpoise.cli import app
from counterpoise.experiments import (
    compare,
    figures,
    pages,
    plan,
    runner,
    sets,
    tables,
    theory,
    theory_pages,
)
from counterpoise.experiments.hierarchy import FINDERS, Hierarchy
from counterpoise.experiments.store import Record, Store
from counterpoise.figures.drawing import draw_grid
from counterpoise.solvers.bcd import RULES

TINY = """
title = "A tiny target"
kind = "{kind}"
measure = "{measure}"
along = "lam"
starts = {starts}
methods = ["slow", "PDCA", "BCD-g"]

[own_methods.slow]
setting = "a short psg"
stages = [{{ method = "psg", max_iter = {iterations} }}]

[[grids]]
problem = "SIT"
sets = ["OWN", "NAS-17"]
s = [2]
lam = [1.0, 100.0]

[[grids]]
problem = "DCPB2"
sets = ["small-a"]
c = [0]
lam = [10.0]

[quick]
starts = [0]
lam = [1.0]
"""


@pytest.fixture
def folder(tmp_path, rng):
    """A folder of data with a tracking set of six stocks and a block of eight columns."""
    place = tmp_path / "data"
    returns = rng.normal(0.0, 0.01, (12, 6))
    sets.add_prices("OWN", [f"day {k}" for k in range(12)], list("ABCDEF"), returns, returns @ np.full(6, 1 / 6), place)
    (place / "blocks").mkdir()
    np.savez(place / "blocks" / "small-a.npz", A=rng.standard_normal((8, 8)), seed=3)
    return place


@pytest.fixture
def tiny(tmp_path):
    def write(kind="table", measure="quality", starts=(0, 1), iterations=30):
        path = tmp_path / "tiny.toml"
        path.write_text(
            TINY.format(kind=kind, measure=measure, starts=list(starts), iterations=iterations), encoding="utf-8"
        )
        return path

    return write


def all_tasks(path, folder, quick=False):
    target = plan.read_target(str(path), quick)
    here, absent = plan.present(target, folder)
    return target, list(plan.tasks(target, here, folder)), absent


def objectives(store):
    found = store.connection.execute("SELECT problem, dataset, lam, method, start, objective, cws_gap FROM records")
    return sorted(found.fetchall())


# The plan


@pytest.mark.parametrize("name", [name for name in plan.TARGETS if name not in plan.MEASURED])
@pytest.mark.parametrize("quick", [False, True])
def test_every_target_reads_and_names_known_methods(name, quick):
    target = plan.read_target(name, quick)
    assert target.name == name and target.title
    if name != "table-1":
        assert len(target.starts) == 10 or quick
        assert {"BCD-g"} <= {method.name for method in target.methods}


def test_the_targets_have_the_papers_grids():
    by_name = {name: plan.read_target(name) for name in plan.TARGETS if name not in plan.MEASURED}
    assert [g.problem for g in by_name["table-3"].grids] == ["SIT", "NNSPCA", "DCPB2"]
    assert all(g.lams == (1.0, 10.0, 100.0, 1e3, 1e4) and g.values == (30,) for g in by_name["table-3"].grids)
    assert all(len(g.sets) == 10 for name in ("table-3", "fig-s", "fig-c", "fig-time") for g in by_name[name].grids)
    assert by_name["fig-s"].grids[0].values == tuple(range(5, 65, 5))
    assert by_name["fig-c"].grids[1].values == tuple(range(10, 110, 10))
    assert {g.problem for g in by_name["fig-hybrid"].grids} == {"SIT", "NNSPCA", "DCPB1", "DCPB2"}
    blocks = [m for m in by_name["table-2"].methods if m.name.startswith("BCD-l")]
    assert [m.stages[0]["k"] for m in blocks if not m.name.endswith("*")] == [2, 3, 5, 10, 15, 20, 50]
    assert all(m.stages[0]["subproblem"] == "states" for m in blocks if not m.name.endswith("*"))
    rules = {m.stages[0].get("working_set") for m in by_name["fig-rules"].methods}
    assert rules == {None, *RULES}
    starred = [m for m in by_name["table-3"].methods if m.name.endswith("*")]
    assert len(starred) == 3 and all(m.stages[0]["ties"] == "all" for m in starred)


def test_absent_sets_are_named_and_left_out(tiny, folder):
    _, tasks, absent = all_tasks(tiny(), folder)
    assert list(absent) == ["NAS-17"] and "NAS-17 is absent" in absent["NAS-17"]
    assert {task.dataset for task in tasks} == {"OWN", "small-a"}
    assert len(tasks) == 2 * 3 * (2 + 1)


def test_quick_is_a_part_of_the_whole(tiny, folder):
    code = "x"
    _, whole, _ = all_tasks(tiny(), folder)
    _, part, _ = all_tasks(tiny(), folder, quick=True)
    assert {t.key(code) for t in part} < {t.key(code) for t in whole}


def test_a_key_tells_settings_data_and_code_apart(tiny, folder):
    _, (task, *_), _ = all_tasks(tiny(), folder)
    method = dataclasses.replace(task.method, stages=({"method": "psg", "max_iter": 31},))
    others = [
        dataclasses.replace(task, digest="0"),
        dataclasses.replace(task, start=9),
        dataclasses.replace(task, lam=2.0),
        dataclasses.replace(task, measure="timing"),
        dataclasses.replace(task, method=method),
    ]
    keys = {task.key("1"), task.key("2"), *(other.key("1") for other in others)}
    assert len(keys) == 7
    words = dataclasses.replace(task.method, setting="other words")
    assert dataclasses.replace(task, method=words).key("1") == task.key("1")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("BCD-g", "BCD-x"), "it must be one of PSG"),
        (("SIT", "SET"), "it must be one of SIT, NNSPCA, DCPB1, DCPB2"),
        (('kind = "table"', 'kind = "cake"'), "it must be one of sizes, table, curves, histories"),
        (("lam = [1.0, 100.0]", ""), "has no lam; give a list of values"),
        (("starts = [0, 1]", "starts = []"), "give seeds, whole numbers from 0"),
        (("kind", "= ="), "is not valid TOML"),
        (('"psg"', '"pgs"'), "it must be one of bcd-g"),
    ],
)
def test_a_bad_target_gets_a_sentence(tiny, change, sentence):
    path = tiny()
    path.write_text(path.read_text("utf-8").replace(*change, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=sentence.replace("[", r"\[")):
        plan.read_target(str(path))


# The runner and the store


def test_a_record_is_what_the_library_says(tiny, folder, tmp_path):
    import counterpoise as cp
    from counterpoise.problems import SIT

    _, tasks, _ = all_tasks(tiny(), folder)
    with Store(tmp_path / "s.sqlite") as store:
        runner.run(tasks, folder, store)
        keys = [task.key(runner.code_identity()) for task in tasks]
        records = store.fetch(keys)
    assert len(records) == len(tasks)
    (record,) = [r for r in records if (r.dataset, r.lam, r.method, r.start) == ("OWN", 100.0, "BCD-g", 1)]
    with np.load(folder / "index_tracking" / "OWN.npz") as stored:
        problem = SIT(100.0 * stored["R"], 100.0 * stored["y"], 2, 100.0)
    result = cp.minimize(problem, problem.start(1), seed=1)
    assert record.objective == pytest.approx(problem.objective(result.x), rel=1e-12)
    assert record.status == "CERTIFIED" and record.violation < 1e-9
    assert record.cws_gap <= 1e-8 * max(1.0, record.objective)
    assert json.loads(record.versions)["numpy"] == np.__version__
    assert json.loads(record.machine)["cores"] == os.cpu_count()
    assert record.history[-1, 2] == pytest.approx(record.objective)


def test_other_code_is_never_mixed(tiny, folder, tmp_path):
    _, tasks, _ = all_tasks(tiny(), folder)
    with pytest.raises(RuntimeError, match="install the same"):
        runner.execute(tasks[0], folder, "0.0.1+old")
    with pytest.raises(RuntimeError, match="other numbers"):
        runner.execute(dataclasses.replace(tasks[0], digest="0"), folder, runner.code_identity())
    with Store(tmp_path / "s.sqlite") as store:
        store.add(runner.execute(tasks[0], folder, runner.code_identity()))
        assert not store.fetch([tasks[0].key("0.0.1+old")])


def test_a_failing_method_does_not_lose_the_others(tiny, folder, tmp_path):
    path = tiny()
    text = path.read_text("utf-8").replace('"psg", max_iter = 30', '"bcd-l", k = 50')
    path.write_text(text, encoding="utf-8")
    _, tasks, _ = all_tasks(path, folder)
    failed = []
    with Store(tmp_path / "s.sqlite") as store:
        runner.run(tasks, folder, store, failed=lambda task, error: failed.append((task.method.name, str(error))))
        assert {method for _, _, _, method, *_ in objectives(store)} == {"PDCA", "BCD-g"}
    assert {name for name, _ in failed} == {"slow"} and "k is 50" in failed[0][1]


@pytest.mark.parametrize("backend", ["loky", "threading", pytest.param("dask", marks=pytest.mark.slow)])
def test_backends_agree_with_one_process(tiny, folder, tmp_path, backend):
    if backend == "dask":
        pytest.importorskip("distributed", reason="distributed is not installed")
    _, tasks, _ = all_tasks(tiny(), folder)
    with Store(tmp_path / "serial.sqlite") as serial, Store(tmp_path / "parallel.sqlite") as parallel:
        runner.run(tasks, folder, serial)
        runner.run(tasks, folder, parallel, jobs=2, backend=backend)
        assert objectives(serial) == objectives(parallel)
        assert len(objectives(serial)) == len(tasks)


@pytest.mark.slow
def test_a_cluster_starts_beside_another_one_and_listens_on_this_machine_alone():
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with contextlib.ExitStack() as stack:
        usual = stack.enter_context(socket.socket())
        with contextlib.suppress(OSError):  # then another process holds it, which serves as well
            usual.bind(("127.0.0.1", 8787))
            usual.listen()
        stack.enter_context(runner.workers("dask", None, 1))
        # A warning that the port is taken would be an error here, as all warnings are.
        scheduler = distributed.default_client().cluster.scheduler
        assert scheduler.http_server.address == "127.0.0.1"
        assert scheduler.address.startswith("tcp://127.0.0.1:")


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_with_the_same_records(tiny, folder, tmp_path):
    path, output = tiny(starts=range(8), iterations=400), tmp_path / "out"
    command = [sys.executable, "-m", "counterpoise", "reproduce", str(path), "--data", str(folder), "--jobs", "1"]
    _, tasks, _ = all_tasks(path, folder)
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    first = subprocess.Popen([*command, "--output", str(output)], env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 600.0
    while count(output / "records.sqlite") < 5 and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = count(output / "records.sqlite")
    assert 5 <= kept < len(tasks), "the command was to be killed in its midst"
    for place in (output, tmp_path / "whole"):
        done = subprocess.run([*command, "--output", str(place)], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        if place == output:
            assert f"{len(tasks) - kept} of {len(tasks)} runs to do" in done.stdout
    with Store(output / "records.sqlite") as resumed, Store(tmp_path / "whole" / "records.sqlite") as whole:
        assert objectives(resumed) == objectives(whole)
        assert len(objectives(whole)) == len(tasks)


def count(path):
    if not path.exists():
        return 0
    connection = sqlite3.connect(path, timeout=10.0)
    try:
        return connection.execute("SELECT count(*) FROM records").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


def test_a_store_that_is_none_gets_a_sentence(tmp_path):
    (tmp_path / "s.sqlite").write_bytes(b"these are not records " * 100)
    with pytest.raises(ValueError, match="is not a store of records"):
        Store(tmp_path / "s.sqlite")
    with sqlite3.connect(tmp_path / "t.sqlite") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ValueError, match="another version"):
        Store(tmp_path / "t.sqlite")


def test_thinned_histories_keep_their_ends_and_their_best(rng):
    history = np.column_stack([np.arange(5000), np.sort(rng.random(5000)), rng.random(5000)])
    kept = runner.thinned(history)
    assert len(kept) <= runner.HISTORY
    assert (kept[[0, -1]] == history[[0, -1]]).all()
    assert kept[:, 2].min() == history[:, 2].min()


# Comparisons


def record(method, start, objective, cell=("SIT", "OWN", 2.0, 1.0), history=None):
    fields = dict.fromkeys((field.name for field in dataclasses.fields(Record)), "")
    path = np.array([[0.0, 0.0, objective + 1.0], [1.0, 1.0, objective]]) if history is None else history
    problem, dataset, value, lam = cell
    numbers = {"violation": 0.0, "cws_gap": 0.0, "critical_residual": 0.0, "nit": 1, "seconds": 1.0}
    return Record(
        **{
            **fields,
            **numbers,
            "key": f"{cell}{method}{start}",
            "problem": problem,
            "dataset": dataset,
            "value": value,
            "lam": lam,
            "method": method,
            "start": start,
            "objective": objective,
            "history": path,
            "machine": '{"processor": "abacus", "cores": 2}',
            "at": "2026-01-01T00:00:00",
            "code": "1",
        }
    )


METHODS = (
    plan.Method("PDCA", ({"method": "pdca"},), False, "paper"),
    plan.Method("BCD-g", ({"method": "bcd-g"},), True, "pairs"),
)


def test_wins_ties_and_losses_are_counted():
    methods = (*METHODS, plan.Method("search", ({"method": "search"},), True, ""))
    values = {1.0: (2.0, 1.0, 0.5), 10.0: (1.0, 1.0 + 0.5e-4, 1.0), 100.0: (1.0, 1.1, 1.1), 1000.0: (-3.0, -2.0, -4.0)}
    records = [
        record(method, 0, value, ("SIT", "OWN", 2.0, lam))
        for lam, row in values.items()
        for method, value in zip(("PDCA", "BCD-g", "search"), row, strict=True)
    ]
    cells = compare.group(records, methods)
    against, among = compare.standings("t", cells, methods)
    # Our own search takes no cell from BCD-g where the opponents are counted.
    assert against.rows == [["BCD-g", 1, 1, 2], ["search", 2, 1, 1]] and "best of PDCA" in against.caption
    assert among.rows == [["BCD-g", 0, 2, 2], ["search", 2, 2, 0]]
    alone = compare.standings("t", compare.group(records, METHODS[1:]), METHODS[1:])
    assert alone == []
    lost = compare.losses("t", cells, METHODS).rows
    assert [row[:2] for row in lost] == [["BCD-g", f"SIT OWN, s = 2, λ = {lam}"] for lam in (100, 1000)]
    assert lost[0][2:6] == [1.1, 1.0, "PDCA", "10.00%"]
    assert [row[0] for row in compare.losses("t", cells, methods).rows] == ["BCD-g", "BCD-g", "search"]


def test_ratios_above_one_mean_that_the_lead_is_better():
    records = [record("PDCA", k, 4.0 * 2**k) for k in range(2)] + [record("BCD-g", k, 2.0) for k in range(2)]
    negative = ("NNSPCA", "X", 2.0, 1.0)
    records += [record("PDCA", k, -1.0, negative) for k in range(2)]
    records += [record("BCD-g", k, -3.0, negative) for k in range(2)]
    mixed = ("NNSPCA", "Y", 2.0, 1.0)
    records += [record("PDCA", k, -1.0, mixed) for k in range(2)] + [record("BCD-g", k, 1.0, mixed) for k in range(2)]
    first, second = compare.ratios("t", compare.group(records, METHODS), METHODS).rows
    assert first[:2] == ["SIT", "PDCA"] and first[2] == pytest.approx(math.sqrt(8.0))
    # Student's interval of two numbers a, b: mean ± 12.7062 · |a − b|/2.
    half = 12.706204736 * math.log(2.0) / 2.0
    assert first[3:5] == pytest.approx([math.sqrt(8.0) * math.exp(-half), math.sqrt(8.0) * math.exp(half)])
    assert second[2] == pytest.approx(3.0) and second[5:] == [1, 1]


def test_only_starts_that_all_methods_have_count():
    records = [record("PDCA", 0, 1.0), record("PDCA", 1, 9.0), record("BCD-g", 0, 2.0)]
    (cell,) = compare.group(records, METHODS)
    assert cell.means == {"PDCA": 1.0, "BCD-g": 2.0}
    assert compare.group(records[:2], METHODS) == []


def test_sooner_reads_times_off_the_histories():
    slow = np.array([[0, 0.0, 9.0], [1, 4.0, 5.0], [2, 8.0, 3.0]])
    quick = np.array([[0, 0.0, 9.0], [1, 2.0, 2.5], [2, 3.0, 1.0]])
    records = [record("PDCA", 0, 3.0, history=slow), record("BCD-g", 0, 1.0, history=quick)]
    assert compare.sooner("t", records, METHODS).rows == [["SIT", "PDCA", 1, 1, pytest.approx(4.0)]]


def test_a_band_holds_the_last_value_of_a_run_that_has_ended():
    runs = [np.array([[0, 0.0, 5.0], [1, 1.0, 2.0]]), np.array([[0, 0.0, 5.0], [1, 1.0, 4.0], [2, 10.0, 1.0]])]
    instants, low, middle, high = figures.band(runs)
    assert instants[-1] == pytest.approx(10.0)
    assert (low[-1], middle[-1], high[-1]) == (1.0, 1.5, 2.0)


def test_all_printed_values_are_the_papers(data_folder):
    paper = data_folder.parent / "paper.tex"
    if not paper.exists():
        pytest.skip("the paper is not beside the data")
    text = paper.read_text("utf-8")
    rows = [line.replace(r"\textbr{", "").replace("}", "") for line in text.splitlines() if line.count("&") >= 8]
    ours = compare.printed()
    assert len(ours) == 160 and sum(map(len, ours.values())) == 700
    for name in plan.read_target("table-2").grids[0].sets:
        (line,) = [row for row in rows if row.strip().startswith(f"{name} &") and row.count("&") == 10]
        cells = [float(cell.split("\\")[0]) for cell in line.split("&")[1:]]
        assert list(ours["table-2", "SIT", name, 1e3].values()) == cells
    lines = [row for row in rows if row.strip().startswith("$10^")]
    assert len(lines) == 75
    everything = [[float(cell.split("\\")[0]) for cell in line.split("&")[1:]] for line in lines]
    # Three blocks of five pairs of sets of five λ, in the order of the paper's page.
    order = [(g.problem, g.sets) for g in plan.read_target("table-3").grids]
    for k, values in enumerate(everything):
        problem, names = order[k // 25]
        left = names[k % 25 // 5] if problem == "SIT" else names[2 * (k % 25 // 5)]
        right = names[5 + k % 25 // 5] if problem == "SIT" else names[2 * (k % 25 // 5) + 1]
        lam = 10.0 ** (k % 5)
        assert list(ours["table-3", problem, left, lam].values()) == values[:4]
        assert list(ours["table-3", problem, right, lam].values()) == values[4:]


# Pages


def test_the_same_store_gives_the_same_bytes(tiny, folder, tmp_path):
    path = tiny(kind="curves")
    target, tasks, absent = all_tasks(path, folder)
    code = runner.code_identity()
    with Store(tmp_path / "s.sqlite") as store:
        runner.run(tasks, folder, store)
        keys = [task.key(code) for task in tasks]
        written = []
        for place in ("a", "b"):
            chapter = pages.chapter(target, store.fetch(keys), len(tasks), absent, "counterpoise reproduce tiny.toml")
            pages.write(chapter, tmp_path / place)
            written.append({file.name: file.read_bytes() for file in sorted((tmp_path / place).iterdir())})
    assert written[0] == written[1]
    assert {"tiny.svg", "tiny.png", "tiny.md", "tiny.tex", "index.html", "tiny-losses.csv"} <= set(written[0])


def test_the_table_of_a_fixed_store_is_this_one():
    target = dataclasses.replace(
        plan.read_target("table-3"), methods=METHODS, grids=(plan.Grid("SIT", ("NAS-16",), (30.0,), (1.0, 10.0)),)
    )
    records = []
    for lam, pair in {1.0: (1.5, 1.25), 10.0: (2.0, 2.0)}.items():
        for start in range(2):
            for method, value in zip(("PDCA", "BCD-g"), pair, strict=True):
                records.append(record(method, start, value + start, ("SIT", "NAS-16", 30.0, lam)))
    chapter = pages.chapter(target, records, 8, {"NAS-17": "NAS-17 is absent."}, "counterpoise reproduce table-3")
    text = pages.markdown(chapter)
    assert "8 of 8 runs, made by `counterpoise reproduce table-3` on 2026-01-01" in text
    assert "NAS-17 is absent." in text
    table = """
| set | λ | PDCA | BCD-g | paper: PSG | paper: MSCR | paper: PDCA | paper: BCD-g |
|:--|:--|--:|--:|--:|--:|--:|--:|
| NAS-16 | 1 | 2 | **1.75** | 1.31 | 1.32 | 1.32 | 1.32 |
| NAS-16 | 10 | **2.5** | **2.5** | 2.4 | 2.36 | 2.35 | 1.83 |
"""
    assert table in text


def test_latex_escapes_what_latex_reads():
    table = tables.Table("t", "λ & 5 %", ("a_b", "F"), (("x#", 1.0),), {(0, 1)})
    assert table.latex().splitlines()[4:7] == [r"a\_b & F \\", r"\midrule", r"x\# & \textbf{1} \\"]
    assert r"\caption{$\lambda$ \& 5 \%}" in table.latex()
    assert table.csv() == "a_b,F\nx#,1.0\n"


def test_the_page_gathers_all_targets_and_adds_up_their_counts(tmp_path):
    target = dataclasses.replace(
        plan.read_target("table-3"), methods=METHODS, grids=(plan.Grid("SIT", ("NAS-16",), (30.0,), (1.0, 10.0)),)
    )
    records = [
        dataclasses.replace(record(method, 0, value, ("SIT", "NAS-16", 30.0, lam)), status=status, cws_gap=gap)
        for lam, ours, gap in ((1.0, 1.25, 5e-7), (10.0, 4.0, 0.0))
        for method, value, status in (("PDCA", 1.5, "STATIONARY"), ("BCD-g", ours, "CERTIFIED"))
    ]
    records[-1] = dataclasses.replace(records[-1], status="TIME_LIMIT", cws_gap=1.0)
    for name in ("table-3", "my own & <b>"):
        goal = dataclasses.replace(target, name=name)
        pages.write(pages.chapter(goal, records, 5, {}, f"counterpoise reproduce {name}"), tmp_path)
    page = (tmp_path / "index.html").read_text("utf-8")
    assert page.index('id="target-table-3"') < page.index('id="target-my_20_own')
    assert "my own &amp; &lt;b&gt;: Objective values" in page and "<b>" not in page
    tally = pages.chapter(target, records, 5, {}, "").tally
    assert tally == pages.Tally(4, 5, 2, 1, 0, 1, 2, 1)
    assert tally + tally == pages.Tally(8, 10, 4, 2, 0, 2, 4, 2)
    # What another version wrote, or a killed process, is left out.
    whole = (tmp_path / f"table-3{pages.SECTION}").read_text("utf-8")
    (tmp_path / f"fig-s{pages.SECTION}").write_text(whole[:-100], encoding="utf-8")
    (tmp_path / f"fig-c{pages.SECTION}").write_text(
        whole.replace(f'"layout":{pages.LAYOUT}', '"layout":0'), encoding="utf-8"
    )
    assert pages.write_index(tmp_path).read_text("utf-8") == page
    headlines = {label: (value, note) for label, value, note in _report(tmp_path).headlines}
    assert headlines["targets"] == (f"1 of {len(plan.TARGETS)}", "and 1 of your own")
    assert headlines["runs"] == ("8", "of 10")
    assert headlines["cells that BCD-g loses"] == ("2", "to one of them; all are listed")
    assert headlines["certified"] == ("2", "of 4 runs of BCD-g")
    # The gap is relative to F = 1.25, and rounded up.
    assert (
        "1 of 2 runs of BCD-g ended with a proof: no change of any two coordinates lowers the objective by more" in page
    )
    assert "by more than 4.0e-7 of it. That no other point is better is not proved." in page
    assert "counterpoise reproduce table-3\ncounterpoise reproduce my own" in page
    assert "SIT with s = 30 and λ = 1, 10 on NAS-16; starts 0, 1" in page
    assert not re.search(r"<(img|link|iframe)|src=|url\(|https?://(?!www\.w3\.org/2000/svg)", page)


def _report(output):
    found = [pages._unpacked(file.read_text("utf-8")) for file in sorted(output.glob(f"*{pages.SECTION}"))]
    return pages.report([chapter for chapter in found if chapter is not None])


def test_the_theory_has_a_panel_a_problem(tmp_path):
    gap = np.array([1.0, 0.5, 0.0])
    findings = theory.Findings(
        rates=tuple(
            theory.Rate(name, 4, ratio, gap, 3, True, False, -0.7, 0.0, 0.9, (0, 2))
            for name in ("SIT", "DCPB1")
            for ratio in (0.01, 1.5)
        ),
        constants=(),
        complexities=(theory.Complexity("SIT", 4, 2, 1.0, 1.0, np.array([1, 9]), np.array([1e-3, 1e-5])),),
        decreases=(),
        exactness=(
            theory.Exactness(
                "SIT", 4, 2, 2.0, math.nan, np.array([0.1, 1.5]), np.array([0.0, 1.0]), np.ones(2), (0, 1), (0, 0), None
            ),
        ),
        hierarchy=(
            Hierarchy(
                "SIT", 4, 2, 1, 2, 9, np.array([9, 4, 2, 1]), dict.fromkeys(FINDERS, 4),
                dict.fromkeys(FINDERS, np.array([4, 3, 2, 1])), 0,
            ),
        ),
    )  # fmt: skip
    rate, complexity, exactness, hierarchy = theory_pages.charts(findings)
    assert [panel.label for panel in rate.panels] == ["SIT", "DCPB1"]
    assert list(rate.panels[0].series[0].y) == [1.0, 0.5], "0 has no logarithm"
    assert complexity.panels[0].series[1].y == [findings.complexities[0].needed(e) for e in (1e-2, 1e-3, 1e-4, 1e-5)]
    assert (exactness.panels[0].marks, list(exactness.panels[0].series[0].x)) == ([2.0], [0.2, 3.0])
    assert list(hierarchy.panels[0].series[0].x) == [0.75, 0.5, 0.25]
    chapter = pages.Chapter("theory", "The theory", [], [], {}, theory_pages.charts(findings), command="c")
    pages.write(chapter, tmp_path)
    page = (tmp_path / "index.html").read_text("utf-8")
    assert all(f'id="theory-{name}-chart"' in page for name in ("rate", "complexity", "exactness", "hierarchy"))


def test_certificates_do_not_claim_what_is_not_known():
    records = [record("PDCA", 0, 2.0), record("BCD-g", 0, 2.0)]
    records[0] = dataclasses.replace(records[0], cws_gap=math.nan, violation=0.5, status="ITERATION_LIMIT")
    records[1] = dataclasses.replace(records[1], cws_gap=1e-3, status="TIME_LIMIT", nit=30, seconds=0.5)
    other = dataclasses.replace(records[1], start=1, nit=50, seconds=1.5, status="CERTIFIED", cws_gap=0.0)
    rows = compare.certificates("t", [*records, other], METHODS).rows
    first, second = ([*row] for row in rows)
    assert first[:6] == ["PDCA", 1, 0, 1, None, 0.5]
    assert second == ["BCD-g", 2, 1, 1, 5e-4, 0.0, 40.0, 1.0]
    said = "0 of 1 runs of BCD-g ended with a proof. That no other point is better is not proved."
    assert compare.claims(records) == [said]
    assert compare.claims(records[:1]) == []


def test_charts_show_what_the_figures_draw(tiny, folder, tmp_path):
    target, tasks, _ = all_tasks(tiny(kind="curves"), folder)
    with Store(tmp_path / "s.sqlite") as store:
        runner.run(tasks, folder, store)
        records = store.fetch([task.key(runner.code_identity()) for task in tasks])
    cells = compare.group(records, target.methods)
    first, second = (panel for panel in figures.panels_of(target, cells, {}) if panel.series)
    assert [first.label, second.label] == ["SIT in OWN", "DCPB2 in small-a"]
    drawn = draw_grid(figures.panels_of(target, cells, {}), "line", pages.PER_ROW).axes[2].get_lines()
    for line, series in zip(drawn, second.series, strict=True):
        assert series.name == line.get_label()
        assert list(series.x) == list(line.get_xdata()) and list(series.y) == list(line.get_ydata())
    histories = figures.panels_of(dataclasses.replace(target, kind="histories"), records, {})
    panel = [panel for panel in histories if panel.series][1]
    assert panel.x.kind == panel.y.kind == "log"
    assert len({tuple(series.x) for series in panel.series}) == 1
    finals = {s.name: s.y[-1] for s in panel.series}
    means = {method: np.median(values) for method, values in cells[-1].finals.items()}
    assert min(finals, key=finals.get) == min(means, key=means.get)


@pytest.mark.parametrize("kind", ["curves", "histories"])
def test_figures_have_a_panel_for_every_set_and_say_what_is_absent(tiny, folder, tmp_path, kind):
    target, tasks, absent = all_tasks(tiny(kind=kind, measure="timing"), folder)
    with Store(tmp_path / "s.sqlite") as store:
        runner.run(tasks, folder, store)
        records = store.fetch([task.key(runner.code_identity()) for task in tasks])
    chapter = pages.chapter(target, records, len(tasks), absent, "")
    axes = chapter.figures["tiny"].axes
    assert [ax.get_title() for ax in axes] == ["SIT in OWN", "SIT in NAS-17", "DCPB2 in small-a"]
    assert [text.get_text() for text in axes[1].texts] == ["absent"]
    assert len(axes[0].get_lines()) == 3


# The command


def invoke(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)], env={"COLUMNS": "200"})


def test_the_command_writes_everything_and_says_so(tiny, folder, tmp_path):
    path, output = tiny(), tmp_path / "out"
    shown = invoke(path, "--data", folder, "--output", output, "--jobs", "1")
    assert shown.exit_code == 0, shown.output
    assert "Left out: NAS-17 is absent" in shown.output
    assert "18 of 18 runs to do" in shown.output
    assert "that are lost to another method, by BCD-g" in shown.output
    page = (output / "index.html").read_text("utf-8")
    assert '<h2 id="target-tiny">' in page and "SIT: mean objective over 2 starts, s = 2" in page
    again = invoke(path, "--data", folder, "--output", output)
    assert "All 18 runs are in the records." in again.output
    only = invoke(path, "--data", folder, "--output", tmp_path / "none", "--tables-only")
    assert only.exit_code == 0 and "No records yet" in only.output


def test_own_sets_take_the_place_of_the_papers(tiny, folder, tmp_path):
    shown = invoke(tiny(), "--set", "OWN", "--data", folder, "--output", tmp_path / "out", "--jobs", "1", "--quick")
    assert shown.exit_code == 0, shown.output
    assert "3 of 3 runs to do" in shown.output and "--quick --set OWN" in shown.output


def test_table_1_lists_sizes_beside_the_papers(folder, tmp_path):
    shown = invoke("table-1", "--data", folder, "--output", tmp_path)
    assert shown.exit_code == 0, shown.output
    rows = (tmp_path / "table-1-sizes.csv").read_text("utf-8").splitlines()
    assert rows[1].startswith("NAS-16,,,252,84,absent")
    assert any(row.startswith('randn-b,512,512,512,512,"standard normal, seed') for row in rows)
    assert any(row.startswith("OWN,12,6,,,") for row in rows)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["table-9"], "TARGET is 'table-9'; it must be one of table-1"),
        (["nowhere.toml"], "nowhere.toml does not exist."),
        (["table-3", "--backend", "mpi"], "--backend is 'mpi'; it must be one of loky, threading, dask, ray."),
        (["table-3", "--address", "tcp://x"], "--address is for the backends dask and ray, not for loky."),
        (["table-3", "--jobs", "0"], "--jobs is 0"),
        (["table-3", "--data", "nowhere"], "--data is nowhere, which is not a folder."),
    ],
)
def test_bad_input_gets_a_sentence_and_exit_code_2(arguments, sentence):
    shown = invoke(*arguments)
    assert shown.exit_code == 2
    assert sentence in shown.output and "Traceback" not in shown.output


def test_a_failing_run_is_reported_and_the_rest_is_written(tiny, folder, tmp_path):
    path = tiny()
    path.write_text(path.read_text("utf-8").replace('"psg", max_iter = 30', '"bcd-l", k = 50'), encoding="utf-8")
    shown = invoke(path, "--data", folder, "--output", tmp_path / "out", "--jobs", "1")
    assert shown.exit_code == 1
    assert "slow failed on SIT OWN: k is 50" in shown.output
    assert (tmp_path / "out" / "index.html").exists()


def test_json_and_quiet_and_verbose(tiny, folder, tmp_path):
    path, output = tiny(), tmp_path / "out"
    command = [sys.executable, "-m", "counterpoise", "reproduce", str(path), "--data", str(folder), "--jobs", "1"]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    found = subprocess.run(
        [*command, "--output", str(output), "--json"], env=environment, capture_output=True, text=True
    )
    assert (found.returncode, found.stderr) == (0, "")
    said = json.loads(found.stdout)
    (target,) = said["targets"]
    assert (target["target"], target["runs"], target["wanted"], target["cells"]) == ("tiny", 18, 18, 3)
    assert target["won"] + target["tied"] + target["lost"] == 3
    assert target["certified"] == target["of_lead"] == 6
    assert said["failures"] == [] and said["page"] == str(output / "index.html")
    standings = {row["method"]: row for row in target["tables"]["tiny-standings"]}
    assert standings["BCD-g"]["wins"] == target["won"]
    assert all((output / file).exists() for file in target["files"])
    quiet = invoke(path, "--data", folder, "--output", output, "--jobs", "1", "-q")
    assert (quiet.exit_code, quiet.output) == (0, "")
    told = invoke(path, "--data", folder, "--output", tmp_path / "other", "--jobs", "1", "--quick", "-v")
    assert re.search(r"SIT OWN, s = 2, λ = 1, start 0: BCD-g \S+, certified after \S+ m?s\.", told.output)


def test_a_failing_run_is_in_the_json_too(tiny, folder, tmp_path):
    path = tiny()
    path.write_text(path.read_text("utf-8").replace('"psg", max_iter = 30', '"bcd-l", k = 50'), encoding="utf-8")
    shown = invoke(path, "--data", folder, "--output", tmp_path / "out", "--jobs", "1", "--json")
    assert shown.exit_code == 1
    assert json.loads(shown.stdout)["failures"][0].startswith("slow failed on SIT OWN: k is 50")
    assert shown.stderr.startswith("slow failed on SIT OWN: k is 50")


def test_a_disk_that_fills_up_is_exit_code_1(folder, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pages, "write", full)
    shown = invoke("table-1", "--data", folder, "--output", tmp_path / "out", "--json")
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "No space left on device" in shown.stderr
    assert isinstance(invoke("table-1", "--data", folder, "--output", tmp_path / "out", "--debug").exception, OSError)


def test_without_matplotlib_the_charts_are_in_the_page(tiny, folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    output = tmp_path / "out"
    shown = invoke(tiny(kind="curves"), "--data", folder, "--output", output, "--jobs", "1")
    assert shown.exit_code == 0, shown.output
    assert "matplotlib is not installed, so the charts are in index.html only" in " ".join(shown.output.split())
    assert (output / "index.html").exists() and not list(output.glob("*.svg")) + list(output.glob("*.png"))
    table = invoke("table-1", "--data", folder, "--output", output)
    assert table.exit_code == 0 and "not installed" not in table.output
