"""Compares the oracle's own formulas with other people's before they are trusted: torch.nn's modules, facts that
are known from print, and transformers and x-transformers where they are installed."""
import torch
import torch.nn.functional as F

import oracle_models
from oracle_attention import attention
from oracle_book import numbers
from oracle_encodings import alibi, alibi_slopes, frequencies, relative, rope, sinusoidal, t5, t5_bucket


def close(a, b, tolerance=1e-12):
    assert a.shape == b.shape, (a.shape, b.shape)
    worst = (a.double() - b.double()).abs().max()
    assert worst <= tolerance, worst


# ---- known facts -------------------------------------------------------------------------------------

def facts():
    close(alibi_slopes(8), torch.tensor([2.0 ** -k for k in range(1, 9)]), 0.0)
    close(alibi_slopes(6), torch.tensor([.25, .0625, .015625, .00390625, .5, .125]), 0.0)
    close(alibi(2, 2, 1)[:, 1:], -torch.tensor([[0.0, 1, 2]]) * alibi_slopes(2)[:, None], 0.0)

    causal = [t5_bucket(d, 32, 128, False) for d in range(400)]
    starts = [causal.index(k) for k in range(32)]     # the first distance of each bucket
    assert starts == list(range(17)) + [19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113], starts
    assert all(t5_bucket(-d, 32, 128, False) == 0 for d in range(400))
    for sign, first in ((1, 0), (-1, 16)):
        side = [t5_bucket(sign * d, 32, 128, True) - first for d in range(1, 400)]
        starts = [side.index(k) + 1 for k in range(1, 16)]
        assert starts == list(range(1, 9)) + [12, 16, 23, 32, 46, 64, 91], starts

    close(frequencies(16, 1e4)[:2], torch.tensor([1.0, 10 ** -0.5]), 1e-15)
    table = sinusoidal(torch.arange(4.0), 6, 1e4)     # two rows of the printed formula, spelt out
    close(table[3, :2], torch.tensor([0.1411200080598672, -0.9899924966004454]), 1e-15)
    close(table[2, 2], torch.sin(torch.tensor(2 / 10000 ** (2 / 6))), 1e-15)

    # turning by hand: a quarter turn of the first pair
    x, quarter = torch.tensor([1.0, 2, 3, 4]).view(1, 1, 1, 4), torch.tensor([torch.pi / 2])
    close(rope(x, quarter, "interleaved", 1e300).view(4)[:2], torch.tensor([-2.0, 1]), 1e-15)
    close(rope(x, quarter, "half", 1e300).view(4)[[0, 2]], torch.tensor([-3.0, 1]), 1e-15)


# ---- torch.nn ----------------------------------------------------------------------------------------

def torch_modules():
    """nn.TransformerEncoderLayer stacks for the models without rotation must give the same logits."""
    kinds = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda y: F.gelu(y, approximate="tanh")}
    for model in ("classifier", "causal", "postnorm"):
        c, batch = oracle_models.MODELS[model], oracle_models.batch_of(model)
        w = {k: p.detach() for k, p in oracle_models.weights(model, c).items()}
        b, t = batch["tokens"].shape
        h, width, e = c["heads"], c["channels"], c["encoding"]
        x = F.embedding(batch["tokens"], w["token_embedding.weight"])
        x = x * (width ** 0.5 if c.get("scale_embedding") else 1)
        if "learned" in e:
            x = x + w["pe.learned.weight"][:t]
        if "sinusoidal" in e:
            x = x + sinusoidal(torch.arange(float(t)), width, 1e4)
        if c.get("embedding_norm"):
            x = F.layer_norm(x, (width,), w["embedding_norm.weight"], w["embedding_norm.bias"])
        d = torch.arange(t)[:, None] - torch.arange(t)[None, :] + t - 1
        mask = torch.zeros(h, t, t)
        if "relative" in e:
            mask = relative(w["pe.relative.weight"], e["relative"]["distance"], t - 1, t - 1)[:, d]
        if "t5" in e:
            mask = t5(w["pe.t5.weight"], e["t5"]["buckets"], e["t5"]["distance"], not c["causal"], t - 1, t - 1)[:, d]
        if c["causal"]:
            mask = mask + torch.full((t, t), -torch.inf).triu(1)
        if "padding" in c:                            # their softmax has no answer for rows of padding alone
            real = (batch["tokens"] != c["padding"]).any(1)
        else:
            real = torch.ones(b, dtype=torch.bool)
        x, tokens = x[real], batch["tokens"][real]
        mask = mask.expand(len(x), h, t, t)
        if "padding" in c:
            mask = mask + torch.where(tokens == c["padding"], -torch.inf, 0.0)[:, None, None, :]
        for i in range(c["layers"]):
            layer = torch.nn.TransformerEncoderLayer(width, h, c["hidden"], 0.0, kinds[c["activation"]], 1e-5, True,
                                                     not c.get("post_norm"))
            at = f"blocks.{i}."
            layer.load_state_dict({
                "self_attn.in_proj_weight": torch.cat([w[f"{at}attn.{s}_proj.weight"] for s in "qkv"]),
                "self_attn.in_proj_bias": torch.cat([w[f"{at}attn.{s}_proj.bias"] for s in "qkv"]),
                **{f"{theirs}.{p}": w[f"{at}{ours}.{p}"] for p in ("weight", "bias") for theirs, ours in
                   (("self_attn.out_proj", "attn.out_proj"), ("linear1", "mlp.up_proj"), ("linear2", "mlp.down_proj"),
                    ("norm1", "norm1"), ("norm2", "norm2"))}})
            x = layer(x, src_mask=mask.reshape(-1, t, t))
        if not c.get("post_norm"):
            x = F.layer_norm(x, (width,), w["norm.weight"], w["norm.bias"])
        ours = oracle_models.loss_of(w, c, batch)[0]
        if c.get("classes"):
            pooled = torch.stack([row[tokens[i] != 0].mean(0) for i, row in enumerate(x)])
            close(F.linear(pooled, w["head.weight"], w["head.bias"]), ours[real], 1e-10)
        else:
            close(F.linear(x.reshape(-1, width), w["lm_head.weight"]), ours, 1e-10)


# ---- transformers, x-transformers ----------------------------------------------------------------------

def hugging_face():
    try:
        from transformers import Qwen3Config, Qwen3ForCausalLM
        from transformers.models.bloom.modeling_bloom import build_alibi_tensor
        from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as interleaved
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as half
        from transformers.models.t5.modeling_t5 import T5Attention
    except ImportError:
        return "not installed"
    b, t, h, d = 2, 5, 3, 8
    x, pos = numbers("peers.x", b, t, h, d), torch.tensor([1.0, 2, 9, 100, 4095])
    angle = pos[:, None] * frequencies(d, 1e4)
    twice = torch.cat([angle, angle], -1)
    theirs = half(x.transpose(1, 2), x.transpose(1, 2), twice.cos()[None], twice.sin()[None])[0]
    close(theirs.transpose(1, 2), rope(x, pos, "half", 1e4))
    theirs = interleaved(x, angle.sin()[None].expand(b, t, d // 2), angle.cos()[None].expand(b, t, d // 2))
    close(theirs, rope(x, pos, "interleaved", 1e4))

    distance = torch.arange(-300, 301)
    for buckets, far in ((32, 128), (8, 20), (8, 6)):
        for both in (False, True):
            theirs = T5Attention._relative_position_bucket(-distance, both, buckets, far)
            ours = torch.tensor([t5_bucket(int(k), buckets, far, both) for k in distance])
            assert torch.equal(theirs, ours), (buckets, far, both, (theirs != ours).nonzero())
    for heads in (4, 6, 8, 12):                       # theirs is m * p_j, which differs by a constant per row
        theirs = build_alibi_tensor(torch.ones(1, t), heads, torch.float32).view(heads, t)
        close(theirs - theirs[:, -1:], alibi(heads, t - 1, 0).flip(1), 1e-6)

    c, batch = oracle_models.MODELS["modern"], oracle_models.batch_of("modern")
    w = {k: p.detach() for k, p in oracle_models.weights("modern", c).items()}
    qwen = Qwen3ForCausalLM(Qwen3Config(
        vocab_size=c["vocab"], hidden_size=c["channels"], intermediate_size=c["hidden"], num_hidden_layers=c["layers"],
        num_attention_heads=c["heads"], num_key_value_heads=c["kv_heads"], head_dim=c["channels"] // c["heads"],
        rms_norm_eps=1e-5, tie_word_embeddings=True, attention_bias=False, rope_theta=1e4,
        attn_implementation="eager")).double().eval()
    names = {"token_embedding.": "model.embed_tokens.", "blocks.": "model.layers.", "norm1": "input_layernorm",
             "norm2": "post_attention_layernorm", "out_proj": "o_proj", ".attn.": ".self_attn."}
    state = {}
    for name, p in w.items():
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        state["model.norm.weight" if name == "norm.weight" else name] = p
    missing, unexpected = qwen.load_state_dict(state, strict=False)
    assert missing in ([], ["lm_head.weight"]) and not unexpected, (missing, unexpected)
    qwen.tie_weights()
    with torch.no_grad():                             # its norms and angles are float32 inside
        close(qwen(batch["tokens"]).logits.reshape(-1, c["vocab"]), oracle_models.loss_of(w, c, batch)[0], 2e-5)
    return "agrees"


def x_transformers():
    try:
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from x_transformers.x_transformers import AlibiPositionalBias, RotaryEmbedding, apply_rotary_pos_emb
    except ImportError:
        return "not installed"
    d, pos = 8, torch.tensor([1.0, 2, 9, 100, 4095])
    x = numbers("peers.x", 2, 5, 3, d)
    freqs, scale = RotaryEmbedding(d).double().forward(pos)
    close(apply_rotary_pos_emb(x.transpose(1, 2), freqs, scale).transpose(1, 2), rope(x, pos, "interleaved", 1e4), 1e-3)
    for heads in (4, 6, 8, 12, 20):
        close(torch.tensor(AlibiPositionalBias._get_slopes(heads)), alibi_slopes(heads), 1e-15)
        close(AlibiPositionalBias(heads, heads)(4, 4)[:, 3], alibi(heads, 3, 0).flip(1), 1e-6)
    return "agrees"


def check():
    facts()
    torch_modules()
    q = numbers("peers.q", 1, 3, 2, 4)
    out, _, p, _ = attention(q, q, q, causal=True)
    close(p.sum(-1), torch.ones(1, 2, 3))
    close(out[:, 0], q[:, 0])                         # the first query sees itself alone
    print("torch.nn agrees; transformers:", hugging_face() + "; x-transformers:", x_transformers())
