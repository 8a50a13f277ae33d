"""A text generator judged by what it writes: exact matches of whole answers, which no loss of single tokens measures.

A small GPT of transformers learns in this example to add two numbers below 100, digit by digit, and stops too early.
The metric is given the model itself (`on="model"`), acting with phi, and calls `model.generate`.
"""

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

import metricopt as mo

PLUS, EQUALS, PROMPT = 10, 11, 6  # the tokens after the digits; tokens of a question


def sums(count: int, seed: int) -> tuple[dict[str, Tensor], Tensor]:
    """Questions such as 17+58= with their answers, 0 7 5; labels of the question are masked."""
    a, b = torch.randint(100, (2, count), generator=torch.Generator().manual_seed(seed))
    marks = torch.full((count, 2), PLUS)
    marks[:, 1] = EQUALS
    total = a + b
    question = torch.stack([a // 10, a % 10, marks[:, 0], b // 10, b % 10, marks[:, 1]], 1)
    answer = torch.stack([total // 100, total // 10 % 10, total % 10], 1)
    tokens = torch.cat([question, answer], 1)
    return {"input_ids": tokens}, torch.cat([torch.full_like(question, -100), answer], 1)


def trained(steps: int = 500) -> GPT2LMHeadModel:
    """A GPT of two layers after a short training."""
    torch.manual_seed(0)
    sizes = {"n_embd": 48, "n_layer": 2, "n_head": 4, "vocab_size": 12, "n_positions": 16}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=11, eos_token_id=11, pad_token_id=11))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        inputs, labels = sums(128, 1000 + step)
        optimizer.zero_grad()
        model(**inputs, labels=labels).loss.backward()
        optimizer.step()
    return model.eval()


def exact_match(model: GPT2LMHeadModel, inputs: dict[str, Tensor], targets: Tensor) -> float:
    """Share of questions whose whole answer is right."""
    question = inputs["input_ids"][:, :PROMPT]
    mask = torch.ones_like(question)
    written = model.generate(question, attention_mask=mask, max_new_tokens=3, min_new_tokens=3, do_sample=False)
    return float((written[:, PROMPT:] == targets[:, PROMPT:]).all(1).float().mean())


def main(steps: int = 500, queries: int = 60) -> mo.Result:
    """Train, improve, and read an answer."""
    model = trained(steps)
    (train, train_labels), (val, val_labels) = sums(400, 1), sums(900, 2)
    result = mo.optimize(
        model,
        metric=mo.Metric(exact_match, on="model", goal="max"),
        train={**train, "labels": train_labels},
        val={**val, "labels": val_labels},
        queries=queries,
        adapter=mo.FiLM(dim=16),
    )
    print(result)
    question, _ = sums(1, 3)
    asked = question["input_ids"][:, :PROMPT]
    written = result.merge().generate(asked, attention_mask=torch.ones_like(asked), max_new_tokens=3, do_sample=False)
    print(written[0].tolist())
    return result


if __name__ == "__main__":
    main()
