"""Encodings from their formulas, in double. The functions without "case" in the name are used by the
attention and the model oracle as well."""
import math

import torch
import torch.nn.functional as F

from oracle_book import leaf, numbers


# ---- formulas ----------------------------------------------------------------------------------------

def frequencies(dim, base):
    return torch.tensor([base ** (-2.0 * i / dim) for i in range((dim + 1) // 2)])


def sinusoidal(pos, width, base):
    """sin, cos, sin, cos ...; with an odd width the last column is the sine of the last frequency"""
    angle = pos[:, None] * frequencies(width, base)[None, :]
    table = torch.stack([torch.sin(angle), torch.cos(angle)], -1).reshape(len(pos), -1)
    return table[:, :width]


def turn(x, angle, layout, offset=0):
    """Turns pairs of channels of x (B,T,H,D) by angle (B or 1, T, pairs), starting at channel offset."""
    pairs = angle.shape[-1]
    before, middle, after = x[..., :offset], x[..., offset:offset + 2 * pairs], x[..., offset + 2 * pairs:]
    cosine, sine = torch.cos(angle)[:, :, None, :], torch.sin(angle)[:, :, None, :]
    if layout == "interleaved":
        a, b = middle[..., 0::2], middle[..., 1::2]
    else:
        a, b = middle[..., :pairs], middle[..., pairs:]
    a, b = a * cosine - b * sine, a * sine + b * cosine
    middle = torch.stack([a, b], -1).flatten(-2) if layout == "interleaved" else torch.cat([a, b], -1)
    return torch.cat([before, middle, after], -1)


def rope(x, pos, layout, base, dim=None, offset=0, scale=None):
    """pos (T) or (B,T)"""
    dim = dim or x.shape[-1]
    w = frequencies(dim, base)
    if scale is not None:
        w = w * scale
    pos = pos if pos.dim() == 2 else pos[None]
    return turn(x, pos[:, :, None] * w, layout, offset)


def alibi_slopes(heads, bias_max=8.0):
    whole = 2 ** int(math.floor(math.log2(heads)))
    slopes = [2.0 ** (-bias_max * (h + 1) / whole) for h in range(whole)]
    slopes += [2.0 ** (-bias_max / 2 * (2 * k + 1) / whole) for k in range(heads - whole)]
    return torch.tensor(slopes)


def distances(past, future):
    """query minus key for each entry of a bias vector"""
    return torch.arange(-future, past + 1)


def alibi(heads, past, future, bias_max=8.0):
    return -alibi_slopes(heads, bias_max)[:, None] * distances(past, future).abs()[None, :]


def relative(table, clip, past, future):
    row = (-distances(past, future)).clamp(-clip, clip) + clip            # key minus query
    return table[row].T


def t5_bucket(distance, buckets, max_distance, bidirectional):
    """distance is query minus key; one Python integer at a time, straight from the definition"""
    behind, first = max(distance, 0), 0
    if bidirectional:
        buckets //= 2
        first = buckets if distance < 0 else 0        # keys after the query have the second half
        behind = abs(distance)
    exact = buckets // 2
    if behind < exact:
        return first + behind
    far = math.log(behind / exact) / math.log(max_distance / exact) * (buckets - exact)
    return first + min(buckets - 1, exact + int(far))


def t5(table, buckets, max_distance, bidirectional, past, future):
    row = torch.tensor([t5_bucket(int(d), buckets, max_distance, bidirectional)
                        for d in distances(past, future)])
    return table[row].T


# ---- cases -------------------------------------------------------------------------------------------

def sinusoidal_cases(book):
    pos = torch.tensor([0.0, 1.0, 2.0, 17.0, 3.25, -2.5, 4096.0, 131071.0, 1048575.0, 16777217.0])
    book.put("sinusoidal.pos", pos, exact=True)
    for case, width, base in (("sinusoidal.even", 12, 10000.0), ("sinusoidal.odd", 7, 10000.0),
                              ("sinusoidal.base", 6, 100.0)):
        book.put(case, sinusoidal(pos, width, base))
        book.put(case + ".base", torch.tensor(base), exact=True)


def rope_cases(book):
    pos = torch.tensor([1.0, 2.0, 7.0, 2.5, 1000.0, 131071.0, 1048575.0, 16777217.0])
    b, t, h, d = 2, len(pos), 3, 8
    x, dy = numbers("rope.x", b, t, h, d), numbers("rope.dy", b, t, h, d)
    book.put_all("rope", x=x, dy=dy)
    book.put("rope.pos", pos, exact=True)
    for layout in ("interleaved", "half"):
        for base in (10000.0, 500000.0):
            xs = leaf(x)
            y = rope(xs, pos, layout, base)
            y.backward(dy)
            assert torch.allclose(y.norm(dim=-1), x.norm(dim=-1), rtol=1e-12)     # a turn keeps lengths
            book.put_all(f"rope.{layout}.{int(base)}", y=y, dx=xs.grad)


def lrope_cases(book):
    pos = torch.tensor([0.0, 1.0, 4.0, 9.0, 33.0, 2.5])
    b, t, h, d = 2, len(pos), 3, 6
    x, dy = numbers("lrope.x", b, t, h, d), numbers("lrope.dy", b, t, h, d)
    scale = numbers("lrope.scale", d // 2, scale=0.3, shift=1.0)
    book.put_all("lrope", x=x, dy=dy, scale=scale)
    book.put("lrope.pos", pos, exact=True)
    for layout in ("interleaved", "half"):
        xs, s = leaf(x), leaf(scale)
        y = rope(xs, pos, layout, 10000.0, scale=s)
        y.backward(dy)
        book.put_all("lrope." + layout, y=y, dx=xs.grad, dscale=s.grad)


def added_cases(book):
    rows, c, b = 6, 5, 2
    pos = torch.tensor([0.0, 3.0, 3.0, 5.0, 1.6, 2.4, 6.0, -1.0])         # twice row 3; two outside the table
    inside = (pos.round() >= 0) & (pos.round() < rows)
    row = pos.round().clamp(0, rows - 1).long()
    x, dx = numbers("learned.x", b, len(pos), c), numbers("learned.dx", b, len(pos), c)
    table = leaf(numbers("learned.table", rows, c))
    y = x + F.embedding(row, table) * inside[:, None]
    y.backward(dx)
    book.put_all("learned", x=x, table=table, y=y, dx=dx, dtable=table.grad)
    book.put("learned.pos", pos, exact=True)

    t, c, hidden, length = 6, 5, 7, 4.0
    pos = torch.tensor([0.0, 1.0, 2.0, 3.5, 4.0, 9.0])                    # past the length as well
    shapes = {"w1": (hidden, 1), "b1": (hidden,), "w2": (hidden, hidden), "b2": (hidden,), "w3": (c, hidden),
              "b3": (c,)}
    w = {k: leaf(numbers("continuous." + k, *s, scale=0.7)) for k, s in shapes.items()}
    x, dx = numbers("continuous.x", b, t, c), numbers("continuous.dx", b, t, c)
    h1 = F.relu(F.linear((pos / length)[:, None], w["w1"], w["b1"]))
    h2 = F.relu(F.linear(h1, w["w2"], w["b2"]))
    y = x + F.linear(h2, w["w3"], w["b3"])
    y.backward(dx)
    assert 0.2 < (h1 > 0).double().mean() < 0.9 and 0.2 < (h2 > 0).double().mean() < 0.9
    book.put_all("continuous", x=x, dx=dx, y=y, **w, **{"d" + k: p.grad for k, p in w.items()})
    book.put("continuous.pos", pos, exact=True)


def bias_cases(book):
    for heads in (4, 6, 8, 12):
        book.put(f"alibi.slopes.{heads}", alibi_slopes(heads))
    book.put("alibi.slopes.6.max4", alibi_slopes(6, 4.0))
    book.put("alibi.bias", alibi(6, 9, 4))

    heads, clip, past, future = 3, 3, 7, 5
    table, dbias = leaf(numbers("relative.table", 2 * clip + 1, heads)), numbers("relative.dbias", heads,
                                                                                 future + 1 + past)
    bias = relative(table, clip, past, future)
    bias.backward(dbias)
    book.put_all("relative", table=table, bias=bias, dbias=dbias, dtable=table.grad)

    for buckets, max_distance in ((32, 128), (8, 20)):
        for bidirectional in (0, 1):
            case = f"t5.{buckets}.{max_distance}.{bidirectional}"
            book.put(case + ".bucket", torch.tensor([t5_bucket(d, buckets, max_distance, bool(bidirectional))
                                                     for d in range(-300, 301)]))
            past, future = 40, 30
            table = leaf(numbers(case + ".table", buckets, heads))
            dbias = numbers(case + ".dbias", heads, future + 1 + past)
            bias = t5(table, buckets, max_distance, bool(bidirectional), past, future)
            bias.backward(dbias)
            book.put_all(case, table=table, bias=bias, dbias=dbias, dtable=table.grad)

    heads, tq, tk, past, future = 2, 3, 7, 4, 1       # the last query is the last key; both ends are clamped
    vector, scores = numbers("expand.bias", heads, future + 1 + past), numbers("expand.scores", heads, tq, tk)
    d = (torch.arange(tq)[:, None] + tk - tq) - torch.arange(tk)[None, :]
    book.put_all("expand", bias=vector, scores=scores, out=scores + vector[:, d.clamp(-future, past) + future])


def write(book):
    sinusoidal_cases(book)
    rope_cases(book)
    lrope_cases(book)
    added_cases(book)
    bias_cases(book)
    book.write()
