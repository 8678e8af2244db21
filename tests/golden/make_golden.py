"""Writes the golden values that tests/test_golden.c compares with: PyTorch in float64 with autograd, straight from
the formulas, independent of posenc.h.

    make golden        (needs Python with torch, numpy and safetensors)

The files are small safetensors, rounded to float32 at the very end. Everything is seeded by name, so running it
again writes the same bytes. Where transformers or x-transformers are installed, the formulas are compared with
theirs as well before anything is written; catalogue.safetensors names for each case whom it was compared with, so
that its bytes follow the packages that are installed: those of oracle_catalogue_peers.py, in their versions."""
import os
import sys

sys.dont_write_bytecode = True                        # leave no folder behind

import torch

import oracle_attention
import oracle_catalogue
import oracle_catalogue_peers
import oracle_encodings
import oracle_layers
import oracle_models
import oracle_peers
from oracle_book import Book

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    out = sys.argv[1] if len(sys.argv) > 1 else HERE
    books = []

    def book_at(name):
        books.append(Book(os.path.join(out, name)))
        return books[-1]

    oracle_peers.check()
    oracles = oracle_catalogue_peers.check()
    oracle_layers.write(book_at("layers.safetensors"))
    oracle_attention.write(book_at("attention.safetensors"))
    oracle_encodings.write(book_at("encodings.safetensors"))
    oracle_catalogue.write(book_at("catalogue.safetensors"), oracles)
    for model in oracle_models.MODELS:
        oracle_models.write(book_at, model)
    for book in books:
        print(f"{os.path.basename(book.path):34} {len(book.pages):4} tensors {os.path.getsize(book.path):8} bytes")
    print(f"{sum(os.path.getsize(book.path) for book in books)} bytes in all")


if __name__ == "__main__":
    main()
