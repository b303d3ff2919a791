"""Train a tiny generator against a tiny discriminator; Python is the limit, and four numbers are read per batch."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, outputs), nn.LayerNorm(outputs), nn.LeakyReLU(0.2))


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=500 if gpu else 80)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=128 if gpu else 32)
    parser.add_argument("--depth", type=int, default=5 if gpu else 2)
    args = parser.parse_args()

    torch.manual_seed(1)
    device = torch.device("cuda" if gpu else "cpu")
    data = torch.randn(args.batches * args.batch_size, 64)
    loader = DataLoader(TensorDataset(data), batch_size=args.batch_size, shuffle=True)
    generator = nn.Sequential(
        block(32, args.width), *[block(args.width, args.width) for _ in range(args.depth)], nn.Linear(args.width, 64)
    ).to(device)
    discriminator = nn.Sequential(
        block(64, args.width), *[block(args.width, args.width) for _ in range(args.depth)], nn.Linear(args.width, 1)
    ).to(device)
    criterion = nn.BCEWithLogitsLoss()
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))

    sum_d = sum_g = 0.0
    for step, (real,) in enumerate(loader):
        real = real.to(device)
        noise = torch.randn(real.size(0), 32, device=device)
        ones = torch.ones(real.size(0), 1, device=device)
        zeros = torch.zeros(real.size(0), 1, device=device)

        optimizer_d.zero_grad()
        score_real = discriminator(real)
        fake = generator(noise)
        score_fake = discriminator(fake.detach())
        loss_d = criterion(score_real, ones) + criterion(score_fake, zeros)
        loss_d.backward()
        optimizer_d.step()
        sum_d += loss_d.item()

        optimizer_g.zero_grad()
        loss_g = criterion(discriminator(fake), ones)
        loss_g.backward()
        optimizer_g.step()
        sum_g += loss_g.item()

        mean_real = score_real.mean().item()
        mean_fake = score_fake.mean().item()
        if (step + 1) % 50 == 0:
            print(
                f"step {step + 1}: D {sum_d / (step + 1):.4f} G {sum_g / (step + 1):.4f} "
                f"D(x) {mean_real:.3f} D(G(z)) {mean_fake:.3f}"
            )
    print(f"done: D {sum_d / len(loader):.6f} G {sum_g / len(loader):.6f}")


if __name__ == "__main__":
    main()
