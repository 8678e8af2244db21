r"""bench_torch: the works of bench.c, done by PyTorch on the CPU

    python3 demos/bench_torch.py                                  every work, eager
    python3 demos/bench_torch.py --compile --filter rope,step/pattern
    python3 demos/bench_torch.py --list                           the names of the works
    python3 demos/bench_torch.py --selfcheck                      do the training steps train?

The first line printed names version, threads and malloc; then one line for each work, with tabs:

    NAME  VARIANT  MEDIAN_SECONDS  LOW_SECONDS  HIGH_SECONDS

VARIANT is eager, or compiled (torch.compile, with --compile). After a warm-up --repeats samples are
taken, each long enough that all together last about --seconds; a sample is the mean time of one run
in it, low and high are the smallest and the largest. A work that fails leaves one line on stderr,
NAME  VARIANT  failed: WHY, and the others go on; a wrong command line exits with 2.

PyTorch takes every large result from malloc, and by default glibc gives the memory back and asks
for it again in every step. The caller can stop that before Python starts, and the first line then
says "malloc tuned" (it looks at MALLOC_TRIM_THRESHOLD_ only):

    MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_MMAP_THRESHOLD_=100000000000 \
    MALLOC_TOP_PAD_=67108864 python3 demos/bench_torch.py

To be as fast as PyTorch can: queries, keys and values are one product, attention is SDPA, AdamW is
fused, all batches lie in memory beforehand, bf16 steps run under autocast with parameters in float.
step/pattern has PyTorch's own dropout; step/pattern_bytes is the same model with dropout by random
bytes, which PyTorch does not offer but which can be written in it and takes less time on a CPU.
"""
import argparse, gc, itertools, math, os, statistics, sys, time
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

# ---- the models ----------------------------------------------------------------------------------

@dataclass(frozen=True)
class Plan:
    """All that decides a training step, named as in posenc_config and posenc_optimizer."""
    task: str                               # pattern, marker, text: what the batches look like
    batch: int; context: int; vocab: int; layers: int; channels: int; heads: int; hidden: int
    encoding: str                           # learned, sinusoidal, rope
    classes: int = 0                        # 0: next-token model
    modern: bool = False                    # RMSNorm, QK-norm, SwiGLU, tied head, no biases
    dropout: float = 0.0                    # of embedding, map, branches and hidden
    byte_dropout: bool = False
    embedding_init: float = 0.02
    rate: float = 1e-3
    betas: tuple = (0.9, 0.999)
    decay: float = 0.0
    clip: float = 0.0


PATTERN = Plan("pattern", batch=32, context=32, vocab=20, layers=3, channels=128, heads=8,
               hidden=512, encoding="learned", classes=3, dropout=0.1, embedding_init=0.5,
               decay=0.01, clip=1.0)
MARKER = Plan("marker", batch=32, context=64, vocab=100, layers=1, channels=64, heads=4, hidden=128,
              encoding="sinusoidal", embedding_init=1.0)
MICRO = Plan("text", batch=16, context=256, vocab=256, layers=4, channels=256, heads=8, hidden=1024,
             encoding="rope", modern=True, betas=(0.9, 0.95), decay=0.1, clip=1.0)
TINY = replace(MICRO, batch=4, context=1024, vocab=65536, layers=6, channels=512, hidden=2048)


def angles(length, pairs):
    """(length, pairs): position times frequency, in double"""
    frequency = 10000.0 ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    return torch.outer(torch.arange(length, dtype=torch.float64), frequency)


def turn_tables(length, head):
    """cosines and sines for rope in the half layout, (length, head) each"""
    a = angles(length, head // 2).repeat(1, 2)
    return a.cos().float(), a.sin().float()


def turn(x, cosines, sines):
    """rope: channel i and channel i + head/2 are a pair"""
    left, right = x.chunk(2, -1)
    return x * cosines + torch.cat((-right, left), -1) * sines


def drop_by_bytes(x, rate):
    """Dropout with a random byte for each number: the rate is a multiple of 1/256, here 26/256."""
    n, dropped = x.numel(), round(256 * rate)
    words = torch.empty((n + 7) // 8, dtype=torch.int64).random_(-2**63, None)
    kept = words.view(torch.uint8)[:n].view(x.shape) >= dropped
    return x * kept.to(x.dtype).mul_(256 / (256 - dropped))


class Block(nn.Module):
    """A pre-norm block: x + attention(norm1(x)), then x + mlp(norm2(x))."""

    def __init__(self, plan):
        super().__init__()
        C, bias, norm = plan.channels, not plan.modern, nn.RMSNorm if plan.modern else nn.LayerNorm
        self.plan = plan
        self.norm1, self.norm2 = norm(C, eps=1e-5), norm(C, eps=1e-5)
        self.qkv, self.out = nn.Linear(C, 3 * C, bias), nn.Linear(C, C, bias)
        self.up, self.down = nn.Linear(C, plan.hidden, bias), nn.Linear(plan.hidden, C, bias)
        if plan.modern:
            self.gate = nn.Linear(C, plan.hidden, bias)
            self.q_norm, self.k_norm = (nn.Parameter(torch.ones(C // plan.heads)) for _ in "qk")

    def drop(self, x):
        rate = self.plan.dropout if self.training else 0.0
        if rate == 0: return x
        return drop_by_bytes(x, rate) if self.plan.byte_dropout else F.dropout(x, rate)

    def mix(self, q, k, v):
        if self.plan.byte_dropout:                       # SDPA draws its own mask, so by hand
            scores = q * q.shape[-1] ** -0.5 @ k.transpose(-1, -2)
            return self.drop(scores.softmax(-1)) @ v
        return F.scaled_dot_product_attention(q, k, v, is_causal=not self.plan.classes,
                                              dropout_p=self.plan.dropout * self.training)

    def attention(self, x, tables):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.plan.heads, -1).unbind(2)
        if self.plan.modern:
            q, k = (F.rms_norm(y, y.shape[-1:], gain.type_as(y), 1e-5)
                    for y, gain in ((q, self.q_norm), (k, self.k_norm)))
        if tables:
            cosines, sines = (t.type_as(v)[:, None] for t in tables)
            q, k = turn(q, cosines, sines), turn(k, cosines, sines)
        y = self.mix(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        return self.drop(self.out(y.transpose(1, 2).reshape(B, T, C)))

    def mlp(self, x):
        up = self.up(x)
        act = F.silu(self.gate(x)) * up if self.plan.modern else F.relu(up)
        return self.drop(self.down(self.drop(act)))

    def forward(self, x, tables):
        x = x + self.attention(self.norm1(x), tables)
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, plan):
        super().__init__()
        C, T = plan.channels, plan.context
        self.plan = plan
        self.token = nn.Embedding(plan.vocab, C)
        nn.init.normal_(self.token.weight, std=plan.embedding_init)
        self.blocks = nn.ModuleList(Block(plan) for _ in range(plan.layers))
        self.norm = (nn.RMSNorm if plan.modern else nn.LayerNorm)(C, eps=1e-5)
        self.head = nn.Linear(C, plan.classes or plan.vocab, bias=plan.classes > 0)
        if plan.modern: self.head.weight = self.token.weight
        self.tables = turn_tables(T, C // plan.heads) if plan.encoding == "rope" else None
        if plan.encoding == "learned": self.rows = nn.Parameter(0.02 * torch.randn(T, C))
        if plan.encoding == "sinusoidal":
            a = angles(T, C // 2)
            self.rows = torch.stack((a.sin(), a.cos()), -1).flatten(1).float()

    def forward(self, tokens, targets):
        """the mean loss"""
        x = self.token(tokens)
        x = self.blocks[0].drop(x if self.tables else x + self.rows)
        for block in self.blocks: x = block(x, self.tables)
        x = self.norm(x)
        x = x.mean(1) if self.plan.classes else x.flatten(0, 1)
        return F.cross_entropy(self.head(x), targets.flatten())


# ---- their batches -------------------------------------------------------------------------------

def pattern_batch(plan):
    """tokens with one of three pairs of values in its places; 0 is padding and not drawn"""
    places = torch.tensor([[3, 7], [5, 10], [15, 20]])
    values = torch.tensor([[5, 8], [3, 9], [7, 4]])
    labels = torch.randint(3, (plan.batch,))
    tokens = torch.randint(1, plan.vocab, (plan.batch, plan.context))
    return tokens.scatter_(1, places[labels], values[labels]), labels


def marker_batch(plan):
    """START a a+1 a+2 MIDDLE a+3 a+4 END 0 ...; the target is the next token, the last is START"""
    a = torch.randint(10, 81, (plan.batch,))
    one = torch.ones_like(a)
    head = torch.stack((one, a, a + 1, a + 2, 2 * one, a + 3, a + 4, 3 * one), 1)
    tokens = F.pad(head, (0, plan.context - 8))
    return tokens, tokens.roll(-1, 1)


def text_batch(plan):
    """small tokens more often than large ones, as in text"""
    tokens = (plan.vocab * torch.rand(plan.batch, plan.context + 1) ** 3).long()
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


class TrainingStep:
    """Forward, loss, backward, clipping where the plan has it, AdamW. Called once for each step."""

    def __init__(self, plan, bf16, compiled):
        torch.manual_seed(1)
        make = {"pattern": pattern_batch, "marker": marker_batch, "text": text_batch}[plan.task]
        self.plan, self.bf16, self.model = plan, bf16, Transformer(plan)
        self.batches = [make(plan) for _ in range(4)]
        self.turns = itertools.cycle(self.batches)
        self.parameters = list(self.model.parameters())
        decays = lambda p: plan.decay if p.dim() > 1 else 0.0            # matrices do, others not
        groups = [{"params": list(group), "weight_decay": decay} for decay, group in
                  itertools.groupby(sorted(self.parameters, key=decays), decays)]
        self.optimizer = torch.optim.AdamW(groups, lr=plan.rate, betas=plan.betas, fused=True)
        self.loss_of = torch.compile(self.loss) if compiled else self.loss

    def loss(self, tokens, targets):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            return self.model(tokens, targets)

    def __call__(self):
        self.loss_of(*next(self.turns)).backward()
        if self.plan.clip: nn.utils.clip_grad_norm_(self.parameters, self.plan.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


# ---- the works: name -> function(compiled) that returns what to time -----------------------------

def product(form, dtype, M, K, N, compiled):
    """one call of MKL or oneDNN: there is nothing to compile"""
    x, w, dy = (torch.randn(shape).to(dtype) for shape in ((M, K), (N, K), (M, N)))
    a, b = {"forward": (x, w.t()), "dx": (dy, w), "dw": (dy.t(), x)}[form]
    out = torch.empty(a.shape[0], b.shape[1], dtype=dtype)
    return lambda: torch.mm(a, b, out=out)


def rope(compiled):
    q, k = torch.randn(8, 16, 2048, 64), torch.randn(8, 16, 2048, 64)
    tables = turn_tables(2048, 64)
    both = lambda q, k: (turn(q, *tables), turn(k, *tables))
    both = torch.compile(both) if compiled else both
    return lambda: both(q, k)


def attention(biased, compiled):
    B, H, T, D = 8, 16, 1024, 64
    inputs = [torch.randn(B, H, T, D, requires_grad=True) for _ in "qkv"]
    gradient = torch.randn(B, H, T, D)
    place = torch.arange(T)
    distance = place[:, None] - place
    column = torch.where(distance < 0, T, distance).flatten()     # T: the future, a column of -inf
    future = torch.full((H, 1), -math.inf)
    if biased: inputs.append((0.02 * torch.randn(H, T)).requires_grad_())

    def forward(q, k, v, table=None):
        if table is None: return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        bias = torch.cat((table, future), 1).index_select(1, column).view(1, H, T, T)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)

    forward = torch.compile(forward) if compiled else forward
    return lambda: torch.autograd.grad(forward(*inputs), inputs, gradient)


def list_steps():
    """name -> plan, bf16"""
    plans = {"pattern": PATTERN, "pattern_bytes": replace(PATTERN, byte_dropout=True),
             "pattern_plain": replace(PATTERN, dropout=0.0)}
    for depth in (1, 4, 16):
        plans[f"marker{depth}"] = replace(MARKER, layers=depth)
        plans[f"marker{depth}_rope"] = replace(MARKER, layers=depth, encoding="rope")
    plans.update(micro=MICRO, tiny=TINY)
    only_fp32 = lambda name: name.startswith("marker") or name == "pattern_plain"
    return {f"step/{name}/{precision}": (plan, precision == "bf16") for name, plan in plans.items()
            for precision in ("fp32", "bf16")[:1 if only_fp32(name) else 2]}


def list_works():
    shapes = ((1024, 128, 128), (1024, 128, 512), (1024, 512, 128), (2048, 64, 128),
              (4096, 512, 512), (4096, 512, 2048))
    works = {f"product/{precision}/{M}x{K}x{N}/{form}": partial(product, form, dtype, M, K, N)
             for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16))
             for M, K, N in shapes for form in ("forward", "dx", "dw")}
    works["rope/8x16x2048x64"] = rope
    works["attention/8x16x1024x64/causal"] = partial(attention, False)
    works["attention/8x16x1024x64/bias"] = partial(attention, True)
    works.update({name: partial(TrainingStep, *step) for name, step in list_steps().items()})
    return works


# ---- measuring -----------------------------------------------------------------------------------

def seconds_of(run, times):
    start = time.perf_counter()
    for _ in range(times): run()
    return time.perf_counter() - start


def measure(run, seconds, repeats):
    """Seconds of one run, `repeats` times. How many runs make a sample is found on the way up."""
    run()                                                         # compiles; makes AdamW's moments
    times, took = 1, seconds_of(run, 1)
    while took < 0.25 * seconds / repeats:
        times *= 2
        took = seconds_of(run, times)
    times = max(1, round(times * seconds / repeats / took))
    return [seconds_of(run, times) / times for _ in range(repeats)]


def report(name, make, compiled, seconds, repeats):
    variant = "compiled" if compiled else "eager"
    torch._dynamo.reset()
    try:
        samples = measure(make(compiled), seconds, repeats)
    except Exception as error:
        why = " ".join(str(error).split())[:300] or type(error).__name__
        print(f"{name}\t{variant}\tfailed: {why}", file=sys.stderr, flush=True)
        return
    figures = statistics.median(samples), min(samples), max(samples)
    print(name, variant, *("%.9g" % f for f in figures), sep="\t", flush=True)


def selfcheck(name, plan, bf16):
    """Three small steps with one batch; its loss, without dropout, before and after them."""
    def loss():
        step.model.eval()
        value = step.loss(*step.batches[0]).item()
        step.model.train()
        return value
    step = TrainingStep(replace(plan, rate=1e-4), bf16, False)
    step.turns = itertools.repeat(step.batches[0])
    before, first = [p.detach().clone() for p in step.parameters], loss()
    for _ in range(3): step()
    last, numbers = loss(), sum(b.numel() for b in before)
    changed = sum(not torch.equal(p, b) for p, b in zip(step.parameters, before))
    trains = changed == len(before) and last < first
    print(f"{'ok' if trains else 'FAILED':6s} {name:23s} {numbers:11,d} parameters, "
          f"loss {first:.4f} -> {last:.4f}, {changed} of {len(before)} tensors changed", flush=True)
    return trains


def main():
    parser = argparse.ArgumentParser(description="the works of bench.c, done by PyTorch on the CPU")
    option = parser.add_argument
    option("--threads", type=int, default=0, help="0: PyTorch's own choice")
    option("--seconds", type=float, default=1.0, help="of all samples of a work together [1]")
    option("--repeats", type=int, default=7, help="samples of a work [7]")
    option("--filter", default="", metavar="TEXT,TEXT", help="only works named like one")
    option("--compile", action="store_true", help="each work again, compiled")
    option("--list", action="store_true", help="print the names of the works and stop")
    option("--selfcheck", action="store_true", help="does every training step train?")
    args = parser.parse_args()
    texts = [text for text in args.filter.split(",") if text] or [""]
    wanted = lambda name: any(text in name for text in texts)
    works = {name: work for name, work in list_works().items() if wanted(name)}
    if not works: parser.error(f"no work has '{args.filter}' in its name; --list shows them all")
    if args.repeats < 1 or args.seconds <= 0 or args.threads < 0:
        parser.error("--repeats and --seconds must be above 0, --threads not below")
    if args.list:
        print("\n".join(works))
        return 0
    if args.threads: torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    malloc = "tuned" if "MALLOC_TRIM_THRESHOLD_" in os.environ else "default"
    print(f"# torch {torch.__version__}, {torch.get_num_threads()} threads, malloc {malloc}",
          flush=True)
    if args.selfcheck:
        return 1 - all([selfcheck(name, *s) for name, s in list_steps().items() if wanted(name)])
    for name, make in works.items():
        both = args.compile and not name.startswith("product")
        for compiled in (False, True)[:1 + both]:
            report(name, make, compiled, args.seconds, args.repeats)
            gc.collect()                                                 # a model and its gradients
    return 0


if __name__ == "__main__":
    sys.exit(main())
