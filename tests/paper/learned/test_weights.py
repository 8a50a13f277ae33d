import json
import subprocess
import sys

import pytest
import torch

from metricopt.core.errors import FileFormatError, UnknownNameError
from metricopt.core.seeding import stream
from metricopt.paper.learned.equation_s1_rule import WITH_VALUE, MlpRule
from metricopt.paper.learned.optimizer import LearnedOptimizer
from metricopt.paper.learned.weights import LearnedWeights, load_optimizer, save_optimizer, shipped_optimizers


def test_weights_of_another_feature_set_are_refused_in_one_sentence():
    rule, other = MlpRule(), MlpRule(features=WITH_VALUE)
    with pytest.raises(FileFormatError, match=r"expected weights of this feature set"):
        LearnedWeights(other, rule.initial(stream(0)))


def test_weights_that_are_no_numbers_are_refused():
    with pytest.raises(FileFormatError, match="not all finite"):
        LearnedWeights(MlpRule(), torch.full((MlpRule().size,), torch.nan))


def test_a_file_with_an_unknown_feature_is_refused_in_one_sentence(tmp_path):
    save_optimizer(LearnedWeights(MlpRule(), MlpRule().initial(stream(0))), tmp_path)
    path = tmp_path / "learned-optimizer.json"
    manifest = json.loads(path.read_text())
    manifest["facts"]["rule"]["features"][0] = "curvature"
    path.write_text(json.dumps(manifest))
    with pytest.raises(FileFormatError, match="describes a rule that this metricopt does not have"):
        load_optimizer(tmp_path)


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="there is no learned optimizer named 'adam'"):
        LearnedOptimizer([torch.nn.Parameter(torch.zeros(2))], "adam")


@pytest.mark.parametrize("name", shipped_optimizers())
def test_shipped_weights_say_what_they_were_trained_for_and_what_it_cost(name):
    about = load_optimizer(name).about
    assert {"about", "problem", "tasks", "queries", "settings", "history"} <= set(about)


def test_shipped_weights_are_loaded_by_a_program_that_imports_nothing_else():
    program = "import metricopt as mo; print(len(mo.load_optimizer('cifar10_loss').weights))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert int(run.stdout) > 0, run.stderr
