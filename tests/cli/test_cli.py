import json
import re
import subprocess
import sys

import pytest
from threadpoolctl import threadpool_info
from typer.testing import CliRunner

import benchmarks
import lupi
from benchmarks import _registry, _runner
from benchmarks._registry import Row, Timing, case, cpu_time, load_cases, peer_time
from lupi.cli import app

HEAVY = ("numpy", "scipy", "sklearn", "numba", "pandas", "matplotlib")


@pytest.fixture
def only(monkeypatch):
    """Leave nothing but the cases that the test registers."""
    load_cases()
    monkeypatch.setattr(_registry, "CASES", {})
    return _registry.CASES


@pytest.fixture
def fake(only):
    @case("fake", "A made-up comparison")
    def fake(quick):
        n = 10 if quick else 20
        return [
            Row(
                f"n = {n}", 0.5, peer="Slow QP", peer_seconds=50.0, objective_difference=1e-7, gap=2e-4, target=">= 50x"
            ),
            Row("alone", 2.0, peer="Other QP", note="not installed"),
        ]

    return fake


def invoke(*arguments):
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})


def words(text):
    return re.sub(r"\s+", " ", text)


# ---------------------------------------------------------------- the command


def test_version():
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.stdout.strip() == f"lupi {lupi.__version__}"


@pytest.mark.parametrize("arguments", [["--help"], ["bench", "--help"], ["compare", "--help"], ["reproduce", "--help"]])
def test_help_loads_nothing_heavy(arguments):
    script = (
        f"import sys; sys.argv = ['lupi', *{arguments}]\n"
        "from lupi.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print('HEAVY', [name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert arguments[0].replace("--help", "compare") in done.stdout
    assert "HEAVY []" in done.stdout


def test_bench_prints_a_table(fake):
    result = invoke("bench", "fake")
    assert result.exit_code == 0
    for text in ("A made-up comparison", "n = 20", "500 ms", "50 s", "100x", "1.0e-07", "2.0e-04", ">= 50x"):
        assert text in result.stdout
    alone = next(line for line in result.stdout.splitlines() if "alone" in line)
    assert "not installed" in alone
    assert "Python" in result.stdout
    assert "failed" not in result.stdout


def test_bench_table_leaves_missing_times_open(only):
    case("empty", "Nothing measured")(lambda quick: [Row("skipped", None)])
    line = next(line for line in invoke("bench").stdout.splitlines() if "skipped" in line)
    assert not re.search(r"\d", line)
    assert line.count(" - ") == 5


def test_bench_quick_is_passed_on(fake):
    assert "n = 10" in invoke("bench", "--quick").stdout


def test_bench_json_holds_figures_and_facts(fake, tmp_path):
    file = tmp_path / "result.json"
    assert invoke("bench", "--json", str(file)).exit_code == 0
    result = json.loads(file.read_text())
    first, second = result["cases"][0]["rows"]
    assert first["ratio"] == 100
    assert first["target"] == ">= 50x"
    assert second["ratio"] is None
    assert second["note"] == "not installed"
    assert result["quick"] is False
    assert set(result["system"]["packages"]) >= {"numpy", "numba", "scikit-learn"}
    assert result["system"]["cpu"]


def test_bench_list(fake):
    result = invoke("bench", "--list")
    assert result.stdout == "fake  A made-up comparison\n"


def test_bench_refuses_unknown_cases_and_folders(fake, tmp_path):
    result = invoke("bench", "nope")
    assert result.exit_code == 2
    assert words(result.stderr).startswith("lupi: no case is called 'nope'; the cases are: fake")
    result = invoke("bench", "--json", str(tmp_path / "no" / "file.json"))
    assert result.exit_code == 2
    assert "does not exist" in words(result.stderr)


def test_a_failing_case_does_not_stop_the_others(only):
    @case("bad", "Fails")
    def bad(quick):
        raise RuntimeError("singular matrix")

    @case("good", "Works")
    def good(quick):
        return [Row("easy", 1.5)]

    result = invoke("bench")
    assert result.exit_code == 1
    assert "failed: RuntimeError: singular matrix" in result.stdout
    assert "1.5 s" in result.stdout


# ---------------------------------------------------------------- registry and runner


def test_every_shipped_case_has_a_title():
    for name, shipped in load_cases().items():
        assert shipped.name == name
        assert shipped.title


def test_names_are_unique(fake):
    with pytest.raises(ValueError, match=r"case called 'fake' exists already"):
        case("fake", "Again")(fake)


def test_runner_limits_blas_threads(only):
    import numpy as np

    seen = []

    @case("threads", "Counts threads")
    def threads(quick):
        np.ones((2, 2)) @ np.ones((2, 2))
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return []

    _runner.run_cases()
    assert seen
    assert set(seen) == {1}


def test_cpu_time_warms_up_and_keeps_the_least(monkeypatch):
    clock = iter([0.0, 5.0, 10.0, 12.0, 20.0, 23.0])
    monkeypatch.setattr(_registry, "process_time", lambda: next(clock))
    calls = []
    timing = cpu_time(lambda: calls.append(1) or len(calls), repeats=3)
    assert timing == Timing(2.0, 4)


def test_cpu_time_without_warm_up():
    calls = []
    assert cpu_time(lambda: calls.append(1) or len(calls), repeats=1, warmup=False).value == 1


def test_cases_are_found_in_files_without_underscore(only, tmp_path, monkeypatch):
    text = "from benchmarks._registry import case\ncase({!r}, 'Found')(lambda quick: [])\n"
    (tmp_path / "made_up_case.py").write_text(text.format("shown"))
    (tmp_path / "_made_up_helper.py").write_text(text.format("hidden"))
    monkeypatch.setattr(benchmarks, "__path__", [str(tmp_path)])
    assert list(load_cases()) == ["shown"]
    del sys.modules["benchmarks.made_up_case"]


def test_runner_names_the_unknown_case(fake):
    with pytest.raises(KeyError, match="nope"):
        _runner.run_cases(["fake", "nope"])


def test_runner_takes_the_cpu_time_of_a_case(fake, monkeypatch):
    clock = iter([3.0, 5.0])
    monkeypatch.setattr(_runner, "process_time", lambda: next(clock))
    assert _runner.run_cases(["fake"])["cases"][0]["cpu_seconds"] == 2.0


def test_cpu_model(monkeypatch):
    monkeypatch.setattr(_runner.Path, "read_text", lambda path: "model name\t: Fast CPU\nmodel name\t: Fast CPU\n")
    assert _runner._cpu_model() == "Fast CPU"

    def missing(path):
        raise FileNotFoundError

    monkeypatch.setattr(_runner.Path, "read_text", missing)
    for processor, expected in (("arm", "arm"), ("", "unknown")):
        monkeypatch.setattr(_runner.platform, "processor", lambda processor=processor: processor)
        assert _runner._cpu_model() == expected


def test_peers_that_are_not_installed_are_reported():
    def function():
        raise AssertionError("must not run")

    assert peer_time("no_such_solver", function) == Timing(None, None, "not installed")
    assert peer_time("json", lambda: "ran", repeats=1).value == "ran"


def test_ratio_needs_two_times():
    assert Row("a", 2.0, peer_seconds=1.0).ratio == 0.5
    assert Row("a", None, peer_seconds=1.0).ratio is None
    assert Row("a", 2.0).ratio is None


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(_runner, "MEASURED_PACKAGES", ("numpy", "no-such-package"))
    packages = _runner.system_facts()["packages"]
    assert packages["no-such-package"] == "not installed"
    assert packages["numpy"][0].isdigit()


def test_methods_named_in_the_help_are_those_there_are():
    from lupi.cli.shared import CHUNKED_NAMES, METHOD_NAMES, PLAIN_NAMES, REFERENCE_NAMES
    from lupi.comparison.methods import BASELINES, METHODS

    for names, role in ((PLAIN_NAMES, "plain"), (METHOD_NAMES, "privileged"), (REFERENCE_NAMES, "reference")):
        assert names.split(", ") == [name for name, method in METHODS.items() if method.role == role]
    assert set(CHUNKED_NAMES.split(", ")) <= set(METHODS)
    assert PLAIN_NAMES.startswith(", ".join(BASELINES) + ",")
    default = [name for name, method in METHODS.items() if method.role == "privileged" and not method.by_name]
    assert METHOD_NAMES.startswith(", ".join(default) + ",")
    assert len(default) == 4  # as the help of --methods says


def test_metrics_and_kernels_of_the_options_are_those_there_are():
    from lupi.cli.shared import KERNEL_NAMES, METRIC_NAMES
    from lupi.comparison.methods import KERNELS_TRIED
    from lupi.comparison.protocol import METRICS

    assert METRIC_NAMES.split(", ") == list(METRICS)
    assert KERNEL_NAMES.split(", ") == list(KERNELS_TRIED)


def _bare(text):
    """Without capitals, colons and quotes, in which versions of typer differ."""
    return text.lower().translate(str.maketrans("", "", ":'"))


@pytest.mark.parametrize(
    ("words_typed", "said"),
    [
        (["--nothing"], "no such option: --nothing. See `lupi --help`."),
        (["commpare"], "no such command 'commpare'"),
        (["compare", "--splitz", "3"], "no such option: --splitz"),
        (["compare", "--splits", "few"], "invalid value for '--splits': "),
        (["compare", "--splits", "1"], "invalid value for '--splits': "),
        (["compare", "--seed", "-1"], "invalid value for '--seed'"),
        (["compare", "t.csv", "--kernel", "poly"], "invalid value for '--kernel': 'poly' is none of rbf, linear."),
        (["compare", "--target", "a"], "--target: columns of which TABLE?"),
        (["compare", "--train-size", "x"], "--train-size is 'x'"),
        (["fit", "t.csv"], "missing option '--target'. See `lupi fit --help`."),
        (["bench", "nothing"], "no case is called 'nothing'"),
        (["localize", "fit"], "missing argument 'data'. see `lupi localize fit --help`."),
        (["localize", "fit", "x", "--method", "svm"], "invalid value for '--method'"),
        (["localize", "predict", "m", "i", "-o", "b.txt"], "invalid value for --output: must end in .json or .csv."),
    ],
)
def test_wrong_words_are_answered_in_one_line_with_exit_code_2(words_typed, said):
    result = CliRunner().invoke(app, words_typed, prog_name="lupi")
    assert _bare(result.stderr).startswith(_bare(f"lupi: {said}"))
    assert result.stderr.count("\n") == 1
    assert result.exit_code == 2
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (ValueError("the table is upside down."), "lupi: the table is upside down."),
        (MemoryError(), "lupi: there is not enough memory"),
        (KeyError("x"), "lupi: a fault of lupi, not yours: KeyError: 'x' (test_cli.py, line"),
        (KeyboardInterrupt(), "\nlupi: stopped; what was finished is kept"),
    ],
)
def test_no_error_is_a_traceback(problem, said, monkeypatch):
    def fail(*args, **options):
        raise problem

    monkeypatch.setattr("experiments.commands.list_entries", fail)
    result = CliRunner().invoke(app, ["reproduce", "--list"])
    assert result.stderr.startswith(said)
    assert result.stderr.strip().count("\n") == 0
    assert result.exit_code == (130 if isinstance(problem, KeyboardInterrupt) else 1)
    if isinstance(problem, KeyError):
        monkeypatch.setenv("LUPI_TRACEBACK", "1")
        assert isinstance(CliRunner().invoke(app, ["reproduce", "--list"]).exception, KeyError)


def test_without_words_there_is_help_and_no_error():
    result = CliRunner().invoke(app, [])
    assert "compare" in result.output
    assert "lupi: " not in result.output


def test_every_command_has_a_file_of_its_own():
    from pathlib import Path

    import lupi.cli

    files = {path.stem for path in Path(lupi.cli.__file__).parent.glob("*.py")}
    assert files == {
        "__init__",
        "__main__",
        "shared",
        *(command.callback.__name__ for command in app.registered_commands),
    }
