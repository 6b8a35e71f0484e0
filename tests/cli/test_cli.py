import re
import subprocess
import sys
from typing import get_args

import pytest
from typer.testing import CliRunner

import lupi
from lupi.cli import app

HEAVY = ("numpy", "scipy", "sklearn", "numba", "pandas", "matplotlib")


def invoke(*arguments):
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})


def words(text):
    return re.sub(r"\s+", " ", text)


# ---------------------------------------------------------------- the command


def test_version():
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.stdout.strip() == f"lupi {lupi.__version__}"


@pytest.mark.parametrize("arguments", [["--help"], ["compare", "--help"]])
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


def test_methods_named_in_the_help_are_those_there_are():
    from lupi.cli.shared import CHUNKED_NAMES, METHOD_NAMES, PLAIN_NAMES, REFERENCE_NAMES
    from lupi.comparison.methods import BASELINES, DEFAULT, METHODS, RECIPES

    for names, role in ((PLAIN_NAMES, "baseline"), (METHOD_NAMES, "privileged"), (REFERENCE_NAMES, "reference")):
        assert names.split(", ") == [name for name, method in METHODS.items() if method.role == role]
    assert set(CHUNKED_NAMES.split(", ")) <= set(METHODS)
    assert PLAIN_NAMES.startswith(", ".join(BASELINES) + ",")
    default = [name for name in DEFAULT if METHODS[name].privileged]
    assert METHOD_NAMES.startswith(", ".join(default) + ",")
    assert len(default) == 4  # as the help of --methods says
    assert METHOD_NAMES.endswith(", ".join(RECIPES))
    assert len(RECIPES) == 3
    shown = CliRunner().invoke(app, ["compare", "--help"], env={"COLUMNS": "400"}).output
    assert f"{', '.join(RECIPES)}, recipes (the last three)," in shown


def test_metrics_and_kernels_of_the_options_are_those_there_are():
    from lupi.cli.shared import Kernel, Metric
    from lupi.comparison.methods import KERNELS_TRIED
    from lupi.comparison.problem import METRICS

    for option, names in ((Metric, METRICS), (Kernel, KERNELS_TRIED)):
        choices, none = get_args(get_args(option)[0])
        assert none is type(None)
        assert get_args(choices) == tuple(names)


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
        (
            ["compare", "t.csv", "--kernel", "poly"],
            "invalid value for '--kernel': 'poly' is not one of 'rbf', 'linear'",
        ),
        (["compare", "--target", "a"], "--target: columns of which TABLE?"),
        (["compare", "--train-size", "x"], "--train-size must be numbers"),
        (["fit", "t.csv"], "missing option '--target'. See `lupi fit --help`."),
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
        (MemoryError(), "lupi: not enough memory"),
        (KeyError("x"), "lupi: internal error: KeyError: 'x' (test_cli.py, line"),
        (KeyboardInterrupt(), "lupi: stopped."),
    ],
)
def test_no_error_is_a_traceback(problem, said, monkeypatch):
    def fail(*args, **options):
        raise problem

    monkeypatch.setattr("lupi.tabular.table.read_file", fail)
    words = ["fit", "t.csv", "--target", "y", "--privileged", "z", "-o", "m"]
    result = CliRunner().invoke(app, words)
    assert result.stderr.startswith(said)
    assert result.stderr.strip().count("\n") == 0
    assert result.exit_code == (130 if isinstance(problem, KeyboardInterrupt) else 1)
    if isinstance(problem, KeyError):
        monkeypatch.setenv("LUPI_TRACEBACK", "1")
        assert isinstance(CliRunner().invoke(app, words).exception, KeyError)


@pytest.mark.parametrize("problem", [MemoryError(), KeyboardInterrupt()])
@pytest.mark.parametrize("command", ["compare", "fit", "predict", "localize"])
def test_only_commands_that_keep_results_promise_to_resume(command, problem, monkeypatch, tmp_path):
    def fail(*args, **options):
        raise problem

    for place in ("lupi.tabular.table.read_file", "lupi.cli.shared.load_model", "lupi.datasets.load_localization"):
        monkeypatch.setattr(place, fail)
    columns = ["--target", "y", "--privileged", "z"]
    words = {
        "compare": ["t.csv", *columns, "--out", str(tmp_path)],
        "fit": ["t.csv", *columns, "-o", "m"],
        "predict": ["m", "t.csv"],
        "localize": ["fit", "boxes.csv", "-o", str(tmp_path / "m")],
    }
    said = CliRunner().invoke(app, [command, *words[command]]).stderr
    assert said.startswith(("lupi: not enough memory", "lupi: stopped"))
    assert said.count("\n") == 1
    assert ("run the same command again to resume" in said) == (command in ("compare", "localize"))


def test_without_words_there_is_help_and_no_error():
    result = CliRunner().invoke(app, [])
    assert "compare" in result.output
    assert "lupi: " not in result.output


def test_every_command_has_a_file_of_its_own():
    from pathlib import Path

    import lupi.cli

    files = {path.stem for path in Path(lupi.cli.__file__).parent.glob("*.py")}
    commands = {command.callback.__name__ for command in app.registered_commands}
    assert files == {"__init__", "__main__", "shared", "localize", *commands} - {"predict"}  # beside `fit`
