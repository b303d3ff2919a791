"""Train a variational autoencoder on small pictures: three loss terms are logged after every batch."""

import argparse

import torch
from images import RandomImages
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader


class VAE(nn.Module):
    """A fully connected encoder and decoder."""

    def __init__(self, inputs: int, width: int, latent: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.mean, self.spread = nn.Linear(width, latent), nn.Linear(width, latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, inputs)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden = self.encoder(x)
        mean, spread = self.mean(hidden), self.spread(hidden)
        sample = mean + torch.randn_like(spread) * torch.exp(0.5 * spread)
        return self.decoder(sample), mean, spread


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=6000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--image", type=int, default=32)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = RandomImages(args.batches * args.batch_size, args.image)
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, num_workers=args.workers)
    model = VAE(3 * args.image * args.image, args.width, 32).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    log = {"reconstruction": 0.0, "divergence": 0.0, "loss": 0.0}
    for step, (images, _) in enumerate(loader, start=1):
        images = images.to(device).flatten(1)
        output, mean, spread = model(images)
        reconstruction = F.mse_loss(output, images, reduction="sum") / images.shape[0]
        divergence = -0.5 * torch.mean(1 + spread - mean.pow(2) - spread.exp())
        loss = reconstruction + divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["reconstruction"] += reconstruction.item()
        log["divergence"] += divergence.item()
        log["loss"] += loss.item()
        if step % 1000 == 0:
            print({name: round(value / step, 4) for name, value in log.items()})


if __name__ == "__main__":
    main()
