"""Whole transformers from their formulas, in double: logits, loss, the gradient of every parameter, and every
parameter after ten steps of AdamW with clipping."""
import torch
import torch.nn.functional as F

from oracle_attention import attention
from oracle_book import integers, leaf, numbers
from oracle_encodings import alibi, relative, rope, sinusoidal, t5

IGNORE = -100
STEPS, RATE, DECAY, CLIP = 10, 1e-2, 0.1, 1.0


# ---- one transformer that covers them all --------------------------------------------------------------

def shapes(c):
    """name -> shape of every parameter of a model"""
    width, hidden, heads = c["channels"], c["hidden"], c["heads"]
    d, kv = width // heads, c.get("kv_heads", heads)
    layernorm, bias = c["norm"] == "layernorm", c["bias"]
    s = {"token_embedding.weight": (c["vocab"], width)}

    def norm(name, n):
        s[name + ".weight"] = (n,)
        if layernorm and bias:
            s[name + ".bias"] = (n,)

    def product(name, out, n):
        s[name + ".weight"] = (out, n)
        if bias:
            s[name + ".bias"] = (out,)

    if c.get("embedding_norm"):
        norm("embedding_norm", width)
    for i in range(c["layers"]):
        at = f"blocks.{i}."
        norm(at + "norm1", width)
        product(at + "attn.q_proj", width, width)
        product(at + "attn.k_proj", kv * d, width)
        product(at + "attn.v_proj", kv * d, width)
        product(at + "attn.out_proj", width, width)
        if c.get("qk_norm"):
            s[at + "attn.q_norm.weight"] = s[at + "attn.k_norm.weight"] = (d,)
        norm(at + "norm2", width)
        product(at + "mlp.up_proj", hidden, width)
        if c["activation"] == "swiglu":
            product(at + "mlp.gate_proj", hidden, width)
        product(at + "mlp.down_proj", width, hidden)
        if "lrope" in c["encoding"]:
            s[at + "pe.lrope.scale"] = (d // 2,)
    if not c.get("post_norm"):
        norm("norm", width)
    if c.get("classes"):
        s["head.weight"], s["head.bias"] = (c["classes"], width), (c["classes"],)
    elif not c.get("tied"):
        s["lm_head.weight"] = (c["vocab"], width)
    e = c["encoding"]
    if "learned" in e:
        s["pe.learned.weight"] = (c["context"], width)
    if "relative" in e:
        s["pe.relative.weight"] = (2 * e["relative"]["distance"] + 1, heads)
    if "t5" in e:
        s["pe.t5.weight"] = (e["t5"]["buckets"], heads)
    return s


def weights(model, c):
    """Larger than a usual start, so that attention is sharp, biases count and no gradient is lost in rounding."""
    w = {}
    for name, shape in shapes(c).items():
        one = name.endswith("scale") or ("norm" in name and name.endswith("weight"))
        scale = 0.2 if len(shape) == 1 else 0.5 if name.startswith(("pe.", "token")) else 1.3 * shape[1] ** -0.5
        w[name] = leaf(numbers(f"{model}.{name}", *shape, scale=scale, shift=1.0 if one else 0.0))
    return w


def forward(w, c, tokens, positions=None, segments=None):
    b, t = tokens.shape
    width, heads = c["channels"], c["heads"]
    d, kv, eps, e = width // heads, c.get("kv_heads", heads), 1e-5, c["encoding"]
    at = torch.arange(float(t)).expand(b, t) if positions is None else positions

    def norm(name, x):
        if c["norm"] == "layernorm":
            return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w.get(name + ".bias"), eps)
        return F.rms_norm(x, x.shape[-1:], w[name + ".weight"], eps)

    def product(name, x):
        return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))

    keep = tokens != c["padding"] if "padding" in c else None
    far = int(at.max())                               # one bias vector reaches every distance there is
    bias = torch.zeros(heads, 2 * far + 1)
    if "relative" in e:
        bias = bias + relative(w["pe.relative.weight"], e["relative"]["distance"], far, far)
    if "t5" in e:
        bias = bias + t5(w["pe.t5.weight"], e["t5"]["buckets"], e["t5"]["distance"], not c["causal"], far, far)
    if "alibi" in e:
        bias = bias + alibi(heads, far, far)

    def turned(i, x):
        for name in ("rope", "lrope"):
            if name in e:
                x = rope(x, at, e[name]["layout"], e[name].get("base", 10000.0),
                         scale=w.get(f"blocks.{i}.pe.lrope.scale"))
        return x

    def attend(i, x):
        name = f"blocks.{i}.attn."
        q = product(name + "q_proj", x).view(b, t, heads, d)
        k = product(name + "k_proj", x).view(b, t, kv, d)
        v = product(name + "v_proj", x).view(b, t, kv, d)
        if c.get("qk_norm") == "after":
            q, k = turned(i, q), turned(i, k)
        if c.get("qk_norm"):
            q = F.rms_norm(q, (d,), w[name + "q_norm.weight"], eps)
            k = F.rms_norm(k, (d,), w[name + "k_norm.weight"], eps)
        if c.get("qk_norm") != "after":
            q, k = turned(i, q), turned(i, k)
        out = attention(q, k, v, causal=c["causal"], window=c.get("window", 0), keep=keep, q_segment=segments,
                        k_segment=segments, bias=bias, past=far, future=far, q_at=at.long(), k_at=at.long())[0]
        return product(name + "out_proj", out.reshape(b, t, width))

    def mlp(i, x):
        name, kind = f"blocks.{i}.mlp.", c["activation"]
        up = product(name + "up_proj", x)
        if kind == "swiglu":
            up = F.silu(product(name + "gate_proj", x)) * up
        else:
            up = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu,
                  "gelu_tanh": lambda y: F.gelu(y, approximate="tanh")}[kind](up)
        return product(name + "down_proj", up)

    x = F.embedding(tokens, w["token_embedding.weight"])
    if c.get("scale_embedding"):
        x = x * width ** 0.5
    if "learned" in e:
        x = x + F.embedding(at.long(), w["pe.learned.weight"])
    if "sinusoidal" in e:
        x = x + sinusoidal(at.reshape(-1), width, 10000.0).view(b, t, width)
    if c.get("embedding_norm"):
        x = norm("embedding_norm", x)
    for i in range(c["layers"]):
        if c.get("post_norm"):
            x = norm(f"blocks.{i}.norm1", x + attend(i, x))
            x = norm(f"blocks.{i}.norm2", x + mlp(i, x))
        else:
            x = x + attend(i, norm(f"blocks.{i}.norm1", x))
            x = x + mlp(i, norm(f"blocks.{i}.norm2", x))
    if not c.get("post_norm"):
        x = norm("norm", x)
    if c.get("classes"):
        kept = torch.ones(b, t) if keep is None else keep.double()
        x = (x * kept[:, :, None]).sum(1) / kept.sum(1).clamp(min=1)[:, None]
        return F.linear(x, w["head.weight"], w["head.bias"])
    return F.linear(x.reshape(b * t, width), w["token_embedding.weight" if c.get("tied") else "lm_head.weight"])


def loss_of(w, c, batch):
    logits = forward(w, c, batch["tokens"], batch.get("positions"), batch.get("segments"))
    return logits, F.cross_entropy(logits, batch["targets"].reshape(-1), ignore_index=IGNORE)


# ---- the models ----------------------------------------------------------------------------------------

def ignored(targets, *at):
    for b, t in at:
        targets[b, t] = IGNORE
    return targets


# One full row, padding on the right, padding on the left, and nothing but padding.
CLASSIFIER_TOKENS = torch.tensor([[5, 3, 7, 12, 1, 1, 4, 9, 2], [8, 2, 11, 6, 3, 0, 0, 0, 0],
                                  [0, 0, 4, 10, 4, 7, 1, 12, 5], [0, 0, 0, 0, 0, 0, 0, 0, 0]])
# Two texts packed into each row, positions starting again; one row with an offset and gaps.
SEGMENTS = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1, 2], [4, 4, 4, 4, 4, 4, 4, 4]])
RESTART = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3], [0, 1, 0, 1, 2, 3, 4, 0], [50, 51, 53, 54, 55, 57, 58, 60]]).double()

MODELS = {
    "classifier": dict(
        vocab=13, context=12, classes=3, layers=2, channels=16, heads=4, hidden=20, causal=False, padding=0,
        norm="layernorm", bias=True, activation="relu", encoding={"learned": {}}),
    "causal": dict(
        vocab=13, context=10, layers=2, channels=20, heads=4, hidden=18, causal=True, norm="layernorm", bias=True,
        activation="gelu", encoding={"relative": {"distance": 4}}),
    "modern": dict(
        vocab=13, context=8, layers=2, channels=24, heads=4, kv_heads=2, hidden=10, causal=True, norm="rmsnorm",
        bias=False, activation="swiglu", qk_norm="before", tied=True, encoding={"rope": {"layout": "half"}}),
    "postnorm": dict(
        vocab=13, context=10, layers=2, channels=16, heads=4, hidden=18, causal=False, padding=0, norm="layernorm",
        bias=True, activation="gelu_tanh", post_norm=True, embedding_norm=True, scale_embedding=True,
        encoding={"sinusoidal": {}, "t5": {"buckets": 8, "distance": 6}}),
    "turned": dict(
        vocab=13, context=9, layers=2, channels=16, heads=4, hidden=20, causal=True, window=6, norm="rmsnorm",
        bias=True, activation="silu", qk_norm="after",
        encoding={"lrope": {"layout": "interleaved", "base": 100.0}, "alibi": {}}),
}


def batch_of(model):
    if model == "classifier":
        return {"tokens": CLASSIFIER_TOKENS, "targets": torch.tensor([0, 2, 1, 2])}
    c = MODELS[model]
    b, t = 3, {"causal": 10, "modern": 8, "postnorm": 9, "turned": 8}[model]
    tokens = integers(model + ".tokens", c["vocab"], b, t)
    targets = integers(model + ".targets", c["vocab"], b, t)
    if model == "causal":
        targets = ignored(targets, (0, 0), (1, 4), (1, 5), (2, 9))
    if model == "postnorm":
        tokens = tokens.clamp(min=1)
        tokens[1, 6:] = 0
        tokens[2, :2] = 0
        targets[tokens == 0] = IGNORE
    return {"tokens": tokens, "targets": targets}


def train(w, c, batch):
    """Ten steps; returns the losses and the norms before clipping."""
    two = [p for p in w.values() if p.dim() >= 2]
    one = [p for p in w.values() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": two, "weight_decay": DECAY}, {"params": one, "weight_decay": 0.0}],
                                  lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(w, c, batch)[1]
        loss.backward()
        norm = torch.sqrt(sum((p.grad ** 2).sum() for p in w.values()))
        for p in w.values():
            p.grad *= min(1.0, CLIP / float(norm))
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())
    assert norms[0] > CLIP and losses[-1] < losses[0], (norms, losses)    # clipping acts, and it learns
    return torch.tensor(losses), torch.tensor(norms)


def write(book_at, model):
    c, batch = MODELS[model], batch_of(model)
    w = weights(model, c)
    file = book_at(model + ".weights.safetensors")    # the weights alone: what the library loads
    for name, p in w.items():
        file.put(name, p)
    file.write()

    book = book_at(model + ".safetensors")

    def results(prefix, batch, only=("",)):
        for p in w.values():
            p.grad = None
        logits, loss = loss_of(w, c, batch)
        loss.backward()
        for name in ("tokens", "targets", "segments"):
            if name in batch:
                book.put(prefix + name, batch[name])
        if "positions" in batch:
            book.put(prefix + "positions", batch["positions"], exact=True)
        book.put(prefix + "logits", logits)
        book.put(prefix + "loss", loss, exact=True)
        for name, p in w.items():
            if name.startswith(only):
                book.put(f"{prefix}grad.{name}", p.grad)

    results("", batch)
    if model in ("modern", "turned"):                 # a rotation alone, and a rotation with a bias
        results("packed.", {**batch, "segments": SEGMENTS, "positions": RESTART}, ("token", "blocks.0.attn", "blocks.0.pe"))
    losses, norms = train(w, c, batch)
    book.put("losses", losses, exact=True)
    book.put("norms", norms, exact=True)
    for name, p in w.items():
        book.put("after." + name, p)
    book.write()
