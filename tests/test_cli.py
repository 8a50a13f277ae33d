"""The command: results on stdout, sentences on stderr, exit codes that mean something."""

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest

import metricopt as mo
from metricopt.cli.app import main
from metricopt.cli.listing import KINDS
from metricopt.core.errors import DataError, UnknownNameError
from metricopt_lab.cells import EXPERIMENTS, Record, ScaledCell, ScaledExperiment


class Squares(ScaledExperiment[None]):
    """Squares of seeds."""

    scales = ("small",)

    def cells(self) -> list[ScaledCell]:
        return self.every_method("none", "square", ["by_hand"])

    def ground(self, first: ScaledCell) -> None:  # noqa: ARG002
        return None

    def measure(self, ground: None, cell: ScaledCell) -> Record:  # noqa: ARG002
        if cell.seed == 13:
            raise DataError("13 has no square; expected another seed")
        return {"square": cell.seed**2}

    def text(self, records: Sequence[Record]) -> str:
        return " ".join(str(record["square"]) for record in records)


@pytest.fixture
def squares(monkeypatch):
    monkeypatch.setitem(EXPERIMENTS._components, "squares", Squares)


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    return int(left.value.code or 0)


def test_help_comes_without_torch_which_takes_seconds_to_import():
    code = (
        "import sys\nfrom metricopt.cli.app import main\ntry:\n    main(['--help'])\n"
        "except SystemExit:\n    print('torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == "False"
    assert all(command in said for command in ("demo", "list", "run", "pretrain", "docs", "bench"))


def test_python_m_metricopt_is_the_same_command():
    said = subprocess.run([sys.executable, "-m", "metricopt", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"{mo.__version__}\n"


@pytest.mark.parametrize("command", ["demo", "list", "run", "pretrain", "docs", "bench"])
def test_every_command_has_help(command, capsys):
    assert exit_code(command, "--help") == 0
    assert "Usage" in capsys.readouterr().out


@pytest.mark.parametrize("kind", KINDS)
def test_everything_listed_has_a_line_about_it(kind, capsys):
    assert exit_code("list", kind, "--json", "-") == 0
    listed = json.loads(capsys.readouterr().out)[kind]
    assert listed
    assert all(len(about) > 10 for about in listed.values())


def test_the_list_is_a_table_of_names_and_descriptions(capsys):
    assert exit_code("list", "losses") == 0
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == "losses"
    assert any(line.split()[:3] == ["cross_entropy", "Mean", "cross-entropy:"] for line in lines)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "table7"], "metricopt: there is no experiment named 'table7'; did you mean 'table6'?"),
        (["run", "table3", "--scale", "big"], "there is no scale named 'big' here; known: smoke, small, paper"),
        (["run", "table3", "--data", "iris"], "there is no data set named 'iris' here; known: a9a, covtype2"),
        (["run", "table2", "--data", "nonsense"], "table2 has no choice of data, and nonsense was asked for; leave it"),
        (["run", "figureS2", "--data", "small_convnet"], "figureS2 has no choice of data, and small_convnet was asked"),
        (["run", "figure3", "--data", "vgg"], "there is no network named 'vgg' here; known: small_convnet, resnet32"),
        (["run", "table3", "--seeds", "0"], "0 seeds were asked for; expected at least 1"),
        (["run", "table3", "--workers", "0"], "0 workers were asked for; expected at least 1"),
        (["demo", "--queries", "3"], "3 metric queries were granted; expected at least 10"),
        (["list", "colours"], "there is nothing to list under 'colours'; known: metrics"),
        (["demo", "--queries", "many"], "'--queries'"),
        (["dmo"], "No such command 'dmo'"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(arguments, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert exit_code(*arguments) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


def test_debug_shows_where_an_error_came_from():
    with pytest.raises(UnknownNameError):
        main(["run", "table7", "--debug"])


@pytest.mark.usefixtures("squares")
def test_a_run_prints_its_text_and_writes_its_records(tmp_path, capsys):
    assert (
        exit_code("run", "squares", "--seeds", 3, "--out", tmp_path, "--json", tmp_path / "all.json", "--workers", 1)
        == 0
    )
    assert capsys.readouterr().out.splitlines()[0] == "0 1 4"
    assert [record["square"] for record in json.loads((tmp_path / "all.json").read_text())] == [0, 1, 4]
    heading, _, origin, _ = (tmp_path / "squares.md").read_text().split("\n")
    assert heading == "0 1 4" and origin.startswith("Made from 3 records")


@pytest.mark.usefixtures("squares")
def test_records_on_stdout_are_json_alone(tmp_path, capsys):
    assert exit_code("run", "squares", "--seeds", 2, "--out", tmp_path, "--json", "-", "--workers", 1) == 0
    assert [record["seed"] for record in json.loads(capsys.readouterr().out)] == [0, 1]


@pytest.mark.usefixtures("squares")
def test_a_failure_is_one_sentence_and_exit_code_1_and_what_was_measured_stays(tmp_path, capsys):
    assert exit_code("run", "squares", "--seeds", 15, "--out", tmp_path, "--workers", 1) == 1
    assert capsys.readouterr().err == "metricopt: 13 has no square; expected another seed\n"
    assert len((tmp_path / "squares.jsonl").read_text().splitlines()) == 14


def test_an_unforeseen_error_is_named_without_a_traceback(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Squares, "text", lambda *_: 1 / 0)
    monkeypatch.setitem(EXPERIMENTS._components, "squares", Squares)
    assert exit_code("run", "squares", "--seeds", 1, "--out", tmp_path) == 1
    said = capsys.readouterr().err
    assert said == "metricopt: ZeroDivisionError: division by zero (metricopt --debug ... shows where)\n"
