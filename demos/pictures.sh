#!/bin/sh
# Makes README's tables and pictures again: runs the experiments (results/), then copies the small
# files into demos/results/. About two hours on two cores; it may be stopped and started again, every
# run goes on where it was. Figures do not depend on the number of threads.
#
#     make pictures
set -e
build=${BUILD:-build}
keep=demos/results
mkdir -p "$keep"

$build/pattern compare --task pattern --data both --seeds 3 --epochs 12 --resume --out results/pictures/pattern
$build/marker grid --blocks both --resume --out results/pictures/marker
