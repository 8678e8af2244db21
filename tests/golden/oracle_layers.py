"""Layers, losses and optimizers: torch.nn.functional where it has them, autograd for every gradient."""
import torch
import torch.nn.functional as F

from oracle_book import leaf, numbers, single

IGNORE = -100


def linear(book):
    for case, rows, n_in, n_out, has_bias in (("linear", 7, 13, 9, True), ("linear_plain", 5, 8, 3, False),
                                              ("linear_wide", 13, 33, 40, True)):
        x, w = leaf(numbers(case + ".x", rows, n_in)), leaf(numbers(case + ".w", n_out, n_in, scale=0.3))
        b = leaf(numbers(case + ".b", n_out)) if has_bias else None
        dy = numbers(case + ".dy", rows, n_out)
        y = F.linear(x, w, b)
        y.backward(dy)
        book.put_all(case, x=x, w=w, y=y, dy=dy, dx=x.grad, dw=w.grad)
        if has_bias:
            book.put_all(case, b=b, db=b.grad)


def softmax(book):
    x = numbers("softmax.x", 6, 11, scale=3.0)
    x[1] += 1000.0                                    # exp overflows unless the maximum is taken off first
    x[2, ::2] = -torch.inf
    x[3] = -torch.inf                                 # nothing to choose from: zeros, not NaN
    x[4] = 0.0
    x = single(x)
    dy = numbers("softmax.dy", 6, 11)
    alive = [0, 1, 2, 4, 5]
    xs = leaf(x[alive])
    ys = F.softmax(xs, -1)
    ys.backward(dy[alive])
    y, dx = torch.zeros_like(x), torch.zeros_like(x)
    y[alive], dx[alive] = ys.detach(), xs.grad
    book.put_all("softmax", x=x, dy=dy, y=y, dx=dx)


def norms(book):
    rows, n = 6, 20
    for case, has_bias, eps in (("layernorm", True, 1e-5), ("layernorm_plain", False, 1e-5),
                                ("layernorm_eps", True, 0.25)):
        x = numbers(case + ".x", rows, n)
        x[1] *= 0.003                                 # a row so flat that eps shows
        x[2] += 10.0
        x, gain = leaf(single(x)), leaf(numbers(case + ".gain", n, scale=0.3, shift=1.0))
        bias = leaf(numbers(case + ".bias", n)) if has_bias else None
        dy = numbers(case + ".dy", rows, n)
        y = F.layer_norm(x, (n,), gain, bias, eps)
        y.backward(dy)
        book.put_all(case, x=x, gain=gain, y=y, dy=dy, dx=x.grad, dgain=gain.grad)
        book.put(case + ".eps", torch.tensor(eps), exact=True)
        if has_bias:
            book.put_all(case, bias=bias, dbias=bias.grad)
    for case, eps in (("rmsnorm", 1e-6), ("rmsnorm_eps", 0.25)):
        x = numbers(case + ".x", rows, n)
        x[1] *= 0.003
        x, gain = leaf(single(x)), leaf(numbers(case + ".gain", n, scale=0.3, shift=1.0))
        dy = numbers(case + ".dy", rows, n)
        y = F.rms_norm(x, (n,), gain, eps)
        y.backward(dy)
        book.put_all(case, x=x, gain=gain, y=y, dy=dy, dx=x.grad, dgain=gain.grad)
        book.put(case + ".eps", torch.tensor(eps), exact=True)


def activations(book):
    x = torch.cat([torch.linspace(-7.0, 7.0, 113), torch.tensor([0.0, -20.0, 20.0, -100.0, 100.0]),
                   numbers("activation.x", 40)])
    x = single(x)
    dy = numbers("activation.dy", len(x))
    book.put_all("activation", x=x, dy=dy)
    for kind, f in (("relu", F.relu), ("gelu", F.gelu), ("gelu_tanh", lambda t: F.gelu(t, approximate="tanh")),
                    ("silu", F.silu)):
        xs = leaf(x)
        y = f(xs)
        y.backward(dy)
        book.put_all("activation." + kind, y=y, dx=xs.grad)
    gate, up = leaf(x), leaf(numbers("swiglu.up", len(x)))
    y = F.silu(gate) * up
    y.backward(dy)
    book.put_all("swiglu", gate=gate, up=up, dy=dy, y=y, dgate=gate.grad, dup=up.grad)


def embedding(book):
    rows, width = 7, 5
    ids = torch.tensor([3, 0, 3, 6, 3, 1, 0])         # several tokens share a row
    for case, scale in (("embedding", 1.0), ("embedding_scaled", width ** 0.5)):
        nn = torch.nn.Embedding(rows, width)
        nn.weight.data = numbers(case + ".table", rows, width)
        dx = numbers(case + ".dx", len(ids), width)
        x = nn(ids) * scale
        x.backward(dx)
        book.put_all(case, id=ids, table=nn.weight, x=x, dx=dx, dtable=nn.weight.grad)
        book.put(case + ".scale", torch.tensor(scale), exact=True)


def pooling(book):
    b, t, c = 4, 6, 5
    keep = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0]]).bool()
    x, dy = leaf(numbers("pool.x", b, t, c)), numbers("pool.dy", b, c)
    y = (x * keep[:, :, None]).sum(1) / keep.sum(1).clamp(min=1)[:, None]
    y.backward(dy)
    book.put_all("pool", x=x, keep=keep, y=y, dy=dy, dx=x.grad)
    xs = leaf(x.detach())
    y = xs.mean(1)
    y.backward(dy)
    book.put_all("pool_all", y=y, dx=xs.grad)


def crossentropy(book):
    rows, v, c = 8, 11, 6
    target = torch.tensor([0, 10, IGNORE, 4, 4, IGNORE, 7, 2])
    logits = numbers("crossentropy.logits", rows, v, scale=2.0)
    logits[3] += 500.0
    logits[4, 4] = 60.0                               # sure and right: the loss is almost nothing
    logits[6, 0] = 60.0                               # sure and wrong
    logits = leaf(single(logits))
    scale = 1.0 / int((target != IGNORE).sum())
    loss = F.cross_entropy(logits, target, ignore_index=IGNORE, reduction="none")
    F.cross_entropy(logits, target, ignore_index=IGNORE).backward()     # the mean over targets not ignored
    book.put_all("crossentropy", logits=logits, target=target, loss=loss, dlogits=logits.grad)
    book.put("crossentropy.scale", torch.tensor(scale), exact=True)

    x, w, b = (leaf(numbers("head.x", rows, c)), leaf(numbers("head.w", v, c)), leaf(numbers("head.b", v)))
    loss = F.cross_entropy(F.linear(x, w, b), target, ignore_index=IGNORE, reduction="none")
    (loss.sum() * scale).backward()
    book.put_all("head", x=x, w=w, b=b, loss=loss, dx=x.grad, dw=w.grad, db=b.grad)


def optimizers(book):
    n, steps, rate, decay = 11, 5, 0.03, 0.2
    start, g = numbers("optimizer.w", n, scale=0.05), numbers("optimizer.g", steps, n)   # it moves far
    g[:, 3] = 0.0                                     # a weight that never gets a gradient
    g[:, 4] *= 1e-7                                   # and one where eps shows
    g = single(g)
    book.put_all("optimizer", w=start, g=g)
    for case, make in (
            ("adamw", lambda p: torch.optim.AdamW(p, lr=rate, betas=(0.8, 0.999), eps=1e-6, weight_decay=decay)),
            ("adam", lambda p: torch.optim.Adam(p, lr=rate, betas=(0.8, 0.999), eps=1e-6, weight_decay=decay)),
            ("sgd", lambda p: torch.optim.SGD(p, lr=rate, weight_decay=decay)),
            ("sgd_momentum", lambda p: torch.optim.SGD(p, lr=rate, momentum=0.7, weight_decay=decay)),
            ("sgd_nesterov", lambda p: torch.optim.SGD(p, lr=rate, momentum=0.7, nesterov=True,
                                                       weight_decay=decay))):
        w = torch.nn.Parameter(start.clone())
        optimizer = make([w])
        for k in range(steps):
            w.grad = g[k].clone()
            optimizer.step()
        book.put("optimizer." + case, w)


def write(book):
    linear(book)
    softmax(book)
    norms(book)
    activations(book)
    embedding(book)
    pooling(book)
    crossentropy(book)
    optimizers(book)
    book.write()
