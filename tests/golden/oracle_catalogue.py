"""The catalogue: every encoding with every key, from its formula in double, gradients by autograd.

A case is a spec string and the positions, parameters and inputs it is tried on; what must come out is stored
beside them, so that one loop of C can walk over all of them. The keys are read out of the very string that is
stored: the formula and the spec cannot drift apart."""
import math

import numpy as np
import torch
import torch.nn.functional as F

from oracle_book import leaf, numbers, single
from oracle_encodings import alibi_slopes, distances, frequencies, relative, t5, turn


class Keys(dict):
    """name:key=value,key=value. Zero means default, as in the library."""

    def __init__(self, spec):
        name, _, rest = spec.partition(":")
        super().__init__(pair.split("=") for pair in rest.split(",") if rest)
        self.name = name

    def word(self, key, default):
        return self.get(key, default)

    def number(self, key, default=0.0):
        return float(self.get(key, 0)) or default

    def whole(self, key, default=0):
        return int(self.number(key, default))

    def list(self, key):
        return torch.tensor([float(x) for x in self[key].split("/")])


# ---- grids -------------------------------------------------------------------------------------------

def coordinates(k, pos, axes):
    """(T,axes). Coordinates pass; a token's index is split by the width, or the width and the height, of its grid."""
    if pos.shape[1] == axes:
        return pos
    p, width = pos[:, 0], k.whole("width")
    if axes == 3:
        area = width * k.whole("height")
        t = torch.floor(p / area)
        return torch.cat([t[:, None], coordinates(k, (p - area * t)[:, None], 2)], 1)
    row = torch.floor(p / width)
    return torch.stack([row, p - width * row], 1)


def sizes(k, context, axes):
    """how long each axis is"""
    return torch.tensor([k.number("length", context)] if axes == 1 else [k.number("height"), k.number("width")])


# ---- embedding: rows (T,C) from pos (T,axes) and parameters --------------------------------------------

def halves(sines, cosines, layout):
    """Columns of the two tables in the order of the layout; one of them may have one column more."""
    if layout == "concat":
        return torch.cat([sines, cosines], 1)
    if layout == "cosfirst":
        return torch.cat([cosines, sines], 1)
    columns = [x for pair in zip(sines.T, cosines.T) for x in pair] + list(sines.T[cosines.shape[1]:])
    return torch.stack(columns, 1)


def waves(p, width, base, layout="interleaved", rule="paper"):
    if rule == "paper":
        angle, few, many = p[:, None] * frequencies(width, base), width // 2, (width + 1) // 2
        sines, cosines = (few, many) if layout == "cosfirst" else (many, few)
        return halves(torch.sin(angle[:, :sines]), torch.cos(angle[:, :cosines]), layout)
    n = width // 2
    angle = p[:, None] * torch.tensor([base ** (-i / max(n - 1, 1)) for i in range(n)])
    table = halves(torch.sin(angle), torch.cos(angle), layout)
    return torch.cat([table, torch.zeros(len(p), width - 2 * n)], 1)      # fairseq: an odd width ends with a zero


def sinusoidal(k, c, pos, w):
    table = waves(pos[:, 0], c.channels, k.number("base", 1e4), k.word("layout", "interleaved"),
                  k.word("frequencies", "paper"))
    return w["scale"] * table if k.whole("scaled") else table


def sinonly(k, c, pos, w):
    return torch.sin(pos * torch.tensor([k.number("base", 1e4) ** (-j / c.channels) for j in range(c.channels)]))


def digits(k, c, pos, radix):
    """(T,C) digits, most significant first, and which channels hold one. By division, one digit at a time."""
    n, left = k.whole("digits", c.channels), pos[:, 0].long()
    columns = []
    for _ in range(n):
        columns.insert(0, left % radix)
        left = left // radix
    assert (left == 0).all()
    table = torch.stack([torch.zeros_like(left)] * (c.channels - n) + columns, 1).double()
    return table, torch.arange(c.channels) >= c.channels - n


def binary(k, c, pos, w):
    return digits(k, c, pos, 2)[0]


def binary_norm(k, c, pos, w):
    bits, used = digits(k, c, pos, 2)
    return (2 * bits - 1) * used


def decimal(k, c, pos, w):
    return digits(k, c, pos, 10)[0]


def decimal_norm(k, c, pos, w):
    tens, used = digits(k, c, pos, 10)
    return (tens - 4.5) / 4.5 * used


def integer(k, c, pos, w):
    row = torch.zeros(c.channels)
    row[:1 if k.word("spread", "all") == "first" else c.channels] = 1
    return pos / k.number("length", c.context) * row


def learned(k, c, pos, w):
    return F.embedding((pos[:, 0] + k.whole("offset")).long(), w["weight"])


def continuous(k, c, pos, w):
    depth, x = k.whole("depth", 2), pos / k.number("length", c.context)
    for i in range(1, depth + 1):
        x = F.relu(F.linear(x, w[f"w{i}"], w[f"b{i}"]))
        assert 0.1 < (x > 0).double().mean() < 0.95   # some of each side
    return F.linear(x, w[f"w{depth + 1}"], w[f"b{depth + 1}"])


def sincos2d(k, c, pos, w):
    at, block = coordinates(k, pos, 2), 2 * math.ceil(c.channels / 4)
    axes = (1, 0) if k.whole("swap") else (0, 1)
    blocks = [waves(at[:, a], block, k.number("base", 1e4), k.word("layout", "interleaved")) for a in axes]
    return torch.cat(blocks, 1)[:, :c.channels]


def sincos3d(k, c, pos, w):
    at, block = coordinates(k, pos, 3), 2 * math.ceil(c.channels / 6)
    return torch.cat([waves(at[:, a], block, k.number("base", 1e4)) for a in range(3)], 1)[:, :c.channels]


def spaced(first, last, n):
    return torch.tensor([first + (last - first) * i / (n - 1) if n > 1 else first for i in range(n)])


def bands(k, c, n):
    resolution = k.number("resolution", k.number("length", c.context))
    if k.word("bands", "linear") == "linear":
        return spaced(1.0, resolution / 2, n)
    return 2.0 ** spaced(0.0, math.log2(resolution) - 1, n)


def fourier(k, c, pos, w):
    axes = k.whole("axes", 1)
    u = -1 + 2 * coordinates(k, pos, axes) / (sizes(k, c.context, axes) - 1)
    n = c.channels // (2 * axes)
    angle = (math.pi * u[:, :, None] * bands(k, c, n)).flatten(1)         # axis-major
    return F.pad(torch.cat([torch.sin(angle), torch.cos(angle)], 1), (0, c.channels - 2 * axes * n))


def random_fourier(k, c, pos, w):
    axes = k.whole("axes", 1)
    u = 2 * coordinates(k, pos, axes) / sizes(k, c.context, axes) - 1
    angle = 2 * math.pi * u @ w["weight"].T
    return torch.cat([torch.sin(angle), torch.cos(angle)], 1)


def learned_fourier(k, c, pos, w):
    axes = k.whole("axes", 1)
    a = coordinates(k, pos, axes) / sizes(k, c.context, axes) @ w["wr"].T
    r = torch.cat([torch.sin(a), torch.cos(a)], 1) / k.number("features", c.channels) ** 0.5
    return F.linear(F.gelu(F.linear(r, w["w1"], w["b1"])), w["w2"], w["b2"])


# ---- queries and keys: angles and magnitudes -----------------------------------------------------------

class Turn:
    """angle (T,pairs), magnitudes of queries and of keys (T or 1, pairs or 1), and what made them"""

    def __init__(self, angle, query=1.0, key=None, frequency=None, magnitude=None, length=None):
        self.angle, self.frequency, self.magnitude, self.length = angle, frequency, magnitude, length
        ones = torch.ones_like(angle)
        self.query, self.key = ones * query, ones * (query if key is None else key)

    def apply(self, x, magnitude, layout, offset):
        """x (T,H,D); channels outside the slice pass unchanged, magnitude and all"""
        m = torch.cat([magnitude] * 2, 1) if layout == "half" else magnitude.repeat_interleave(2, 1)
        m = F.pad(m, (offset, x.shape[-1] - offset - m.shape[1]), value=1.0)
        return turn(x[None], self.angle[None], layout, offset)[0] * m[:, None]


def linear(k, w, base, dim, length):
    return w / k.number("factor"), 1.0


def ntk(k, w, base, dim, length):
    return frequencies(dim, base * k.number("factor") ** (dim / (dim - 2))), 1.0


def dynamic(k, w, base, dim, length):
    s, trained = k.number("factor"), k.number("original")
    grown = s * max(length, trained) / trained - (s - 1)
    return frequencies(dim, base * grown ** (dim / (dim - 2))), 1.0


def yarn(k, w, base, dim, length):
    s, trained = k.number("factor"), k.number("original")
    low, high = (dim * math.log(trained / (2 * math.pi * turns)) / (2 * math.log(base))
                 for turns in (k.number("fast", 32.0), k.number("slow", 1.0)))
    if k.whole("truncate", 1) > 0:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    high += 0.001 if high == low else 0
    ramp = ((torch.arange(dim // 2) - low) / (high - low)).clamp(0, 1)

    def grown(mscale):
        return 1.0 if s <= 1 else 0.1 * mscale * math.log(s) + 1.0

    both = k.number("mscale") and k.number("mscale_all")
    m = grown(k.number("mscale")) / grown(k.number("mscale_all")) if both else grown(1.0)
    return w / s * ramp + w * (1 - ramp), k.number("attention", m)


def llama3(k, w, base, dim, length):
    s, low, high, trained = (k.number(*x) for x in (("factor", 8.0), ("low", 1.0), ("high", 4.0),
                                                    ("original", 8192.0)))
    out = []
    for f in w.tolist():
        wavelength = 2 * math.pi / f
        t = (trained / wavelength - low) / (high - low)
        out.append(f if wavelength < trained / high else f / s if wavelength > trained / low
                   else f * ((1 - t) / s + t))
    return torch.tensor(out), 1.0


def longrope(k, w, base, dim, length):
    s, trained = k.number("factor"), k.number("original")
    m = 1.0 if s <= 1 else math.sqrt(1 + math.log(s) / math.log(trained))
    return w / k.list("long" if length > trained else "short"), k.number("attention", m)


def proportional(k, w, base, dim, length):
    turning = int(k.number("proportion", 1.0) * dim / 2)
    return w / k.number("factor", 1.0) * (torch.arange(dim // 2) < turning), 1.0


def factors(k, w, base, dim, length):
    return w / k.list("long"), k.number("attention", 1.0)


SCALINGS = {f.__name__: f for f in (linear, ntk, dynamic, yarn, llama3, longrope, proportional, factors)}
BY_LENGTH = ("dynamic", "longrope")


def scaled(k, dim, length):
    """frequencies (pairs) and magnitude of rope's keys"""
    base = k.number("base", 1e4)
    w = frequencies(dim, base)
    return SCALINGS[k["scaling"]](k, w, base, dim, length) if "scaling" in k else (w, 1.0)


def rope(k, c, pos, w):
    dim = k.whole("dim", c.width if k.word("over", "head") == "head" else c.heads * c.width)
    grows = k.get("scaling") in BY_LENGTH and not k.number("length")
    length = float(pos.max()) + 1 if grows else k.number("length")
    f, m = scaled(k, dim, length)
    return Turn(pos * f, m, frequency=f[None], magnitude=m, length=length if grows else None)


def lrope(k, c, pos, w):
    return Turn(pos * frequencies(k.whole("dim", c.width), k.number("base", 1e4)) * w["scale"])


def axial(at, per_axis, **more):
    """pairs of the first axis, then of the second"""
    empty = torch.zeros_like(per_axis[0])
    f = torch.stack([torch.cat([per_axis[0], empty]), torch.cat([empty, per_axis[1]])])
    return Turn(at @ f, frequency=f, **more)


def rope2d(k, c, pos, w):
    dim, base = k.whole("dim", c.width), k.number("base", 1e4)
    at = coordinates(k, pos, 2) / k.number("factor", 1.0)
    if k.word("split", "halves") == "alternate":
        f = frequencies(dim, base)
        return axial(at, (f[0::2], f[1::2]))
    return axial(at, (torch.tensor([base ** (-4 * i / dim) for i in range(dim // 4)]),) * 2)


def rope_pixel(k, c, pos, w):
    dim = k.whole("dim", c.width)
    at = -1 + 2 * coordinates(k, pos, 2) / (sizes(k, c.context, 2) - 1)
    f = math.pi * 2.0 ** spaced(0.0, math.log2(k.number("resolution", 256.0)) - 1, dim // 4)
    return axial(at, (f, f))


def rope_dino(k, c, pos, w):
    dim, base = k.whole("dim", c.width), k.number("base", 100.0)
    at = 2 * (coordinates(k, pos, 2) + 0.5) / sizes(k, c.context, 2) - 1
    f = 2 * math.pi * torch.tensor([base ** (-4 * i / dim) for i in range(dim // 4)])
    return axial(at, (f, f))


def mrope(k, c, pos, w):
    dim = k.whole("dim", c.width)
    pairs, side = dim // 2, 3 * (dim // 2) // 8
    t, h, wide = [int(x) for x in k.list("sections")] if "sections" in k else (pairs - 2 * side, side, side)
    if k.word("order", "chunked") == "chunked":
        assert t + h + wide == pairs
        axis = [0] * t + [1] * h + [2] * wide
    else:
        axis = [1 if i % 3 == 1 and i < 3 * h else 2 if i % 3 == 2 and i < 3 * wide else 0 for i in range(pairs)]
    f = frequencies(dim, k.number("base", 1e4)) * (torch.arange(3)[:, None] == torch.tensor(axis))
    return Turn(pos.expand(-1, 3) @ f, frequency=f)


def xpos(k, c, pos, w):
    dim = k.whole("dim", c.width)
    f = frequencies(dim, k.number("base", 1e4))
    zeta = torch.tensor([(2 * i + 0.4 * dim) / (1.4 * dim) for i in range(dim // 2)])
    power = (pos - k.number("center", c.context / 2)) / k.number("scale_base", 512.0)
    return Turn(pos * f, zeta ** power, zeta ** -power, frequency=f[None])


def temperature(k, p):
    rate, n = k.number("rate", 0.1), k.number("original", 8192.0)
    form = k.word("form", "llama4")
    if form == "llama4":
        return 1 + rate * math.log(1 + math.floor((p + 1) / n))
    if form == "ministral":
        return 1 + rate * math.log(1 + math.floor(p / n))
    if form == "smooth":
        return 1 + rate * math.log(max(1.0, (p + 1) / n))
    return max(1.0, math.log(p + 1) / math.log(n))


def qtemp(k, c, pos, w):
    """no turn: every pair by the angle 0, and the query by its temperature"""
    on = (c.layer + 1) % k.whole("every", 1) == 0
    tau = torch.tensor([[temperature(k, p) if on else 1.0] for p in pos[:, 0].tolist()])
    return Turn(torch.zeros(len(pos), c.width // 2), tau, 1.0)


# ---- scores: bias (H, future+1+past), entry d + future, d = query - key --------------------------------

def relative_bias(k, c, w):
    far = k.whole("distance", 128)
    if k.whole("bidirectional", 1) > 0:
        return relative(w["weight"], far, *c.reach)
    return w["weight"][distances(*c.reach).clamp(0, far)].T


def alibi(k, c, w):
    heads = k.whole("heads", c.heads)
    slopes = F.pad(alibi_slopes(heads, k.number("bias_max", 8.0)), (0, c.heads - heads))
    return -slopes[:, None] * distances(*c.reach).abs()


def lalibi(k, c, w):
    return -torch.exp(w["slope"]) * distances(*c.reach).abs()


def t5_bias(k, c, w):
    return t5(w["weight"], k.whole("buckets", 32), k.whole("distance", 128), k.whole("bidirectional", 1) > 0,
              *c.reach)


def swin(k, c, w):
    wide, high = k.whole("width"), k.whole("height")
    return w["weight"][distances(*c.reach) + (high - 1) * (2 * wide - 1) + wide - 1].T


def swin_line(k, pos):
    """where the tokens of a window stand on the line"""
    at = coordinates(k, pos, 2)
    return at[:, 0] * (2 * k.whole("width") - 1) + at[:, 1]


def kerple(k, c, w):
    d, power = distances(*c.reach).abs().double(), k.word("form", "log") == "power"
    r1 = w["weight"][:, :1].clamp(min=0.01)
    r2 = w["weight"][:, 1:].clamp(min=0.01, max=2.0 if power else None)
    return -r1 * d ** r2 if power else -r1 * torch.log(1 + r2 * d)


def sandwich(k, c, w):
    n, d = k.whole("buckets", 128), distances(*c.reach)
    total = sum(torch.cos(d * 10000.0 ** (-2 * i / n)) for i in range(1, n // 2 + 1)) - n / 2
    return torch.stack([total / (8 * (h + 1) / c.heads) for h in range(c.heads)])


EMBEDDING = {f.__name__: f for f in (sinusoidal, sinonly, binary, binary_norm, decimal, decimal_norm, integer, learned,
                                     continuous, sincos2d, sincos3d, fourier, random_fourier, learned_fourier)}
EMBEDDING["sininit"] = learned
QUERY_KEY = {f.__name__: f for f in (rope, lrope, rope2d, rope_pixel, rope_dino, mrope, xpos, qtemp)}
SCORE = {"relative": relative_bias, "alibi": alibi, "lalibi": lalibi, "t5": t5_bias, "swin": swin, "kerple": kerple,
         "sandwich": sandwich}
FROZEN = ("random_fourier",)


# ---- parameters ----------------------------------------------------------------------------------------

def network(*widths):
    """shapes of linear layers w1, b1, w2, b2 ..."""
    pairs = list(zip(widths[1:], widths))
    return {f"{x}{i + 1}": (wide, tall)[:2 if x == "w" else 1] for i, (wide, tall) in enumerate(pairs) for x in "wb"}


def shapes(k, c):
    name, hidden, axes = k.name, k.whole("hidden", 128), k.whole("axes", 1)
    n = k.whole("features", c.channels)
    if name in ("learned", "sininit"):
        return {"weight": (k.whole("rows", c.context + k.whole("offset")), c.channels)}
    if name == "continuous":
        return network(*[1] + [hidden] * k.whole("depth", 2) + [c.channels])
    if name == "learned_fourier":
        return {"wr": (n // 2, axes), **network(n, hidden, c.channels)}
    if name == "relative":
        return {"weight": (k.whole("distance", 128) * (2 if k.whole("bidirectional", 1) > 0 else 1) + 1, c.heads)}
    window = (2 * k.whole("height") - 1) * (2 * k.whole("width") - 1)
    return {"sinusoidal": {"scale": (1,)} if k.whole("scaled") else {},
            "random_fourier": {"weight": (c.channels // 2, axes)},
            "lrope": {"scale": (k.whole("dim", c.width) // 2,)}, "lalibi": {"slope": (c.heads, 1)},
            "t5": {"weight": (k.whole("buckets", 32), c.heads)}, "swin": {"weight": (window, c.heads)},
            "kerple": {"weight": (c.heads, 2)}}.get(name, {})


def starts(k, c):
    """what the parameters begin with where it is not drawn"""
    if k.name == "sininit":
        rows, width = shapes(k, c)["weight"]
        return {"weight": waves(torch.arange(rows).double(), width, k.number("base", 1e4))}
    if k.name == "lalibi":
        return {"slope": torch.log(alibi_slopes(c.heads, k.number("bias_max", 8.0)))[:, None]}
    if k.name == "sinusoidal" and k.whole("scaled"):
        return {"scale": torch.tensor([c.channels ** -0.5])}
    return {"scale": torch.ones(shapes(k, c)["scale"])} if k.name == "lrope" else {}


SPREAD = {"lrope": (0.3, 1.0), "continuous": (0.7, 0.0), "lalibi": (0.6, -1.5), "sinusoidal": (0.3, 0.6)}


# ---- a case --------------------------------------------------------------------------------------------

class Case:
    def __init__(self, name, keys="", pos=(), channels=None, heads=2, width=8, context=32, causal=0, reach=None,
                 layer=None, weights=None):
        heads, width = (1, channels) if channels else (heads, width)      # rows of an embedding know no heads
        self.name, self.encoding = name, name.split(".")[0]
        self.spec = self.encoding + (":" + keys if keys else "")
        self.keys = Keys(self.spec)
        self.heads, self.width, self.channels = heads, width, heads * width
        self.context, self.causal, self.reach, self.layer = context, causal, reach, layer or 0
        self.says_layer = layer is not None
        pos = torch.tensor(pos, dtype=torch.float64)
        self.pos = pos[:, None] if pos.dim() == 1 else pos
        scale, shift = SPREAD.get(self.encoding, (1.0, 0.0))
        self.weights = weights or {n: numbers(f"{name}.{n}", *s, scale=scale, shift=shift)
                                   for n, s in shapes(self.keys, self).items()}
        self.shape = [self.channels, self.heads, self.width, self.context, self.causal]
        self.out = None

    def draw(self, what, *shape):
        return numbers(f"{self.name}.{what}", *shape)

    def results(self):
        """name -> float64 tensor: inputs that were drawn and everything that must come out"""
        if self.out is None:
            kind = embedding_results if self.encoding in EMBEDDING else \
                query_key_results if self.encoding in QUERY_KEY else score_results
            w = {n: leaf(single(x)) for n, x in self.weights.items()}
            self.out = kind(self, w)
            if self.encoding not in FROZEN:
                self.out.update({f"dw.{n}": torch.zeros_like(x) if rests(self) else x.grad for n, x in w.items()})
            self.out = {n: x.detach() for n, x in self.out.items()}
        return self.out


def embedding_results(c, w):
    rows = EMBEDDING[c.encoding](c.keys, c, c.pos, w)
    drows = c.draw("drows", len(c.pos), c.channels)
    assert rows.shape == drows.shape
    if w and c.encoding not in FROZEN:
        rows.backward(drows)
    return {"rows": rows, "drows": drows}


def rests(c):
    """a layer that does not turn"""
    every = c.keys.whole("nope_every")
    return every > 0 and (c.layer + 1) % every == 0


def turned(c, x, w, key):
    """x (T,H,D) as a query or as a key"""
    k, t = c.keys, QUERY_KEY[c.encoding](c.keys, c, c.pos, w)
    if rests(c):
        return x * 1, t
    flat = x.reshape(len(x), 1, -1) if k.word("over", "head") == "width" else x
    y = t.apply(flat, t.key if key else t.query, k.word("layout", "half"), k.whole("offset"))
    return y.reshape(x.shape), t


def query_key_results(c, w):
    shape = len(c.pos), c.heads, c.width
    out = {"x": c.draw("x", *shape), "dy": c.draw("dy", *shape)}
    for side in "qk":
        x = leaf(out["x"])
        y, t = turned(c, x, w, side == "k")
        y.backward(out["dy"])
        out.update({"y" + side: y, "dx" + side: x.grad})
    if t.frequency is not None and not (c.encoding == "rope2d" and "factor" in c.keys):
        out["frequency"] = t.frequency
    out.update({n: torch.tensor([x]) for n, x in (("magnitude", t.magnitude), ("length", t.length)) if x is not None})
    return out


def score_results(c, w):
    bias = SCORE[c.encoding](c.keys, c, w)
    dbias = c.draw("dbias", c.heads, sum(c.reach) + 1)
    assert bias.shape == dbias.shape
    if w:
        bias.backward(dbias)
    return {"bias": bias, "dbias": dbias}


# ---- the list ------------------------------------------------------------------------------------------

NEAR = [3, 1, 7, 7, 2.5, 40]                          # out of order, twice 7, one between tokens
FAR = [7, 1, 2, 7, 2.5, 131071, 1048575, 16777217]    # the last one is no float32
ROWS = [3, 0, 6, 3, 8, 1]
TOKENS = [7, 1, 23, 7, 11, 0, 16]
CELLS = [[1, 4], [3, 0], [1, 4], [0, 2.5], [2, 1], [3.25, 4]]
FAR_CELLS = [[1, 4], [3, 0], [1, 4], [0, 2.5], [1023, 131071], [1048575, 16777217]]
FILM = [[1, 2, 4], [0, 1, 0], [1, 2, 4], [2.5, 0, 3], [2, 0, 1], [131071, 5, 1048575]]
TEXT = [[1, 2, 4], [5, 5, 5], [9, 3, 7], [5, 5, 5], [2.5, 0, 3], [131071, 5, 1048575]]
LISTS = "short=1/1.25/1.5/2/2.5/3/3.5/4,long=1/1.5/2/3/4/6/8/16"


def embedding_cases():
    s = [("paper", "base=10000", 12), ("odd", "base=10000,layout=interleaved", 7),
         ("concat", "layout=concat", 10), ("concat_odd", "layout=concat", 9),
         ("cosfirst", "layout=cosfirst", 8), ("cosfirst_odd", "layout=cosfirst,base=100", 7),
         ("t2t", "frequencies=t2t", 12), ("t2t_odd", "frequencies=t2t", 7),
         ("t2t_concat", "frequencies=t2t,layout=concat,base=500", 12),
         ("t2t_concat_odd", "frequencies=t2t,layout=concat", 9),
         ("t2t_cosfirst", "frequencies=t2t,layout=cosfirst", 10),
         ("t2t_cosfirst_odd", "frequencies=t2t,layout=cosfirst", 7), ("t2t_three", "frequencies=t2t,layout=concat", 3)]
    for label, keys, c in s:
        yield Case("sinusoidal." + label, keys, FAR, c)
    yield Case("sinusoidal.scaled", "scaled=1,layout=concat,base=500", NEAR, 8)
    yield Case("sinusoidal.scaled_odd", "scaled=1", NEAR, 7)
    yield Case("sinonly.plain", "base=10000", FAR, 7)
    yield Case("sinonly.base", "base=300", NEAR, 6)

    small, large = [5, 2, 63, 5, 0, 32], [5, 131071, 1048575, 16777217, 5, 33554431]
    for norm in ("", "_norm"):
        yield Case(f"binary{norm}.all", "", [5, 2, 63, 5, 0, 511], 9)
        yield Case(f"binary{norm}.digits", "digits=6", small, 10)
        yield Case(f"binary{norm}.wide", "digits=25", large, 26)
        yield Case(f"decimal{norm}.all", "", large, 8)
        yield Case(f"decimal{norm}.digits", "digits=3", [7, 904, 63, 7, 0, 999], 7)
    yield Case("integer.all", "", NEAR, 6, context=12)
    yield Case("integer.first", "length=50,spread=first", FAR, 6)

    yield Case("learned.plain", "", ROWS, 6, context=9)
    yield Case("learned.offset", "offset=2,rows=12,init=0.5", ROWS, 7, context=9)
    yield Case("sininit.plain", "base=100", ROWS, 7, context=9)
    yield Case("sininit.offset", "rows=11,offset=2", ROWS, 6, context=9)
    yield Case("continuous.two", "hidden=7,depth=2,length=10,init=0.1", NEAR, 6)
    yield Case("continuous.one", "hidden=9,depth=1", NEAR, 5, context=16)

    yield Case("sincos2d.tokens", "width=5", TOKENS, 12)
    yield Case("sincos2d.cut", "width=5", FAR_CELLS, 10)
    yield Case("sincos2d.swap", "width=6,swap=1", TOKENS, 7)
    yield Case("sincos2d.concat", "width=6,layout=concat,base=500", TOKENS, 12)
    yield Case("sincos2d.concat_swap", "width=5,layout=concat,swap=1", CELLS, 8)
    yield Case("sincos2d.concat_cut", "width=5,layout=concat", CELLS, 10)
    yield Case("sincos3d.tokens", "width=3,height=2", TOKENS, 12)
    yield Case("sincos3d.cut", "width=5,height=3", FILM, 16)
    yield Case("sincos3d.odd", "width=4,height=3,base=100", TOKENS, 7)

    yield Case("fourier.linear", "length=41,resolution=20", NEAR, 11)
    yield Case("fourier.log", "resolution=48,bands=log", NEAR, 12, context=41)
    yield Case("fourier.one_band", "length=41", NEAR, 3)
    yield Case("fourier.grid", "axes=2,height=4,width=6,resolution=16", TOKENS, 14, context=24)
    yield Case("fourier.grid_log", "axes=2,height=4,width=5,resolution=24,bands=log", CELLS, 12, context=20)
    yield Case("random_fourier.line", "length=41,init=2", NEAR, 8)
    yield Case("random_fourier.grid", "axes=2,height=4,width=6", TOKENS, 10, context=24)
    yield Case("random_fourier.cells", "axes=2,height=4,width=5", CELLS, 6, context=20)
    yield Case("learned_fourier.line", "length=10,hidden=5,features=6,init=2", NEAR, 7)
    yield Case("learned_fourier.grid", "axes=2,height=4,width=6,hidden=6", TOKENS, 8, context=24)
    yield Case("learned_fourier.cells", "axes=2,height=4,width=5,hidden=5,features=10", CELLS, 6, context=20)


def rope_cases():
    yield Case("rope.half", "layout=half,base=10000", FAR, heads=3)
    yield Case("rope.interleaved", "layout=interleaved,base=500000", FAR, heads=3)
    yield Case("rope.leading", "dim=6", NEAR, width=10)
    yield Case("rope.trailing", "layout=interleaved,dim=4,offset=6", NEAR, width=10)
    yield Case("rope.middle", "layout=half,dim=6,offset=2,base=100", NEAR, width=12)
    yield Case("rope.over_width", "over=width,layout=interleaved", NEAR, heads=3, width=4)
    yield Case("rope.over_width_half", "over=width,layout=half", NEAR, heads=3, width=6)
    yield Case("rope.nope_turns", "nope_every=2", NEAR[:4], layer=2)
    yield Case("rope.nope_rests", "nope_every=2", NEAR[:4], layer=1)

    beyond, at, over = [9, 1, 8191, 9, 2.5, 4000], [9, 1, 4095, 9, 2.5], [9, 1, 4096, 9, 2.5]
    yield Case("rope.linear", "scaling=linear,factor=4", beyond, width=16)
    yield Case("rope.linear_trailing", "scaling=linear,factor=2.5,dim=8,offset=4,layout=interleaved", beyond, width=12)
    yield Case("rope.ntk", "scaling=ntk,factor=4,layout=interleaved", beyond)
    yield Case("rope.ntk_partial", "scaling=ntk,factor=2,dim=8,base=500000,layout=interleaved", beyond, width=12)
    yield Case("rope.dynamic_below", "scaling=dynamic,factor=2,original=2048", [9, 1, 1000, 9, 2.5])
    yield Case("rope.dynamic_above", "scaling=dynamic,factor=2,original=2048", beyond, width=16)
    yield Case("rope.dynamic_length", "scaling=dynamic,factor=2,original=2048,length=6000", [9, 1, 4000, 9, 2.5])
    yarn_keys = "scaling=yarn,factor=8,original=2048"
    yield Case("rope.yarn", yarn_keys, beyond, width=16)
    yield Case("rope.yarn_untruncated", yarn_keys + ",truncate=-1", beyond, width=16)
    yield Case("rope.yarn_mscale", "scaling=yarn,factor=40,original=4096,mscale=1.2,mscale_all=0.707", beyond)
    yield Case("rope.yarn_attention", yarn_keys + ",mscale=1.2,mscale_all=0.707,attention=1.3", beyond)
    yield Case("rope.yarn_bounds", yarn_keys + ",fast=16,slow=2,dim=12,offset=2,layout=interleaved,base=500000",
               beyond, width=16)
    yield Case("rope.yarn_step", "scaling=yarn,factor=4,original=6", beyond)      # the ramp has no width: 0/0
    yield Case("rope.llama3", "scaling=llama3,factor=8,low=1,high=4,original=8192,base=500000",
               [9, 131071, 1, 16384, 2.5], heads=1, width=32)
    yield Case("rope.llama3_bounds", "scaling=llama3,factor=32,low=2,high=16,original=1024", beyond, width=16)
    yield Case("rope.longrope_at", f"scaling=longrope,factor=32,original=4096,{LISTS}", at, width=16)
    yield Case("rope.longrope_over", f"scaling=longrope,factor=32,original=4096,{LISTS}", over, width=16)
    yield Case("rope.longrope_length", f"scaling=longrope,factor=32,original=4096,attention=1.1,length=4097,{LISTS}",
               at, width=16)
    yield Case("rope.proportional", "scaling=proportional,proportion=0.25,base=1000000", beyond, heads=1, width=32)
    yield Case("rope.proportional_factor", "scaling=proportional,proportion=0.8,factor=8", beyond, width=12)
    yield Case("rope.factors", "scaling=factors,long=1/1.5/3/0.5", beyond)
    yield Case("rope.factors_attention", "scaling=factors,long=1/1.5/3,attention=1.2,dim=6,offset=1", beyond)


def query_key_cases():
    yield from rope_cases()
    yield Case("lrope.half", "layout=half", NEAR, width=10)
    yield Case("lrope.trailing", "layout=interleaved,dim=6,offset=4,base=500", NEAR, heads=3, width=10)
    yield Case("lrope.nope", "nope_every=3", NEAR[:4], layer=2)

    yield Case("rope2d.tokens", "width=6,layout=interleaved", TOKENS, width=8)
    yield Case("rope2d.cells", "width=5,layout=half,base=100", FAR_CELLS, width=12)
    yield Case("rope2d.alternate", "width=6,split=alternate", TOKENS, width=12)
    yield Case("rope2d.alternate_cells", "width=5,split=alternate,base=500", CELLS, width=8)
    yield Case("rope2d.factor", "width=6,factor=2,layout=interleaved", TOKENS, width=8)
    yield Case("rope2d.trailing", "width=6,dim=8,offset=4,layout=interleaved", TOKENS, width=12)
    yield Case("rope_pixel.tokens", "width=6,height=4,resolution=64,layout=interleaved", TOKENS, width=12, context=24)
    yield Case("rope_pixel.cells", "width=5,height=4,resolution=256,layout=half", CELLS, width=8, context=20)
    yield Case("rope_pixel.trailing", "width=6,height=4,resolution=20,dim=8,offset=3", TOKENS, width=12, context=24)
    yield Case("rope_dino.tokens", "width=6,height=4,layout=half,base=100", TOKENS, width=12, context=24)
    yield Case("rope_dino.cells", "width=5,height=4,layout=interleaved,base=50", CELLS, width=8, context=20)

    yield Case("mrope.chunked", "sections=2/3/3,order=chunked,base=1000000", TEXT, width=16)
    yield Case("mrope.chunked_uneven", "sections=1/2/3", TEXT, width=12)
    yield Case("mrope.interleaved", "sections=4/2/2,order=interleaved", TEXT, width=16)
    yield Case("mrope.default", "order=chunked", TEXT, width=12)
    yield Case("mrope.text", "sections=2/1/1", NEAR)
    yield Case("mrope.trailing", "sections=2/2/2,order=interleaved,layout=interleaved,dim=12,offset=3", TEXT, width=16)

    yield Case("xpos.center", "center=1000,layout=interleaved", [3, 1, 1, 40, 2.5, 1999], width=8)
    yield Case("xpos.default", "layout=half", NEAR, width=8, context=24, causal=1)
    yield Case("xpos.ceil", "center=5,layout=interleaved,scale_base=512", [3, 1, 8, 8, 0, 5], width=10)
    yield Case("xpos.trailing", "center=20,scale_base=64,dim=6,offset=2,base=500,layout=interleaved", NEAR, width=8)

    steps = [3, 0, 4, 7, 8, 3, 31, 40]                # both sides of each step of 4 and of 8
    yield Case("qtemp.llama4", "form=llama4,rate=0.1,original=4", steps)
    yield Case("qtemp.ministral", "form=ministral,rate=0.5,original=4", steps)
    yield Case("qtemp.smooth", "form=smooth,rate=0.3,original=8", steps)
    yield Case("qtemp.logn", "form=logn,original=8", steps)
    yield Case("qtemp.far", "", [8191, 8190, 1048575, 16383], width=6)
    yield Case("qtemp.every_on", "every=4,original=4", steps[:5], layer=3)
    yield Case("qtemp.every_off", "every=4,original=4", steps[:5], layer=2)


def score_cases():
    yield Case("relative.both", "distance=3,bidirectional=1", heads=3, reach=(7, 5))
    yield Case("relative.past", "distance=4,bidirectional=-1,init=0.1", heads=3, reach=(7, 3), causal=1)
    yield Case("relative.per_layer", "distance=2,per_layer=1", heads=2, reach=(4, 4), layer=1)
    yield Case("alibi.six", "bias_max=8", heads=6, reach=(9, 4))
    yield Case("alibi.twelve", "bias_max=4", heads=12, reach=(6, 0), causal=1)
    yield Case("alibi.some_heads", "heads=3", heads=5, reach=(6, 3))
    yield Case("lalibi.six", "", heads=6, reach=(7, 3))
    yield Case("lalibi.bias_max", "bias_max=4", heads=3, reach=(7, 0), causal=1)
    yield Case("t5.both", "buckets=32,distance=128,bidirectional=1", heads=3, reach=(40, 140))
    yield Case("t5.past", "buckets=32,distance=128,bidirectional=-1", heads=2, reach=(140, 10), causal=1)
    yield Case("t5.small", "buckets=8,distance=20,bidirectional=1,per_layer=1,init=0.5", heads=2, reach=(30, 25))
    yield Case("swin.wide", "width=4,height=2", range(8), heads=3, reach=(10, 10), context=8)
    yield Case("swin.tall", "width=2,height=3,init=0.1", [5, 0, 2, 2], heads=2, reach=(5, 6), context=6)
    values = [[0.7, 0.4], [-0.5, 0.3], [1.5, 0.004], [2.0, 1.5], [0.005, 2.5]]
    for form in ("log", "power"):
        yield Case(f"kerple.{form}", f"form={form}", heads=5, reach=(8, 4),
                   weights={"weight": single(torch.tensor(values))})
    yield Case("sandwich.plain", "", heads=3, reach=(40, 5))
    yield Case("sandwich.buckets", "buckets=16", heads=6, reach=(9, 9))


def cases():
    return list(embedding_cases()) + list(query_key_cases()) + list(score_cases())


# ---- the file ------------------------------------------------------------------------------------------

EXACT = ("frequency", "magnitude", "length")          # stored as they are; all else as float32


def put_case(book, c, oracle):
    def put(field, x, **more):
        assert len(c.name) <= 40 and len(f"{c.name}.{field}") < 64
        book.put(f"{c.name}.{field}", x, **more)

    def whole(field, x):                              # I32 whatever the values are
        book.pages[f"{c.name}.{field}"] = np.asarray(x, dtype=np.int32)

    put("spec", torch.tensor(list(c.spec.encode()), dtype=torch.uint8))
    put("oracle", torch.tensor(list(oracle.encode()), dtype=torch.uint8))
    whole("shape", c.shape)
    if c.says_layer:
        whole("layer", [c.layer])
    if c.reach:
        whole("reach", c.reach)
    if len(c.pos):
        put("pos", c.pos, exact=True)
    if c.encoding == "swin":
        put("line", swin_line(c.keys, c.pos), exact=True)
    for n, x in c.weights.items():
        put("w." + n, x)
    for n, x in starts(c.keys, c).items():
        put("start." + n, x)
    for n, x in c.results().items():
        put(n, x, exact=n in EXACT)


def write(book, oracles=None):
    """oracles: what oracle_catalogue_peers.check() found, by case"""
    for c in cases():
        put_case(book, c, (oracles or {}).get(c.name, "float64 transcription"))
    book.write()
