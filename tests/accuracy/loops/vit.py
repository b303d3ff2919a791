"""Fine-tune one of timm's vision transformers with label smoothing, in bfloat16, synchronizing after every batch."""

import argparse

import timm
import torch
from images import RandomImages
from timm.loss import LabelSmoothingCrossEntropy
from torch.utils.data import DataLoader


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=2000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--model", default="vit_tiny_patch16_224")
    parser.add_argument("--image", type=int, default=224)
    parser.add_argument("--workers", type=int, default=8)
    args = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dataset = RandomImages(args.batches * args.batch_size, args.image, classes=100)
    loader = DataLoader(dataset, args.batch_size, shuffle=True, num_workers=args.workers)
    model = timm.create_model(args.model, pretrained=False, num_classes=100, img_size=args.image).to(device)
    criterion = LabelSmoothingCrossEntropy(0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05)

    loss_sum = 0.0
    for step, (images, target) in enumerate(loader):
        images, target = images.to(device), target.to(device)
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        loss_sum += loss.item()
        if step % 200 == 199:
            print(f"[{step + 1}/{args.batches}] loss {loss_sum / (step + 1):.4f}")


if __name__ == "__main__":
    main()
