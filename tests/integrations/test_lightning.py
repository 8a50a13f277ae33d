"""Lightning: a callback at the end of fitting, and a DataModule handed to `optimize`."""

import lightning
import pytest
import torch
from tests.integrations.hugging_face import QUICK
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import metricopt as mo
from metricopt.core.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's advice about workers and loggers


class Net(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)

    def training_step(self, batch, _):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.log("val_loss", nn.functional.cross_entropy(self(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Rows(lightning.LightningDataModule):
    def rows(self, seed: int) -> DataLoader:
        draw = torch.Generator().manual_seed(seed)
        x = torch.randn(400, 4, generator=draw)
        y = (x[:, 0] + 0.5 * torch.randn(400, generator=draw) > 1.2).long()
        return DataLoader(TensorDataset(x, y), batch_size=64)

    def train_dataloader(self) -> DataLoader:
        return self.rows(0)

    def val_dataloader(self) -> DataLoader:
        return self.rows(1)


def fitted(tmp_path, *callbacks, module: Net | None = None) -> tuple[lightning.Trainer, Net]:
    module = Net() if module is None else module
    trainer = lightning.Trainer(
        max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu",
        enable_model_summary=False, default_root_dir=tmp_path, callbacks=list(callbacks), num_sanity_val_steps=0,
    )  # fmt: skip
    trainer.fit(module, datamodule=Rows())
    return trainer, module


def test_the_callback_gives_the_module_the_better_weights_and_a_checkpoint_keeps_them(tmp_path):
    callback = mo.MetricOptCallback(metric="f1", queries=20, effort=QUICK)
    trainer, module = fitted(tmp_path, callback)
    assert callback.result is not None and callback.result.accepted
    x = torch.randn(20, 4)
    torch.testing.assert_close(module(x), callback.result.merge()(x))
    trainer.save_checkpoint(tmp_path / "better.ckpt")
    again = Net.load_from_checkpoint(tmp_path / "better.ckpt")
    assert torch.equal(again(x), module(x))


def test_optimize_takes_a_data_module_saves_loads_and_resumes(tmp_path):
    _, module = fitted(tmp_path)
    how = {"metric": "f1", "queries": 20, "effort": QUICK, "run_dir": tmp_path / "run"}
    result = mo.optimize(module, datamodule=Rows(), **how)
    assert result.accepted and type(result.merge()) is Net
    again = mo.optimize(module, datamodule=Rows(), resume=True, **how)
    loaded = mo.load_result(tmp_path / "run", module, "f1", example=torch.zeros(2, 4))
    assert torch.equal(again.model.phi, result.model.phi) and torch.equal(loaded.model.phi, result.model.phi)


def test_loaders_that_are_not_one_and_data_given_twice_are_named(tmp_path):
    class Two(Rows):
        def val_dataloader(self):
            return [self.rows(1), self.rows(2)]

    with pytest.raises(DataError, match="the val data are 2 loaders; expected one DataLoader"):
        mo.optimize(Net(), metric="f1", datamodule=Two())
    with pytest.raises(DataError, match="a datamodule was given with train or val"):
        mo.optimize(Net(), metric="f1", datamodule=Rows(), val=Rows().val_dataloader())
    with pytest.raises(DataError, match="val is None; expected data to ask the metric about"):
        mo.optimize(Net(), metric="f1", train=Rows().train_dataloader())
