"""The loops of other libraries. Arguments: which (accelerate, lightning, lightning_ddp, trainer), number of steps."""

import os
import sys
import tempfile

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

GPU = torch.cuda.is_available()


def accelerate(steps: int) -> float:
    """Four micro-batches per step."""
    from accelerate import Accelerator

    helper = Accelerator(cpu=not GPU, gradient_accumulation_steps=2)
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(TensorDataset(torch.rand(steps * 8, 8)), batch_size=4)
    model, optimizer, loader = helper.prepare(model, optimizer, loader)
    for (rows,) in loader:
        with helper.accumulate(model):
            helper.backward(model(rows).pow(2).mean())
            optimizer.step()
            optimizer.zero_grad()
    return float(next(model.parameters()).detach().sum())


def lightning(steps: int, **options: object) -> float:
    import pytorch_lightning

    class Module(pytorch_lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
            return self.layer(batch[0]).pow(2).mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters())

    pytorch_lightning.seed_everything(0)
    choices = {"accelerator": "gpu" if GPU else "cpu", "devices": 1} | options
    trainer = pytorch_lightning.Trainer(
        max_steps=steps, logger=False, enable_checkpointing=False, enable_progress_bar=False, **choices
    )
    module = Module()
    trainer.fit(module, DataLoader(TensorDataset(torch.rand(64, 8)), batch_size=4))
    return float(module.layer.weight.detach().sum())


def lightning_ddp(steps: int) -> float:
    """Two ranks: Lightning starts the second itself, by running the script again."""
    both = GPU and torch.cuda.device_count() > 1
    return lightning(steps, devices=2, strategy="ddp", accelerator="gpu" if both else "cpu")


class Sentences(Dataset):
    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        rows = torch.full((8,), index / 256)
        return {"rows": rows, "labels": rows.sum()}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, rows: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        found = self.layer(rows).squeeze(-1)
        return {"loss": (found - labels).pow(2).mean(), "logits": found}


def trainer(steps: int) -> float:
    from transformers import PrinterCallback, Trainer, TrainingArguments

    torch.manual_seed(0)
    model = Model()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=4, gradient_accumulation_steps=2, report_to=[],
            save_strategy="no", logging_steps=10, disable_tqdm=True, use_cpu=not GPU,
        )  # fmt: skip
        training = Trainer(model=model, args=arguments, train_dataset=Sentences())
        training.remove_callback(PrinterCallback)  # prints how long it took
        training.train()
    return float(model.layer.weight.detach().sum())


if __name__ == "__main__":
    value = globals()[sys.argv[1]](int(sys.argv[2]))
    if os.environ.get("LOCAL_RANK", "0") == "0":
        print(f"{sys.argv[1]} {value:.9g}")
