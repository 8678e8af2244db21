#!/bin/sh
# Makes the tables and pictures of README and demos/experiments.md again: runs the experiments into results/pictures/, then copies the
# small files into demos/results/. About an hour and a quarter on two cores. It may be stopped and started
# again: every run goes on where it was, and figures do not depend on the number of threads.
#
#     make pictures
set -e
build=${BUILD:-build}
runs=results/pictures
keep=demos/results
mkdir -p "$keep"

# ---- the runs --------------------------------------------------------------------------------------
"$build/pattern" compare --data balanced --seeds 3 --epochs 12 --resume --out "$runs/pattern"
"$build/pattern" compare --data plain --epochs 20 --resume --out "$runs/plain"
"$build/pattern" compare --task grid --quick --train 5000 --epochs 12 --resume --out "$runs/grid"
"$build/marker" grid --blocks both --depth 1 --resume --out "$runs/marker"
cp "$runs/marker/published/grid.csv" "$keep/marker_published.csv"
"$build/marker" grid --resume --out "$runs/marker"                  # the same fair runs, and depth 16
"$build/attention_maps" --out "$runs/maps" "$runs"/pattern/pattern-balanced/none-s1/last.safetensors \
    "$runs"/pattern/pattern-balanced/learned-s1/last.safetensors \
    "$runs"/pattern/pattern-balanced/rope-s1/last.safetensors

"$build/gallery" --out "$runs/gallery"

# ---- what README shows -----------------------------------------------------------------------------
cp "$runs/maps/models.png" "$keep/attention.png"
cp "$runs/gallery/gallery.png" "$keep/gallery.png"
for file in summary.csv seeds.csv curves.svg; do cp "$runs/pattern/$file" "$keep/pattern_$file"; done
cp "$runs/plain/summary.csv" "$keep/plain_summary.csv"
cp "$runs/grid/summary.csv" "$keep/grid_summary.csv"
cp "$runs/marker/grid.csv" "$keep/marker_grid.csv"
cp "$runs/marker/curve_depth_4.svg" "$keep/marker_curves.svg"
cp "$runs/marker/positions_depth_4.svg" "$keep/marker_positions.svg"
ls "$keep"
