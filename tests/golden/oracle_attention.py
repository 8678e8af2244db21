"""Attention with the whole map in double, every mask and every kind of bias, gradients by autograd."""
import torch
import torch.nn.functional as F

from oracle_book import leaf, numbers
from oracle_encodings import rope


def attention(q, k, v, *, scale=None, causal=False, window=0, keep=None, q_segment=None, k_segment=None,
              bias=None, past=0, future=0, q_at=None, k_at=None):
    """q (B,Tq,H,D); k, v (B,Tk,Hk,D). Returns out, lse, map, seen. Masks go by index, the bias by position."""
    b, tq, h, d = q.shape
    tk, hk = k.shape[1], k.shape[2]
    k, v = k.repeat_interleave(h // hk, 2), v.repeat_interleave(h // hk, 2)
    scale = scale or d ** -0.5
    at_q, at_k = torch.arange(tq) + tk - tq, torch.arange(tk)             # the last query is the last key
    index = at_q[:, None] - at_k[None, :]
    seen = torch.ones(b, 1, tq, tk, dtype=torch.bool)
    if causal:
        seen = seen & (index >= 0)
    if window:
        seen = seen & (index.abs() < window)
    if keep is not None:
        seen = seen & keep[:, None, None, :]
    if q_segment is not None:
        seen = seen & (q_segment[:, None, :, None] == k_segment[:, None, None, :])
    scores = torch.einsum("bihd,bjhd->bhij", q, k) * scale
    if bias is not None:
        q_at = at_q.expand(b, tq) if q_at is None else q_at
        k_at = at_k.expand(b, tk) if k_at is None else k_at
        entry = (q_at[:, :, None] - k_at[:, None, :]).clamp(-future, past) + future
        scores = scores + bias[:, entry].transpose(0, 1)
    blind = ~seen.any(-1, keepdim=True)               # queries that see nothing: out 0, no gradient
    masked = torch.where(seen, scores, torch.where(blind, 0.0, -torch.inf))
    lse = torch.where(blind[..., 0], 0.0, torch.logsumexp(masked, -1))
    p = torch.softmax(masked, -1) * seen
    out = torch.einsum("bhij,bjhd->bihd", p, v)

    # PyTorch's own attention must agree wherever it is defined
    mask = torch.where(seen, 0.0, -torch.inf)
    if bias is not None:
        mask = mask + bias.detach()[:, entry].transpose(0, 1)
    theirs = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                            attn_mask=torch.where(blind, 0.0, mask.expand(b, h, tq, tk)), scale=scale)
    assert torch.allclose(torch.where(blind, 0.0, theirs).transpose(1, 2), out, rtol=1e-10, atol=1e-12)
    return out, lse, p, ~blind[..., 0].expand(b, h, tq)


def case(book, name, b=2, tq=7, tk=None, h=2, hk=None, d=4, turns=None, with_map=True, **how):
    """One set of outputs and gradients. how[...] goes to attention(); turns = (q_pos, k_pos, layout,
    base, dim, offset)."""
    tk, hk = tk or tq, hk or h
    shape = [b, tq, tk, h, hk, d]
    inputs = "inputs." + "x".join(map(str, shape))    # cases of the same shape share their inputs
    q, k, v = (leaf(numbers(f"{inputs}.{x}", *s)) for x, s in
               (("q", (b, tq, h, d)), ("k", (b, tk, hk, d)), ("v", (b, tk, hk, d))))
    dout = numbers(inputs + ".dout", b, tq, h, d)
    if inputs + ".q" not in book.pages:
        book.put_all(inputs, q=q, k=k, v=v, dout=dout)
    bias = how.get("bias")
    qt, kt = q, k
    if turns:
        q_pos, k_pos, layout, base, dim, offset = turns
        qt, kt = rope(q, q_pos, layout, base, dim, offset), rope(k, k_pos, layout, base, dim, offset)
        book.put(name + ".q_pos", q_pos, exact=True)
        book.put(name + ".k_pos", k_pos, exact=True)
        book.put(name + ".turns", torch.tensor([1 if layout == "interleaved" else 2, dim, offset]))
        book.put(name + ".base", torch.tensor(base), exact=True)
    out, lse, p, seen = attention(qt, kt, v, **how)
    out.backward(dout)
    book.put_all(name, out=out, lse=lse, seen=seen, dq=q.grad, dk=k.grad, dv=v.grad)
    if with_map:
        book.put(name + ".map", p)
    book.put(name + ".how", torch.tensor(shape + [int(how.get("causal", False)), how.get("window", 0),
                                                  how.get("past", 0), how.get("future", 0)]))
    if how.get("scale"):
        book.put(name + ".scale", torch.tensor(how["scale"]), exact=True)
    for x in ("keep", "q_segment", "k_segment", "q_at", "k_at"):
        if how.get(x) is not None:
            book.put(f"{name}.{x}", how[x])
    if bias is not None:
        book.put_all(name, bias=bias, dbias=bias.grad)


def write(book):
    keep = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 1, 0],
                         [0, 0, 0, 0, 0, 0, 0]]).bool()
    segment = torch.tensor([[0, 0, 0, 1, 1, 2, 2], [5, 5, 5, 5, 5, 3, 3]])

    case(book, "full")
    case(book, "wide", b=1, tq=5, d=21)
    case(book, "one_token", tq=1)
    case(book, "causal", causal=True)
    case(book, "padding", b=4, keep=keep)             # the last batch row is padding from end to end
    case(book, "causal_padding", b=4, keep=keep, causal=True)             # left padding: early queries are blind
    case(book, "window", window=3)
    case(book, "window_one", window=1)                # everybody sees himself alone
    case(book, "packed", q_segment=segment, k_segment=segment)
    case(book, "causal_packed", causal=True, q_segment=segment, k_segment=segment)
    case(book, "causal_window", causal=True, window=3)
    case(book, "cache", tq=3, tk=8, causal=True)
    case(book, "cache_window", tq=2, tk=9, causal=True, window=4)
    case(book, "more_queries_than_keys", tq=7, tk=4, causal=True)         # the first three see nothing
    case(book, "grouped", h=6, hk=2, causal=True)
    case(book, "one_kv_head", h=3, hk=1, d=5)
    case(book, "scale", scale=0.9, causal=True)
    case(book, "bias", bias=leaf(numbers("bias.bias", 2, 6 + 1 + 6)), past=6, future=6)
    case(book, "bias_clamped", bias=leaf(numbers("bias_clamped.bias", 2, 2 + 1 + 3)), past=3, future=2)
    case(book, "causal_bias", causal=True, bias=leaf(numbers("causal_bias.bias", 2, 1 + 4)), past=4, future=0)
    case(book, "cache_bias", tq=3, tk=8, causal=True, h=4, hk=2,
         bias=leaf(numbers("cache_bias.bias", 4, 1 + 1 + 9)), past=9, future=1)
    q_at = torch.tensor([[4, 5, 6, 7, 9, 9, 40], [0, 1, 2, 0, 1, 2, 3]])
    k_at = torch.tensor([[0, 5, 6, 7, 8, 9, 41], [0, 1, 2, 0, 1, 2, 3]])
    case(book, "positions", q_at=q_at, k_at=k_at, bias=leaf(numbers("positions.bias", 2, 3 + 1 + 8)), past=8, future=3)
    case(book, "packed_positions", causal=True, q_segment=segment, k_segment=segment, q_at=q_at, k_at=k_at,
         bias=leaf(numbers("packed_positions.bias", 2, 3 + 1 + 8)), past=8, future=3)

    pos = torch.arange(7.0) + 100
    row_pos = torch.tensor([[0.0, 1, 2, 0, 1, 2, 3], [7.0, 8, 9, 10, 11, 500.5, 4096]])
    for layout in ("interleaved", "half"):
        case(book, "turn_" + layout, d=6, causal=True, turns=(pos, pos, layout, 10000.0, 6, 0))
        case(book, "turn_part_" + layout, d=8, hk=1, turns=(row_pos, row_pos, layout, 100.0, 4, 0))
        case(book, "turn_offset_" + layout, d=8, tq=3, tk=7, causal=True, scale=0.5,
             turns=(pos[-3:], pos, layout, 100.0, 4, 2))
    case(book, "turn_bias", turns=(pos, pos, "half", 10000.0, 4, 0), causal=True,
         bias=leaf(numbers("turn_bias.bias", 2, 1 + 5)), past=5, future=0)

    # longer than a tile, and everything at once
    t = 101
    keep = torch.ones(1, t).bool()
    keep[0, 30:33] = False
    keep[0, -5:] = False
    case(book, "long", b=1, tq=t, h=2, hk=1, d=4, with_map=False)
    case(book, "long_everything", b=1, tq=t, h=2, hk=1, d=4, with_map=False, causal=True, window=80, keep=keep,
         bias=leaf(numbers("long_everything.bias", 2, 1 + 70)), past=70, future=0,
         turns=(torch.arange(float(t)), torch.arange(float(t)), "half", 10000.0, 4, 0))
    case(book, "long_cache", b=1, tq=5, tk=t, h=2, hk=1, d=4, with_map=False, causal=True)
    book.write()
