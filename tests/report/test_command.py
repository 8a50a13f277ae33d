"""The command report."""

import pytest

from metricopt.cli.app import main


def exit_code(*arguments):
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    return left.value.code


def test_a_page_is_written_where_it_is_asked_for(folder, tmp_path, capsys):
    assert exit_code("report", folder, "--out", tmp_path / "deep" / "page.html") == 0
    assert (tmp_path / "deep" / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "page.html" in capsys.readouterr().out


def test_by_default_it_lies_beside_the_events(folder):
    assert exit_code("report", folder) == 0
    assert (folder / "report.html").exists()


def test_the_folder_of_a_demo_will_do(folder, tmp_path):
    (tmp_path / "run").symlink_to(folder)
    assert exit_code("report", tmp_path) == 0
    assert (tmp_path / "report.html").exists()


def test_a_folder_without_a_run_fails_with_one_sentence(tmp_path, capsys):
    assert exit_code("report", tmp_path) == 1
    said = capsys.readouterr().err
    assert said.startswith("metricopt: ")
    assert "events.jsonl" in said
    assert said.count("\n") == 1
