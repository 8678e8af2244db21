"""Compares the catalogue's transcriptions with other people's code, case by case, before they are trusted.

A comparison takes a case of oracle_catalogue, does the same with the package and calls same(). Each one is run
again with the case's own results spoiled by one part in a thousand, field by field: a comparison that does not
notice is an error. Their angles are float32, so the tolerance grows with position times frequency."""
import importlib
import importlib.metadata
import logging
import math
import warnings
from types import SimpleNamespace

import torch
import torch.nn.functional as F

from oracle_catalogue import EMBEDDING, QUERY_KEY, SCORE, Keys, cases, coordinates, scaled, sizes, swin_line
from oracle_encodings import distances

PLAIN = "float64 transcription"


# ---- how things are compared ---------------------------------------------------------------------------

class Peer:
    """A case as a comparison sees it: which results it looked at, how far they were off."""

    def __init__(self, case, spoil=None):
        self.case, self.keys, self.pos, self.w = case, case.keys, case.pos, case.weights
        self.spoil, self.looked_at, self.worst, self.share = spoil, set(), 0.0, 0.0

    def __getattr__(self, name):
        return getattr(self.case, name)

    def result(self, name):
        x = self.case.results()[name]
        if name in ("x", "dy", "drows", "dbias"):     # inputs: nothing to compare
            return x
        self.looked_at.add(name)
        return x * 1.001 if name == self.spoil else x

    def same(self, name, theirs, tolerance, which=slice(None)):
        ours = self.result(name)[which]
        assert ours.shape == theirs.shape, (self.name, name, ours.shape, theirs.shape)
        assert ours.numel() > 0, (self.name, "nothing to compare")
        error = (ours - theirs.double()).abs()
        share = torch.where(error == 0, 0.0, error / tolerance)
        self.worst, self.share = max(self.worst, float(error.max())), max(self.share, float(share.max()))
        assert (error <= tolerance).all(), (self.name, name, float(error.max()), float(share.max()))


def law(pos, fastest=1.0):
    """what float32 angles allow, for each token, as (T,1)"""
    return (2e-7 * (pos.abs().amax(1) * fastest).clamp(min=1.0) + 1e-6)[:, None]


def on_the_grid(pos, shape):
    """tokens at whole coordinates inside a table of that shape, and their place in it"""
    inside = ((pos == pos.floor()) & (pos >= 0) & (pos < torch.tensor(shape))).all(1)
    index = torch.zeros(len(pos), dtype=torch.long)
    for axis, n in enumerate(shape):
        index = index * n + (pos[:, axis] * inside).long()
    assert inside.sum() >= 3
    return inside, index[inside]


def rows_of_table(p, table, shape, at=None):
    """their table holds a row for each whole position, or each cell of a grid"""
    at = p.pos if at is None else at
    inside, index = on_the_grid(at, shape)
    p.same("rows", table.reshape(-1, table.shape[-1])[index], law(at[inside]), inside)


def quiet(name, what=None):
    """a module or something of it, without remarks: transformers has views on our odd configurations"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module(name)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    if what and not hasattr(module, what):            # another version: as if it were not installed
        raise ImportError(f"no {what}")
    return getattr(module, what) if what else module


# ---- waves ---------------------------------------------------------------------------------------------

def positional_encodings_1d(p):
    module = quiet("positional_encodings.torch_encodings", "PositionalEncoding1D")(p.channels)
    rows_of_table(p, module(torch.zeros(1, 64, p.channels))[0], (64,))


def positional_encodings_2d(p):
    """it knows no swap: the coordinates are exchanged instead"""
    module = quiet("positional_encodings.torch_encodings", "PositionalEncoding2D")(p.channels)
    at = coordinates(p.keys, p.pos, 2)
    table = module(torch.zeros(1, 8, 8, p.channels))[0]
    rows_of_table(p, table, (8, 8), at.flip(1) if p.keys.whole("swap") else at)


def positional_encodings_3d(p):
    module = quiet("positional_encodings.torch_encodings", "PositionalEncoding3D")(p.channels)
    rows_of_table(p, module(torch.zeros(1, 8, 8, 8, p.channels))[0], (8, 8, 8), coordinates(p.keys, p.pos, 3))


def reordered(table, layout, sines):
    """[sines | cosines | rest] in another layout"""
    a, b, rest = table[:, :sines], table[:, sines:2 * sines], table[:, 2 * sines:]
    if layout == "interleaved":
        extra = a.shape[1] - b.shape[1]
        return torch.cat([torch.stack([a, F.pad(b, (0, extra))], 2).flatten(1)[:, :2 * sines - extra], rest], 1)
    return torch.cat([a, b, rest] if layout == "concat" else [b, a, rest], 1)


def marian(p):
    module = quiet("transformers.models.marian.modeling_marian", "MarianSinusoidalPositionalEmbedding")(64, p.channels)
    table = module.create_weight()
    rows_of_table(p, reordered(table, p.keys.word("layout", "interleaved"), (p.channels + 1) // 2), (64,))


def whisper(p):
    sinusoids = quiet("transformers.models.whisper.modeling_whisper", "sinusoids")
    table = sinusoids(64, p.channels, p.keys.number("base", 1e4))
    rows_of_table(p, reordered(table, p.keys.word("layout", "interleaved"), p.channels // 2), (64,))


def m2m100(p):
    module = quiet("transformers.models.m2m_100.modeling_m2m_100", "M2M100SinusoidalPositionalEmbedding")
    table = module.get_embedding(64, p.channels)
    rows_of_table(p, reordered(table, p.keys.word("layout", "interleaved"), p.channels // 2), (64,))


def x_scaled_sinusoidal(p):
    module = quiet("x_transformers.x_transformers", "ScaledSinusoidalEmbedding")(p.channels, p.keys.number("base", 1e4))
    with torch.no_grad():
        module.scale.copy_(p.w["scale"])
    rows = module(torch.zeros(1, len(p.pos), p.channels), pos=p.pos[:, 0])
    p.same("rows", rows.detach(), law(p.pos))
    rows.backward(p.result("drows"))
    p.same("dw.scale", module.scale.grad, 1e-4)


def torchscale_sines(p):
    sines, _ = quiet("torchscale.component.xpos_relative_position", "fixed_pos_embedding")(torch.zeros(64, p.channels))
    rows_of_table(p, sines, (64,))


def python_digits(p):
    """format() writes the same digits"""
    radix, n = "b" if p.encoding.startswith("binary") else "d", p.keys.whole("digits", p.channels)
    rows = []
    for t in p.pos[:, 0].tolist():
        text = [int(x) for x in format(int(t), f"0{n}{radix}")]
        assert len(text) == n
        half = 0.5 if radix == "b" else 4.5
        used = [(x - half) / half for x in text] if "_norm" in p.encoding else text
        rows.append([0.0] * (p.channels - n) + used)
    p.same("rows", torch.tensor(rows), 1e-15)


def torch_embedding(p):
    module = torch.nn.Embedding.from_pretrained(p.w["weight"], freeze=False)
    rows = module((p.pos[:, 0] + p.keys.whole("offset")).long())
    p.same("rows", rows.detach(), 0.0)
    rows.backward(p.result("drows"))
    p.same("dw.weight", module.weight.grad, 1e-12)


def torch_network(p):
    depth, hidden = p.keys.whole("depth", 2), p.keys.whole("hidden")
    layers, width = [], 1
    for _ in range(depth):
        layers, width = layers + [torch.nn.Linear(width, hidden), torch.nn.ReLU()], hidden
    module = torch.nn.Sequential(*layers, torch.nn.Linear(hidden, p.channels))
    load_network(module, p.w)
    rows = module(p.pos / p.keys.number("length", p.context))
    p.same("rows", rows.detach(), 1e-12)
    rows.backward(p.result("drows"))
    network_gradients(p, module)


def torch_fourier_network(p):
    """torch.nn from the features on; the features by complex numbers, e^(ia)"""
    k, axes = p.keys, p.keys.whole("axes", 1)
    n = k.whole("features", p.channels)
    wr = p.w["wr"].clone().requires_grad_(True)
    a = torch.einsum("ta,fa->tf", coordinates(k, p.pos, axes) / sizes(k, p.context, axes), wr)
    spin = torch.polar(torch.ones_like(a), a)
    module = torch.nn.Sequential(torch.nn.Linear(n, k.whole("hidden")), torch.nn.GELU(),
                                 torch.nn.Linear(k.whole("hidden"), p.channels))
    load_network(module, p.w)
    rows = module(torch.cat([spin.imag, spin.real], 1) / math.sqrt(n))
    p.same("rows", rows.detach(), 1e-12)
    rows.backward(p.result("drows"))
    network_gradients(p, module)
    p.same("dw.wr", wr.grad, 1e-11)


def linears(module):
    return [x for x in module if isinstance(x, torch.nn.Linear)]


def load_network(module, w):
    with torch.no_grad():
        for i, layer in enumerate(linears(module), 1):
            layer.weight.copy_(w[f"w{i}"])
            layer.bias.copy_(w[f"b{i}"])


def network_gradients(p, module):
    for i, layer in enumerate(linears(module), 1):
        p.same(f"dw.w{i}", layer.weight.grad, 1e-11)
        p.same(f"dw.b{i}", layer.bias.grad, 1e-11)


# ---- grids and Fourier features -------------------------------------------------------------------------

def timm_sincos2d(p):
    """theirs with "interleave" is a block per axis, sines then cosines; reversed it lists tokens by columns"""
    at, swap = coordinates(p.keys, p.pos, 2), bool(p.keys.whole("swap"))
    table = quiet("timm.layers", "build_sincos2d_pos_embed")([8, 8], p.channels, p.keys.number("base", 1e4), swap, True)
    rows_of_table(p, table, (8, 8), at.flip(1) if swap else at)


def vit_mae(p):
    """rows first; its model then exchanges the halves, which is swap"""
    build = quiet("transformers.models.vit_mae.modeling_vit_mae", "build_2d_sinusoidal_position_embedding")
    table = build(8, 9, p.channels, p.keys.number("base", 1e4), dtype=torch.float64)
    if p.keys.whole("swap"):
        table = table.roll(p.channels // 2, 1)
    rows_of_table(p, table, (8, 9), coordinates(p.keys, p.pos, 2))


def perceiver(p):
    k, axes = p.keys, p.keys.whole("axes", 1)
    model = quiet("transformers.models.perceiver.modeling_perceiver")
    shape = [int(n) for n in sizes(k, p.context, axes)]
    resolution, n = k.number("resolution", shape[0]), p.channels // (2 * axes)
    grid = model.build_linear_positions(shape).reshape(1, -1, axes)
    table = model.generate_fourier_features(grid, n, (resolution,) * axes, concat_pos=False)
    at = coordinates(k, p.pos, axes)
    inside, index = on_the_grid(at, shape)
    theirs = F.pad(table.reshape(-1, table.shape[-1])[index], (0, p.channels - table.shape[-1]))
    p.same("rows", theirs, law(at[inside] * 0 + 1, math.pi * resolution / 2), inside)


def timm_fourier(p):
    """their list is by axis with sines and cosines apart, which is the same order"""
    k, axes = p.keys, p.keys.whole("axes", 1)
    shape, n = [int(n) for n in sizes(k, p.context, axes)], p.channels // (2 * axes)
    sines, cosines = quiet("timm.layers.pos_embed_sincos", "build_fourier_pos_embed")(
        shape, num_bands=n, max_res=k.number("resolution"), linear_bands=k.word("bands", "linear") == "linear")
    table = torch.cat([x.reshape(math.prod(shape), -1) for x in (sines, cosines)], 1)
    at = coordinates(k, p.pos, axes)
    inside, index = on_the_grid(at, shape)
    p.same("rows", F.pad(table[index], (0, p.channels - table.shape[1])),
           law(at[inside] * 0 + 1, math.pi * k.number("resolution") / 2), inside)


def sam(p):
    """theirs has the column first, and always two axes: on a line the other one gets no weight"""
    k, axes = p.keys, p.keys.whole("axes", 1)
    module = quiet("transformers.models.sam.modeling_sam", "SamPositionalEmbedding")(
        SimpleNamespace(scale=1.0, num_pos_feats=p.channels // 2))
    at = coordinates(k, p.pos, axes)
    with torch.no_grad():
        module.positional_embedding.copy_(F.pad(p.w["weight"].T.flip(0), (0, 0, 0, 2 - axes)))
    shape = [int(n) for n in sizes(k, p.context, axes)]
    rows = module(F.pad(at.flip(1), (0, 2 - axes))[None, None], (shape[0], shape[-1]))
    p.same("rows", rows[0, 0].detach(), 1e-12)


# ---- turns ---------------------------------------------------------------------------------------------

def channels_that_turn(p):
    """x as (T,heads,D), over the whole width as one head, and the slice that turns"""
    x = p.result("x")
    x = x.reshape(len(x), 1, -1) if p.keys.word("over", "head") == "width" else x
    first = p.keys.whole("offset")
    return x, slice(first, first + p.keys.whole("dim", x.shape[-1]))


def room(tolerance, y):
    """a wrong angle moves a pair by its length, which is at most the square root of 2 of its larger channel"""
    return tolerance[:, :, None] * (2 ** 0.5 * y.detach().abs().amax((1, 2), keepdim=True)).clamp(min=1.0)


def sides(p, turned, tolerance, which=slice(None)):
    """turned(x, side): what they make of the slice, for queries and for keys. Gradients: their autograd."""
    x, part = channels_that_turn(p)
    shape = p.result("x").shape
    for side in "qk":
        leaf = x.clone().requires_grad_(True)
        y = torch.cat([leaf[..., :part.start], turned(leaf[..., part], side), leaf[..., part.stop:]], -1).reshape(shape)
        p.same("y" + side, y.detach()[which], room(tolerance, y)[which], which)
        y.backward(p.result("dy"))
        dx = leaf.grad.reshape(shape)
        p.same("dx" + side, dx[which], room(tolerance, dx)[which], which)


def hugging_face_turn(layout, cos, sin):
    """cos, sin (T,pairs)"""
    if layout == "half":
        apply = quiet("transformers.models.llama.modeling_llama", "apply_rotary_pos_emb")
        twice = [torch.cat([t, t], 1)[None] for t in (cos, sin)]
        return lambda x, side: apply(x[None], x[None], *twice, unsqueeze_dim=2)["qk".index(side)][0]
    apply = quiet("transformers.models.gptj.modeling_gptj", "apply_rotary_pos_emb")
    return lambda x, side: apply(x[None], sin[None], cos[None])[0]


def fastest(p):
    return float(p.case.results()["frequency"].abs().max())


def hugging_face_rope(p):
    """LlamaRotaryEmbedding runs ROPE_INIT_FUNCTIONS, again where the length asks for it"""
    k, (x, part) = p.keys, channels_that_turn(p)
    dim, kind = part.stop - part.start, p.keys.word("scaling", "default")
    given = {"factor": "factor", "attention": "attention_factor", "mscale": "mscale", "mscale_all": "mscale_all_dim",
             "fast": "beta_fast", "slow": "beta_slow", "low": "low_freq_factor", "high": "high_freq_factor",
             "proportion": "partial_rotary_factor", "original": "original_max_position_embeddings"}
    rope = {theirs: k.number(ours) for ours, theirs in given.items() if ours in k}
    rope.update(rope_type=kind, rope_theta=k.number("base", 1e4), **{"truncate": False} if "truncate" in k else {})
    if kind == "factors":                             # as longrope, whose two lists are the same
        rope.update(rope_type="longrope", short_factor=k.list("long").tolist(), factor=1.0,
                    original_max_position_embeddings=2048)
    if kind in ("longrope", "factors"):
        rope.update(long_factor=k.list("long").tolist())
    if kind == "longrope":
        rope.update(short_factor=k.list("short").tolist())
    llama = quiet("transformers.models.llama.modeling_llama")
    module = llama.LlamaRotaryEmbedding(quiet("transformers", "LlamaConfig")(
        hidden_size=dim, num_attention_heads=1, num_key_value_heads=1, head_dim=dim, rope_parameters=rope,
        max_position_embeddings=k.whole("original", 2048)))
    pos = p.pos[:, 0]
    if k.number("length"):                            # a token more, at the end of the length
        pos = torch.cat([pos, torch.tensor([k.number("length") - 1])])
    cos, sin = (t[0, :len(p.pos), :dim // 2] for t in module(x, pos[None]))
    p.same("frequency", module.inv_freq[None], 5e-7 * module.inv_freq[None].abs())
    p.same("magnitude", torch.tensor([float(module.attention_scaling)]), 1e-12)
    sides(p, hugging_face_turn(k.word("layout", "half"), cos, sin), law(p.pos, fastest(p)))


def x_rope(p):
    x, part = channels_that_turn(p)
    module, k = quiet("x_transformers.x_transformers"), p.keys
    kind, xpos = k.word("scaling", ""), p.encoding == "xpos"
    factor = k.number("factor", 1.0)
    rotary = module.RotaryEmbedding(
        part.stop - part.start, use_xpos=xpos, scale_base=k.number("scale_base", 512.0), base=k.number("base", 1e4),
        interpolation_factor=factor if kind == "linear" else 1.0, base_rescale_factor=factor if kind == "ntk" else 1.0)
    freqs, scale = rotary.double()(p.pos[:, 0])
    if not kind == "linear":
        p.same("frequency", rotary.inv_freq[None], 5e-7 * rotary.inv_freq[None])

    def turned(x, side):
        m = scale ** -1 if xpos and side == "k" else scale
        return module.apply_rotary_pos_emb(x.transpose(0, 1), freqs, m).transpose(0, 1)
    sides(p, turned, law(p.pos, fastest(p)))


def rotary_embedding_torch(p):
    """its center is half of the number of tokens: rows of padding move it"""
    k, module = p.keys, quiet("rotary_embedding_torch.rotary_embedding_torch")
    x, part = channels_that_turn(p)
    kind, xpos, factor = k.word("scaling", ""), p.encoding == "xpos", k.number("factor", 1.0)
    rotary = module.RotaryEmbedding(
        part.stop - part.start, theta=k.number("base", 1e4), use_xpos=xpos, cache_if_possible=False,
        theta_rescale_factor=factor if kind == "ntk" else 1.0, xpos_scale_base=k.number("scale_base", 512.0)).double()
    t = p.pos[:, 0] / (factor if kind == "linear" else 1.0)
    freqs, scale = rotary(t), 1.0
    if xpos:
        padded = F.pad(t, (0, int(2 * k.number("center", p.context / 2)) - len(t)))
        scale = rotary.get_scale(padded)[:len(t), None]

    def turned(x, side):
        m = scale ** -1 if xpos and side == "k" else scale
        if k.word("layout", "half") == "interleaved":
            return module.apply_rotary_emb(freqs[:, None], x, scale=m, seq_dim=0, freqs_seq_dim=0)
        table = [(t * m)[:, 0, ::2] for t in (freqs[:, None].cos(), freqs[:, None].sin())]
        return hugging_face_turn("half", *table)(x, side)
    sides(p, turned, law(p.pos, fastest(p)))


def rotary_embedding_learned(p):
    """The frequencies are their parameter: its gradient times w is the gradient of the scale. All of it in double,
    so that far positions are compared as well: without a scale this is rope."""
    k, module = p.keys, quiet("rotary_embedding_torch.rotary_embedding_torch")
    x, part = channels_that_turn(p)
    dim = part.stop - part.start
    w = torch.tensor([k.number("base", 1e4) ** (-2 * i / dim) for i in range(dim // 2)])
    rotary = module.RotaryEmbedding(dim, custom_freqs=w * p.w.get("scale", 1.0), learned_freq=True)
    if k.word("layout", "half") == "interleaved":
        def turned(x, side):
            return module.apply_rotary_emb(rotary(p.pos[:, 0])[:, None], x, seq_dim=0, freqs_seq_dim=0)
    else:
        def turned(x, side):
            angle = rotary(p.pos[:, 0])[:, ::2]
            return hugging_face_turn("half", angle.cos(), angle.sin())(x, side)
    sides(p, turned, 1e-11 + 1e-15 * p.pos)
    if p.w:
        p.same("dw.scale", rotary.freqs.grad * w, 1e-9)                   # both sides ran backward into it


def torchscale_xpos(p):
    """a table of positions 0, 1, 2 ...: each token alone at its place; the center is half, rounded up"""
    length = 2 * p.keys.whole("center") - 1
    module = quiet("torchscale.component.xpos_relative_position", "XPOS")(p.width, p.keys.whole("scale_base", 512))

    def turned(x, side):
        rows = []
        for t, at in enumerate(p.pos[:, 0].long()):
            place = F.one_hot(at, length).to(x)
            y = module(place[None, :, None] * x[t][:, None], downscale=side == "k")       # (heads, length, D)
            rows.append(y[:, at])
        return torch.stack(rows)
    sides(p, turned, law(p.pos))


def timm_turn(layout, table):
    """table (T, 2 dim): sines and cosines, each channel its own"""
    apply = quiet("timm.layers.pos_embed_sincos", "apply_rot_embed_cat")
    return lambda x, side: apply(x, table[:, None].double(), half=layout == "half")


def timm_grid(p, table, shape, speed):
    """their table has a row for each cell; tokens elsewhere are left out of the comparison"""
    at = coordinates(p.keys, p.pos, 2)
    inside, index = on_the_grid(at, shape)
    rows = torch.zeros(len(at), table.shape[1])
    rows[inside] = table[index].double()
    sides(p, timm_turn(p.keys.word("layout", "half"), rows), law(at * 0 + 1, speed), inside)


def timm_cat(p):
    """rope2d: index coordinates, a factor as the ratio of shape and reference shape. rope_pixel: in_pixels"""
    k, pixels = p.keys, p.encoding == "rope_pixel"
    x, part = channels_that_turn(p)
    shape = (k.whole("height"), k.whole("width")) if pixels else (4, k.whole("width"))
    factor = k.whole("factor", 1)
    module = quiet("timm.layers", "RotaryEmbeddingCat")(
        part.stop - part.start, max_res=k.whole("resolution", 256), temperature=k.number("base", 1e4),
        in_pixels=pixels, ref_feat_shape=[n // factor for n in shape] if factor > 1 else None,
        rotate_half=k.word("layout", "half") == "half")
    timm_grid(p, module.get_embed(shape), shape, math.pi * k.number("resolution", 256) / 2 if pixels else 8.0)


def timm_dino(p):
    k = p.keys
    shape = (k.whole("height"), k.whole("width"))
    module = quiet("timm.layers", "RotaryEmbeddingDinoV3")(p.width, k.number("base", 100.0),
                                                        rotate_half=k.word("layout", "half") == "half")
    timm_grid(p, module.get_embed(shape), shape, 2 * math.pi)


def hugging_face_dino(p):
    k = p.keys
    shape = (k.whole("height"), k.whole("width"))
    module = quiet("transformers.models.dinov3_vit.modeling_dinov3_vit", "DINOv3ViTRopePositionEmbedding")(
        SimpleNamespace(rope_theta=k.number("base", 100.0), hidden_size=p.width, num_attention_heads=1, patch_size=1,
                        image_size=shape)).eval()
    cos, sin = module(torch.zeros(1, 1, *shape))
    timm_grid(p, torch.cat([sin, cos], 1), shape, 2 * math.pi)


def hugging_face_vision(p, package, name):
    """one module for any coordinates"""
    config = SimpleNamespace(head_dim=p.width, rope_parameters={"rope_type": "axial",
                                                                "rope_theta": p.keys.number("base", 1e4)})
    module = getattr(quiet(f"transformers.models.{package}.modeling_{package}"), name)(config)
    at = coordinates(p.keys, p.pos, 2)
    cos, sin = (t[:, :p.width // 2].double() for t in module(p.result("x"), at))
    sides(p, hugging_face_turn(p.keys.word("layout", "half"), cos, sin), law(at))


def qwen2_vision(p):
    hugging_face_vision(p, "qwen2_vl", "Qwen2VLVisionRotaryEmbedding")


def pixtral(p):
    hugging_face_vision(p, "pixtral", "PixtralVisionRotaryEmbedding")


def qwen_text(p):
    """three positions for each token; Qwen2 cuts the pairs in chunks, Qwen3 deals them out"""
    k, (x, part) = p.keys, channels_that_turn(p)
    dim = part.stop - part.start
    side = 3 * (dim // 2) // 8
    sections = [int(n) for n in k.list("sections")] if "sections" in k else [dim // 2 - 2 * side, side, side]
    config = SimpleNamespace(head_dim=dim, max_position_embeddings=4096, rope_parameters={
        "rope_type": "default", "rope_theta": k.number("base", 1e4), "mrope_section": sections})
    chunked = k.word("order", "chunked") == "chunked"
    if chunked:
        module = quiet("transformers.models.qwen2_vl.modeling_qwen2_vl", "Qwen2VLRotaryEmbedding")(config)
    else:
        module = quiet("transformers.models.qwen3_vl.modeling_qwen3_vl", "Qwen3VLTextRotaryEmbedding")(config)
    pos = p.pos.expand(-1, 3)
    cos, sin = (t[0, :, :dim // 2] for t in module(x, pos.T[:, None]))
    sides(p, hugging_face_turn(k.word("layout", "half"), cos, sin), law(pos))


# ---- temperatures --------------------------------------------------------------------------------------

def recorded_queries(make, length, width):
    """what an attention module hands to its scores: an attention function that only writes down"""
    functions, seen = quiet("transformers.modeling_utils", "ALL_ATTENTION_FUNCTIONS"), []

    def record(module, query, key, value, *more, **named):
        seen.append(query)
        return torch.zeros_like(query).transpose(1, 2), None
    functions.register("posenc_record", record)
    module, more = make()
    module.config._attn_implementation = "posenc_record"
    with torch.no_grad():
        module.q_proj.weight.copy_(torch.eye(width))
    module(torch.ones(1, length, width), **more)
    return seen[0][0, 0].detach()                     # (length, width)


def temperature_rows(p, tau):
    """tau of positions 0, 1, 2 ...; keys stay as they are"""
    inside, index = on_the_grid(p.pos, (len(tau),))
    rows = torch.ones(len(p.pos), 1, 1)
    rows[inside, 0, 0] = tau[index].double()
    sides(p, lambda x, side: x * rows if side == "q" else x * 1, torch.full((len(p.pos), 1), 1e-6), inside)


def llama4(p):
    """the layer of the case: those with RoPE have no temperature, and then there is nothing to compare"""
    k, model = p.keys, quiet("transformers.models.llama4.modeling_llama4")
    every = k.whole("every", 1)
    length, width = 64, 8

    def make():
        config = quiet("transformers", "Llama4TextConfig")(
            hidden_size=width, num_attention_heads=1, num_key_value_heads=1, head_dim=width, use_qk_norm=False,
            attn_scale=k.number("rate", 0.1), floor_scale=k.whole("original", 8192), attn_temperature_tuning=True,
            no_rope_layers=[int((i + 1) % every != 0) for i in range(8)], num_hidden_layers=8)
        still = torch.ones(1, length, width // 2, dtype=torch.complex128)
        return model.Llama4TextAttention(config, p.layer), dict(position_embeddings=still, attention_mask=None)
    temperature_rows(p, recorded_queries(make, length, width)[:, 0])


def ministral(p):
    """any position; one further on it is Llama 4's"""
    scale = quiet("transformers.models.ministral3.modeling_ministral3", "get_llama_4_attn_scale")
    pos = p.pos[:, 0] + (1 if p.keys.word("form", "llama4") == "llama4" else 0)
    tau = scale(pos[None], p.keys.number("rate", 0.1), p.keys.whole("original", 8192))[0, 0, :, 0]
    sides(p, lambda x, side: x * tau[:, None, None] if side == "q" else x * 1, torch.full((len(pos), 1), 1e-12))


def inkling(p):
    k, model, width = p.keys, quiet("transformers.models.inkling.modeling_inkling"), 8

    def make():
        config = quiet("transformers.models.inkling.configuration_inkling", "InklingTextConfig")(
            hidden_size=width, num_attention_heads=1, num_key_value_heads=1, head_dim=width, num_hidden_layers=1,
            layer_types=["hybrid"], log_scaling_alpha=k.number("rate"), log_scaling_n_floor=k.whole("original"))
        return model.InklingAttention(config, 0), dict(attention_mask=None)
    tau = recorded_queries(make, 64, width)[:, 0]
    temperature_rows(p, tau / tau[0])                 # its norm comes before, the same for every row


# ---- scores --------------------------------------------------------------------------------------------

def one_column(p, theirs, name="bias", tolerance=1e-6):
    """theirs (H, queries, keys) with queries 0..past+future: the column of key `future` has every distance"""
    p.same(name, theirs[:, :, p.reach[1]], tolerance)


def x_alibi(p):
    n, heads = sum(p.reach) + 1, p.keys.whole("heads", p.heads)
    one_column(p, quiet("x_transformers.x_transformers", "AlibiPositionalBias")(heads, p.heads)(n, n))


def mpt_alibi(p):
    """theirs leaves the row's constant out: zero at the last key, so only the past, and any bias_max"""
    build = quiet("transformers.models.mpt.modeling_mpt", "build_mpt_alibi_tensor")
    theirs = build(p.heads, p.reach[0] + 1, p.keys.number("bias_max", 8.0)).view(p.heads, -1).flip(1)
    p.same("bias", theirs, 1e-6, (slice(None), slice(p.reach[1], None)))


def learned_slopes(p):
    """alibi with slopes as a parameter, by x-transformers; d ln m = m dm"""
    n, m = sum(p.reach) + 1, torch.exp(p.w["slope"]).requires_grad_(True)
    module = quiet("x_transformers.x_transformers", "AlibiPositionalBias")(p.heads, p.heads)
    module.slopes = m[:, :, None]
    theirs = module.forward_custom_pos(torch.arange(n))
    one_column(p, theirs.detach(), tolerance=1e-12)
    theirs[:, :, p.reach[1]].backward(p.result("dbias"))
    p.same("dw.slope", (m * m.grad).detach(), 1e-10)


def hugging_face_t5(p):
    k, n = p.keys, sum(p.reach) + 1
    config = quiet("transformers", "T5Config")(
        d_model=8, d_kv=4, num_heads=p.heads, relative_attention_num_buckets=k.whole("buckets", 32),
        relative_attention_max_distance=k.whole("distance", 128), is_decoder=k.whole("bidirectional", 1) < 0)
    module = quiet("transformers.models.t5.modeling_t5", "T5Attention")(config, has_relative_attention_bias=True,
                                                                     layer_idx=0)
    table_gradients(p, module.relative_attention_bias.weight, lambda: module.compute_bias(n, n)[0])


def x_t5(p):
    k, n = p.keys, sum(p.reach) + 1
    module = quiet("x_transformers.x_transformers", "RelativePositionBias")(
        1.0, k.whole("bidirectional", 1) < 0, k.whole("buckets", 32), k.whole("distance", 128), p.heads)
    table_gradients(p, module.relative_attention_bias.weight, lambda: module(n, n))


def table_gradients(p, weight, bias):
    with torch.no_grad():
        weight.copy_(p.w["weight"])
    theirs = bias()
    one_column(p, theirs.detach(), tolerance=1e-12)
    theirs[:, :, p.reach[1]].backward(p.result("dbias"))
    p.same("dw.weight", weight.grad, 1e-11)


def timm_swin(p):
    """their matrix of a whole window, and ours read at the distances of the tokens' places on the line"""
    k = p.keys
    window = (k.whole("height"), k.whole("width"))
    module = quiet("timm.layers", "RelPosBias")(window, p.heads)
    with torch.no_grad():
        module.relative_position_bias_table.copy_(p.w["weight"])
    line = swin_line(k, torch.arange(math.prod(window)).double()[:, None]).long()
    d = line[:, None] - line[None]
    past, future = p.reach
    inside, theirs = (d <= past) & (d >= -future), module.get_bias()[0]
    p.same("bias", theirs[:, inside].detach(), 1e-12, (slice(None), d[inside] + future))
    if past == future == line[-1]:                    # every pair is in reach: gradients of every pair too
        g = p.result("dbias")[:, d + future]
        theirs.backward(g)
        count = torch.bincount(d.flatten() + future, minlength=past + future + 1)[:, None]
        p.same("dw.weight", module.relative_position_bias_table.grad / count.clamp(min=1), 1e-12,
               (count > 0)[:, 0].nonzero()[:, 0])


# ---- no package: facts and closed forms ------------------------------------------------------------------

def padded_table(p):
    """no clamp: the table itself, mirrored where it holds both sides, its ends repeated as far as the reach goes"""
    table, (past, future), far = p.w["weight"].clone().requires_grad_(True), p.reach, p.keys.whole("distance")
    both = p.keys.whole("bidirectional", 1) > 0
    rows = table.T.flip(1) if both else table.T
    theirs = F.pad(rows, (future - far if both else future, past - far), mode="replicate")
    p.same("bias", theirs.detach(), 0.0)
    theirs.backward(p.result("dbias"))
    p.same("dw.weight", table.grad, 1e-12)


def closed_kerple(p):
    """gradients as encodings.md 1.3.4 prints them; none where a value was clamped"""
    d, g, power = distances(*p.reach).abs().double(), p.result("dbias"), p.keys.word("form", "log") == "power"
    for h, (r1, r2) in enumerate(p.w["weight"].tolist()):
        free1, free2 = r1 >= 0.01, 0.01 <= r2 and (not power or r2 <= 2)
        r1, r2 = max(0.01, r1), min(max(0.01, r2), 2.0 if power else math.inf)
        near = d.clamp(min=1.0)
        shape = near ** r2 * (d > 0) if power else torch.log1p(r2 * d)
        slope = r1 * near ** r2 * torch.log(near) * (d > 0) if power else r1 * d / (1 + r2 * d)
        p.same("bias", -r1 * shape, 1e-12, h)
        p.same("dw.weight", torch.stack([-(g[h] * shape).sum() * free1, -(g[h] * slope).sum() * free2]), 1e-10, h)


def sandwich_products(p):
    """what the bias is made from: products of waves of two tokens, without the frequency 1"""
    n, (past, future) = p.keys.whole("buckets", 128), p.reach
    w = torch.tensor([10000.0 ** (-2 * i / n) for i in range(1, n // 2 + 1)])
    spin = torch.polar(torch.ones(()), torch.arange(past + future + 1)[:, None] * w)
    products = (spin * spin[future].conj()).real.sum(1) - n / 2
    p.same("bias", products * p.heads / (8 * torch.arange(1, p.heads + 1)[:, None]), 1e-11)


def facts():
    """frequencies that encodings.md 1.2.2 prints"""
    for spec, dim, length, printed, m in (
            ("scaling=linear,factor=4", 16, 0, ".25 .079056941 .025 .0079056947 .0025 .00079056947 .00025 7.9056947e-5",
             1.0),
            ("scaling=dynamic,factor=2,original=2048", 16, 8192, "1 .23948137 .057351321 .013734572 .0032891738 "
             ".00078769587 .00018863847 4.5175395e-5", 1.0),
            ("scaling=yarn,factor=8,original=2048", 16, 0, "1 .31622776 .1 .024705295 .0056249998 .001087033 .000125 "
             "3.9528473e-5", 1.2079441541679836),
            ("scaling=yarn,factor=8,original=2048,truncate=-1", 16, 0, "1 .31622776 .1 .022578098 .0042331335 "
             ".00041945922 .000125 3.9528473e-5", 1.2079441541679836),
            ("scaling=yarn,factor=40,original=4096,mscale=.707,mscale_all=.707", 16, 0, "1", 1.0),
            ("scaling=longrope,factor=32,original=4096,short=1/1/1/1/1/1/1/1,long=1/1.5/2/3/4/6/8/16", 16, 4097,
             "1 .2108185 .05 .010540925 .0025 .00052704633 .000125 1.9764237e-5", 1.1902380714238083),
            ("scaling=llama3,factor=8,low=1,high=4,original=8192,base=500000", 32, 0, "1 .44036663 .19392276 "
             ".085397102 .037606031 .016560441 .0072926651 .0032114461 .00052484602 7.7846555e-5 3.4281024e-5 "
             "1.5096218e-5 6.6478697e-6 2.9274997e-6 1.2891732e-6 5.6770881e-7", 1.0),
            ("scaling=proportional,proportion=.25,base=1000000", 32, 0, "1 .42169651 .17782794 .074989416" + " 0" * 12,
             1.0)):
        f, magnitude = scaled(Keys("rope:" + spec), dim, length)
        printed = torch.tensor([float(x) for x in printed.split()])
        assert ((f[:len(printed)] - printed).abs() <= 5e-7 * printed).all(), (spec, f, printed)
        assert abs(magnitude - m) < 1e-15, (spec, magnitude, m)


# ---- who is compared with whom -------------------------------------------------------------------------

PEERS = (
    ("positional-encodings", "PositionalEncoding1D", positional_encodings_1d, "sinusoidal.paper"),
    ("transformers", "MarianSinusoidalPositionalEmbedding", marian,
     "sinusoidal.paper sinusoidal.odd sinusoidal.concat sinusoidal.concat_odd sinusoidal.cosfirst"),
    ("transformers", "whisper sinusoids", whisper, "sinusoidal.t2t sinusoidal.t2t_concat sinusoidal.t2t_cosfirst"),
    ("transformers", "M2M100SinusoidalPositionalEmbedding", m2m100,
     "sinusoidal.t2t sinusoidal.t2t_odd sinusoidal.t2t_concat_odd sinusoidal.t2t_cosfirst sinusoidal.t2t_cosfirst_odd"),
    ("x-transformers", "ScaledSinusoidalEmbedding", x_scaled_sinusoidal, "sinusoidal.scaled"),
    ("torchscale", "fixed_pos_embedding", torchscale_sines, "sinonly.plain"),
    ("", PLAIN + ", Python's format()", python_digits, "binary.* binary_norm.* decimal.* decimal_norm.*"),
    ("torch", "nn.Embedding", torch_embedding, "learned.* sininit.*"),
    ("torch", "nn.Sequential", torch_network, "continuous.*"),
    ("torch", "nn.Sequential, polar", torch_fourier_network, "learned_fourier.*"),
    ("positional-encodings", "PositionalEncoding2D", positional_encodings_2d,
     "sincos2d.tokens sincos2d.cut sincos2d.swap"),
    ("positional-encodings", "PositionalEncoding3D", positional_encodings_3d, "sincos3d.tokens sincos3d.cut"),
    ("timm", "build_sincos2d_pos_embed", timm_sincos2d, "sincos2d.concat sincos2d.concat_swap"),
    ("transformers", "ViTMAE build_2d_sinusoidal_position_embedding", vit_mae, "sincos2d.concat sincos2d.concat_swap"),
    ("transformers", "Perceiver generate_fourier_features", perceiver, "fourier.linear fourier.one_band fourier.grid"),
    ("timm", "build_fourier_pos_embed", timm_fourier, "fourier.linear fourier.log fourier.grid fourier.grid_log"),
    ("transformers", "SamPositionalEmbedding", sam, "random_fourier.*"),
    ("transformers", "ROPE_INIT_FUNCTIONS", hugging_face_rope,
     "rope.linear rope.linear_trailing rope.dynamic_below rope.dynamic_above rope.dynamic_length rope.yarn "
     "rope.yarn_untruncated rope.yarn_mscale rope.yarn_attention rope.yarn_bounds rope.yarn_step rope.llama3 "
     "rope.llama3_bounds rope.longrope_at rope.longrope_over rope.longrope_length rope.proportional "
     "rope.proportional_factor"),
    ("transformers", "ROPE_INIT_FUNCTIONS longrope", hugging_face_rope, "rope.factors rope.factors_attention"),
    ("transformers", "LlamaRotaryEmbedding", hugging_face_rope,
     "rope.half rope.leading rope.middle rope.over_width_half rope.nope_turns"),
    ("transformers", "GPT-J apply_rotary_pos_emb", hugging_face_rope,
     "rope.interleaved rope.trailing rope.over_width"),
    ("x-transformers", "RotaryEmbedding", x_rope,
     "rope.interleaved rope.trailing rope.over_width rope.linear_trailing rope.ntk rope.ntk_partial xpos.center"),
    ("rotary-embedding-torch", "RotaryEmbedding", rotary_embedding_torch,
     "rope.interleaved rope.trailing rope.over_width rope.linear_trailing rope.ntk rope.ntk_partial xpos.center "
     "xpos.default xpos.trailing"),
    ("rotary-embedding-torch", "learned_freq", rotary_embedding_learned, "lrope.half lrope.trailing"),
    ("rotary-embedding-torch", "custom_freqs", rotary_embedding_learned, "rope.half rope.interleaved"),
    ("torchscale", "XPOS", torchscale_xpos, "xpos.ceil"),
    ("timm", "RotaryEmbeddingCat", timm_cat,
     "rope2d.tokens rope2d.factor rope2d.trailing rope_pixel.tokens rope_pixel.cells rope_pixel.trailing"),
    ("timm", "RotaryEmbeddingDinoV3", timm_dino, "rope_dino.*"),
    ("transformers", "DINOv3ViTRopePositionEmbedding", hugging_face_dino, "rope_dino.tokens"),
    ("transformers", "Qwen2VLVisionRotaryEmbedding", qwen2_vision, "rope2d.cells"),
    ("transformers", "PixtralVisionRotaryEmbedding", pixtral, "rope2d.alternate rope2d.alternate_cells"),
    ("transformers", "Qwen2VLRotaryEmbedding", qwen_text,
     "mrope.chunked mrope.chunked_uneven mrope.default mrope.text"),
    ("transformers", "Qwen3VLTextRotaryEmbedding", qwen_text, "mrope.interleaved mrope.trailing"),
    ("transformers", "Llama4TextAttention", llama4, "qtemp.llama4 qtemp.every_on qtemp.every_off"),
    ("transformers", "ministral3 get_llama_4_attn_scale", ministral, "qtemp.ministral qtemp.far"),
    ("transformers", "InklingAttention", inkling, "qtemp.smooth"),
    ("x-transformers", "AlibiPositionalBias", x_alibi, "alibi.six alibi.some_heads"),
    ("transformers", "MPT build_mpt_alibi_tensor", mpt_alibi, "alibi.six alibi.twelve"),
    ("x-transformers", "AlibiPositionalBias with slopes", learned_slopes, "lalibi.*"),
    ("transformers", "T5Attention.compute_bias", hugging_face_t5, "t5.*"),
    ("x-transformers", "RelativePositionBias", x_t5, "t5.*"),
    ("timm", "RelPosBias", timm_swin, "swin.*"),
    ("", PLAIN + ", padded table", padded_table, "relative.*"),
    ("", PLAIN + ", closed form", closed_kerple, "kerple.*"),
    ("", PLAIN + ", products of waves", sandwich_products, "sandwich.*"),
)


def compare(function, case):
    """worst error, and its share of what is allowed; then once more for each result it looked at, spoiled"""
    good = Peer(case)
    function(good)
    assert good.looked_at, (case.name, "looked at nothing")
    for name in sorted(good.looked_at):
        if case.results()[name].abs().max() == 0:
            continue
        try:
            function(Peer(case, name))
        except AssertionError:
            continue
        raise RuntimeError(f"{function.__name__} does not notice a wrong {name} of {case.name}")
    return good.worst, good.share


def installed(package):
    if not package:
        return ""
    try:
        return f"{package} {importlib.metadata.version(package)} "
    except importlib.metadata.PackageNotFoundError:
        return None


def check(report=None):
    """Case name, and encoding name, -> whom it agrees with. report: a list for (case, oracle, error, share)."""
    facts()
    every, found, missing = cases(), {}, set()
    for package, what, function, wanted in PEERS:
        version = installed(package)
        if version is None:
            missing.add(package)
            continue
        for case in every:
            if case.name in wanted.split() or case.encoding + ".*" in wanted.split():
                try:
                    worst = compare(function, case)
                except ImportError as e:              # theirs, or what theirs needs
                    missing.add(f"{package} ({e})")
                    continue
                found.setdefault(case.name, []).append(version + what)
                if report is not None:
                    report.append((case.name, version + what, *worst))
    oracles = {case.name: "; ".join(found.get(case.name, [PLAIN])) for case in every}
    for name in (*EMBEDDING, *QUERY_KEY, *SCORE):
        of_cases = dict.fromkeys(x for case in every if case.encoding == name for x in found.get(case.name, [PLAIN]))
        oracles[name] = "; ".join(of_cases)
    print(f"catalogue: {len(found)} of {len(every)} cases agree with others; not installed:",
          ", ".join(sorted(missing)) or "nothing")
    return oracles
