"""Tensors of many types, shapes and layouts."""

import torch


def some_tensors():
    generator = torch.Generator().manual_seed(0)
    pictures = torch.randint(0, 256, (2, 5, 7, 3), dtype=torch.uint8, generator=generator)
    return [
        torch.randn(3, 4, generator=generator),
        torch.tensor([True, False, True]),
        pictures.permute(0, 3, 1, 2),  # channels last
        torch.arange(7),
        torch.tensor(2.5),
        torch.empty(0, 3),
        torch.randn(2, 2, generator=generator).double(),
    ]
