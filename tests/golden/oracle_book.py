"""What every part of the oracle shares: seeded numbers and a file of named tensors."""
import zlib

import numpy as np
import torch
from safetensors.numpy import save

torch.set_default_dtype(torch.float64)


def numbers(name, *shape, scale=1.0, shift=0.0):
    """Normal numbers that depend on the name alone, so that a new case moves no old one. They are
    rounded to float32 first: the C side then starts from exactly the same inputs."""
    x = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(shape) * scale + shift
    return torch.from_numpy(np.asarray(x.astype(np.float32), dtype=np.float64))


def integers(name, high, *shape):
    return torch.from_numpy(np.random.RandomState(zlib.crc32(name.encode())).randint(0, high, shape))


def single(x):
    """What float32 holds of x: for inputs that were changed after numbers() made them."""
    return x.float().double()


def leaf(x):
    """An input with a gradient. The file keeps it as float32, so it must be one already."""
    assert torch.equal(x, single(x))
    return x.detach().clone().requires_grad_(True)


class Book:
    """Tensors by name. Floats are stored as F32, whole numbers as U8 or, where they do not fit, I32;
    positions and other exact numbers as F64 on demand."""

    def __init__(self, path):
        self.path, self.pages = path, {}

    def put(self, name, x, exact=False):
        x = x.detach() if isinstance(x, torch.Tensor) else torch.tensor(x)
        assert name not in self.pages, name
        assert not torch.isnan(x.double()).any(), name
        if x.dtype == torch.bool:
            kind = np.uint8
        elif not x.is_floating_point():
            kind = np.int32 if (x < 0).any() or (x > 255).any() else np.uint8
        else:
            kind = np.float64 if exact else np.float32
        a = x.numpy().astype(kind)
        if a.ndim == 0:
            a = a.reshape(1)
        self.pages[name] = np.ascontiguousarray(a)

    def put_all(self, prefix, **tensors):
        for name, x in tensors.items():
            self.put(f"{prefix}.{name}", x)

    def write(self):
        with open(self.path, "wb") as f:
            f.write(save({k: self.pages[k] for k in sorted(self.pages)}))
