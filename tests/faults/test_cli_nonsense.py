import pytest
import typer

from metricopt.cli.app import app, main

NUMBERS = ("many", "1.5", "", "0x10")
FOLDERS = ("file", "file/inside")
# Every parameter of every command, with values that make no sense for it; flags take none.
NONSENSE = {
    "demo": {
        "--out": FOLDERS,
        "--queries": (*NUMBERS, "-5", "0"),
        "--seed": NUMBERS,
        "--resume": ("=maybe",),
        "--log-dir": FOLDERS,
        "--json": ("file/inside", "."),
    },
    "optimize file": {
        "job": ("nowhere.py", "."),
        "--queries": (*NUMBERS, "0", "-1"),
        "--workers": (*NUMBERS, "0", "-1"),
        "--seed": NUMBERS,
        "--run-dir": FOLDERS,
        "--resume": ("=maybe",),
        "--report": ("=maybe",),
        "--json": ("file/inside", "."),
    },
    "list": {"kind": ("colours", ""), "--json": ("file/inside", ".")},
    "run table3": {
        "name": ("table7", ""),
        "--seeds": (*NUMBERS, "0", "-1"),
        "--scale": ("huge", ""),
        "--data": ("mars", "a9a,mars"),
        "--methods": ("magic", "a,magic"),
        "--out": FOLDERS,
        "--workers": (*NUMBERS, "0", "-1"),
        "--fresh": ("=maybe",),
        "--json": ("file/inside", "."),
    },
    "run table2": {
        "name": ("table7", ""),
        "--seeds": ("0",),
        "--scale": ("huge", ""),
        "--data": ("nonsense", "small_convnet"),
        "--methods": ("magic",),
        "--out": FOLDERS,
        "--workers": ("0",),
        "--fresh": ("=maybe",),
        "--json": ("file/inside", "."),
    },
    "docs": {"--results": ("nowhere", "file"), "--out": FOLDERS, "--json": ("file/inside", ".")},
    "pretrain resnet32 --out new": {
        "model": ("resnet", ""),
        "--out": FOLDERS,
        "--data": ("mars", ""),
        "--epochs": (*NUMBERS, "0", "-1"),
        "--batch-size": (*NUMBERS, "0"),
        "--lr": ("fast", "", "0", "-0.1", "nan", "inf"),
        "--augment": ("=maybe",),
        "--loss": ("cross", ""),
        "--seed": NUMBERS,
        "--subset": (*NUMBERS, "0"),
        "--device": ("tpu", ""),
        "--threads": (*NUMBERS, "0"),
        "--resume": ("=maybe",),
        "--imagenet": ("nowhere.pth",),
        "--json": ("file/inside", "."),
    },
    "report": {"run_dir": ("nowhere", "file/inside"), "--out": ("file/inside",)},
    "bench quality --out new": {
        "--out": FOLDERS,
        "--queries": ("a,b", "-5", "150,50", "", "50,,150", "1e2"),
        "--seeds": (*NUMBERS, "0"),
        "--first-seed": (*NUMBERS, "-1", "5"),
        "--problems": ("mars",),
        "--methods": ("magic", "metricopt@unknown"),
        "--workers": (*NUMBERS, "0", "-1"),
        "--half": ("both", ""),
        "--summary-only": ("=maybe",),
        "--json": ("file/inside", "."),
    },
    "bench speed --quick": {
        "--figures": ("z", "a,z", "a;b"),
        "--repeats": (*NUMBERS, "0", "-1"),
        "--quick": ("=maybe",),
        "--page": ("file/inside", "."),
        "--out": FOLDERS,
        "--record": ("nowhere", "file/inside"),
        "--json": ("file/inside", "."),
    },
}
CASES = [
    (command, parameter, value)
    for command, parameters in NONSENSE.items()
    for parameter, values in parameters.items()
    for value in values
]


def arguments(command, parameter, value):
    words = command.split()
    if not parameter.startswith("--"):
        return [*words[:1], value]
    if value.startswith("="):
        return [*words, parameter + value]
    return [*words, parameter, value]


@pytest.mark.parametrize(("command", "parameter", "value"), CASES)
def test_a_value_that_makes_no_sense_is_exit_code_2_and_a_sentence_before_any_work(
    command, parameter, value, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as left:
        main(arguments(command, parameter, value))
    said = capsys.readouterr()
    assert left.value.code == 2, said.err
    assert said.out == "" and "Traceback" not in said.err and len(said.err) > 20
    assert [path.name for path in tmp_path.iterdir()] == ["file"], "nothing was begun"


def commands(group, words=()):
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


@pytest.mark.parametrize("command", NONSENSE)
def test_the_table_above_has_every_parameter_of_the_command(command):
    found = dict(commands(typer.main.get_command(app)))
    name = next(name for name in found if command == name or command.startswith(f"{name} "))
    assert {parameter.opts[0] for parameter in found[name].params} - {"--help"} == set(NONSENSE[command])
