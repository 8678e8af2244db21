#!/bin/sh
# Makes the figures of demos/depth.md and demos/extrapolate.md again, on the corpus (make corpus), and copies the
# small files into demos/results/. Hours; it may be stopped and started again, every run goes on where it was.
#
#     make lessons               trials of build/extrapolate that are kept in demos/results/ are not done again
#     make lessons FRESH=1       all of them are
set -e
build=${BUILD:-build}
keep=demos/results
runs=results/extrapolate/runs

# One file holds the numbers of every trial, each behind a line "== NAME".
unpack() { mkdir -p "$runs" && awk -v into="$runs/" '/^== /{ file = into $2; next } { print > file }' "$1"; }
pack() { for file in "$runs"/*.numbers; do echo "== ${file##*/}"; cat "$file"; done; }

test -n "$FRESH" || ! test -f $keep/extrapolate_trials.txt || unpack $keep/extrapolate_trials.txt
"$build/depth" --resume
"$build/depth" --cost
"$build/extrapolate" all --resume

for file in position_blocks position_blocks_trained position_none attention_alone cosine_untrained cosine_trained \
            entropy locality gradients gradients_qk loss_by_depth longer; do
    cp "results/depth/$file.svg" "$keep/depth_$file.svg"
done
cp results/depth/claims.csv "$keep/depth_claims.csv"
cp results/depth/runs.csv "$keep/depth_runs.csv"
for file in cost_time.svg cost_memory.svg cost.csv; do cp "results/depth/cost/$file" "$keep/depth_$file"; done
for file in text.svg text_full.svg text_places.svg text.csv masked.svg masked.csv copying-rsc.svg copying.csv scaling_zero.svg \
            scaling_tuned.svg scaling.csv pattern.svg pattern.csv long_bits.svg long_seconds.svg long_memory.svg \
            long.csv; do
    cp "results/extrapolate/$file" "$keep/extrapolate_$file"
done
pack >$keep/extrapolate_trials.txt
ls "$keep"
