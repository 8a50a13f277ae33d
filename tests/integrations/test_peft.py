"""A LoRA model of PEFT: its own matrices as phi, improved, and saved back into the adapter's own file."""

import pytest
import torch
from peft import IA3Config, LNTuningConfig, LoraConfig, PeftModel, get_peft_model
from tests.integrations.hugging_face import EFFORT, Sentences, bert, pad

import metricopt as mo
from metricopt.core.errors import AdapterError, FileFormatError

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:.*config.*", "ignore:Unsupported layer"
)

CONFIGS = {
    "*lora_B*": LoraConfig(r=2, target_modules=["query", "value"], task_type="SEQ_CLS"),
    "*ia3_l*": IA3Config(target_modules=["key", "value"], feedforward_modules=[], task_type="SEQ_CLS"),
    "*LayerNorm*ln_tuning*": LNTuningConfig(target_modules=["LayerNorm"], task_type="SEQ_CLS"),
}
PLAIN = mo.Recipe(start_steps=8)


def peft_model(pattern: str = "*lora_B*") -> PeftModel:
    net = bert()
    net.classifier.bias.data += torch.tensor([0.5, 0.0])
    return get_peft_model(net, CONFIGS[pattern]).eval()


def logits(model) -> torch.Tensor:
    batch = pad([Sentences(20, 5)[i] for i in range(20)])
    with torch.no_grad():
        return model(**{name: part for name, part in batch.items() if name != "labels"}).logits


def optimized(model, adapter, **settings) -> mo.Result:
    sets = {"train": Sentences(100, 0), "val": Sentences(300, 1), "collate": pad}
    return mo.optimize(model, metric="f1", adapter=adapter, queries=12, recipe=PLAIN, **sets, **settings)


@pytest.mark.parametrize("pattern", CONFIGS)
def test_what_peft_adds_can_be_phi_and_at_zero_nothing_changes(pattern):
    model = peft_model(pattern)
    before = logits(model)
    batch = pad([Sentences(2, 0)[0]] * 2)
    adapted = mo.adapt(model, mo.Parameters(pattern, dim=6, strength=1.0), example=batch)
    assert torch.equal(logits(adapted), before)
    adapted.phi.data.fill_(3.0)
    assert not torch.allclose(logits(adapted), before)
    torch.testing.assert_close(logits(adapted.merge()), logits(adapted))


def test_it_is_improved_saved_into_the_adapters_own_file_and_read_by_peft(tmp_path):
    model = peft_model()
    result = optimized(model, mo.Parameters("*lora_B*", dim=8, strength=3.0) + mo.OutputAffine(scale=False))
    assert result.accepted  # by the shift of outputs, if not by more: the head's bias was spoilt
    result.save_pretrained(tmp_path)
    assert (tmp_path / "adapter_model.safetensors").exists() and not (tmp_path / "model.safetensors").exists()
    net = bert()
    net.classifier.bias.data += torch.tensor([0.5, 0.0])
    again = PeftModel.from_pretrained(net, tmp_path).eval()
    torch.testing.assert_close(logits(again), logits(result.model))


def test_without_an_adapter_only_what_peft_left_trainable_is_finetuned():
    model = peft_model()
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    sets = {"train": Sentences(100, 0), "val": Sentences(100, 1), "collate": pad}
    merged = mo.optimize(model, metric="f1", queries=4, effort=EFFORT, **sets).merge()
    own = dict(model.named_parameters())
    changed = {name for name, tensor in merged.named_parameters() if not torch.equal(tensor, own[name])}
    assert changed.isdisjoint(frozen)


def test_changes_that_the_adapters_file_would_lose_are_refused(tmp_path):
    result = optimized(peft_model(), mo.Parameters("*pooler*", dim=4, strength=1.0))
    result.model.phi.data.fill_(1.0)
    with pytest.raises(FileFormatError, match="which the PEFT adapter's file does not hold") as caught:
        result.save_pretrained(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_pattern_that_matches_nothing_is_answered_with_one_that_does():
    with pytest.raises(
        AdapterError, match=r"no parameter of the network is called '\*lora_C\*'; did you mean '\*lora_"
    ):
        optimized(peft_model(), mo.Parameters("*lora_C*"))
