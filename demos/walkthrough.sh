#!/bin/sh
# A tour of five minutes: what an encoding does to a query, what happens without one, where attention
# goes, and what a model learns of a sequence.
#
#     make walkthrough                 stops after each part until you press Enter
#     make walkthrough </dev/null      runs through without stopping
set -e
build=${BUILD:-build}
out=results/walkthrough
if [ -t 0 ] && [ -t 1 ]; then waits=1; else waits=; fi

part() {
    echo
    echo "---- $1"
    echo
}
show() {                                   # prints the command as one would type it, then runs it
    printf '$'
    for word in "$@"; do
        case $word in *' '*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac
    done
    printf '\n'
    "$@"
}
next() {
    if [ -n "$waits" ]; then
        printf '\n[Enter]'
        read -r _ || true
    fi
}

part "1 of 5: is everything here?"
show "$build/pattern" check --out "$out/check"
next

part "2 of 5: rope turns queries and keys by their positions"
echo "A query and a key slide along a sequence together. Their score does not move: only the"
echo "distance between them counts. This is door one of the header: your buffers, no set-up."
echo
show "$build/hello_rope"
next

part "3 of 5: what goes wrong without positions?"
echo "Two values at their places decide the class of a sequence. The balanced data has the same"
echo "tokens in every class, so that without positions a model can only guess: one in three."
echo
show "$build/pattern" compare --quick --data balanced --pe "none sinusoidal learned" --out "$out/pattern"
next

part "4 of 5: where does the attention go?"
echo "The same input under the models just trained. A head that reads a fixed place has low entropy"
echo "and one key that most tokens look at."
echo
show "$build/attention_maps" --out "$out/maps" \
    "$out/pattern/pattern-balanced/none-s1/last.safetensors" \
    "$out/pattern/pattern-balanced/learned-s1/last.safetensors"
next

part "5 of 5: a causal model that counts"
echo "START a a+1 a+2 MIDDLE a+3 a+4 END: only a is unknown, so no model can get below"
echo "ln(71)/64 = 0.0666 a token. How close does rope come in a few epochs, and where is the rest?"
echo
show "$build/marker" train --pe rope --depth 1 --epochs 8 --out "$out/marker"

echo
echo "Reports to open in a browser:"
ls "$out"/*/report.html | sed 's/^/  /'
echo "Next: build/pattern compare (nine encodings), build/marker grid (depth against epochs), and"
echo "posenc.h itself, from section [4] on."
