"""Train a DCGAN: two networks, two optimizers, five values read and kept per batch."""

import argparse

import torch
from images import RandomImages
from torch import nn
from torch.utils.data import DataLoader


def generator(width: int, latent: int) -> nn.Module:
    layers: list[nn.Module] = [nn.ConvTranspose2d(latent, width * 8, 4, 1, 0, bias=False)]
    for factor in (8, 4, 2):
        layers += [nn.BatchNorm2d(width * factor), nn.ReLU(True)]
        layers.append(nn.ConvTranspose2d(width * factor, width * factor // 2, 4, 2, 1, bias=False))
    layers += [nn.BatchNorm2d(width), nn.ReLU(True), nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh()]
    return nn.Sequential(*layers)


def discriminator(width: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
    for factor in (1, 2, 4):
        layers += [nn.Conv2d(width * factor, width * factor * 2, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(width * factor * 2), nn.LeakyReLU(0.2, inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(width * 8, 1, 4, 1, 0, bias=False), nn.Sigmoid())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=3000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = RandomImages(args.batches * args.batch_size, 64)
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, num_workers=args.workers)
    net_g = generator(args.width, 100).to(device)
    net_d = discriminator(args.width).to(device)
    criterion = nn.BCELoss()
    optimizer_d = torch.optim.Adam(net_d.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizer_g = torch.optim.Adam(net_g.parameters(), lr=2e-4, betas=(0.5, 0.999))

    g_losses, d_losses, scores = [], [], []
    for data, _ in loader:
        net_d.zero_grad()
        real = data.to(device)
        batch_size = real.size(0)
        label = torch.full((batch_size,), 1.0, device=device)
        output = net_d(real).view(-1)
        loss_real = criterion(output, label)
        loss_real.backward()
        d_x = output.mean().item()

        noise = torch.randn(batch_size, 100, 1, 1, device=device)
        fake = net_g(noise)
        label.fill_(0.0)
        output = net_d(fake.detach()).view(-1)
        loss_fake = criterion(output, label)
        loss_fake.backward()
        d_g_z1 = output.mean().item()
        loss_d = loss_real + loss_fake
        optimizer_d.step()

        net_g.zero_grad()
        label.fill_(1.0)
        output = net_d(fake).view(-1)
        loss_g = criterion(output, label)
        loss_g.backward()
        d_g_z2 = output.mean().item()
        optimizer_g.step()

        d_losses.append(loss_d.item())
        g_losses.append(loss_g.item())
        scores.append((d_x, d_g_z1, d_g_z2))
    print(f"D {sum(d_losses) / len(d_losses):.4f} G {sum(g_losses) / len(g_losses):.4f} last {scores[-1]}")


if __name__ == "__main__":
    main()
