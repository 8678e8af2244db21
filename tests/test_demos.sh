#!/bin/sh
# The demos as a person meets them: wrong words on the command line, files that cannot be read or
# written, a run that is killed and goes on, reports that a browser opens.
#
#     sh tests/test_demos.sh [-v]            programs in BUILD (default: where this file was copied to)
#
# Speaks like the other test programs: a line per test, "Pass: N, fail: N, skip: N" at the end.

build=${BUILD:-$(cd "$(dirname "$0")" && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pass=0 fail=0 skip=0
tiny='--d-model 16 --heads 2 --layers 1 --ffn 16 --train 96 --val 32 --batch 32 --threads 1'

passed()  { pass=$((pass + 1)); echo "PASS $1"; }
failed()  { fail=$((fail + 1)); echo "FAIL $1: $2"; }
skipped() { skip=$((skip + 1)); echo "SKIP $1: $2"; }

# refused NAME STATUS WORD COMMAND...: ends with STATUS and says one sentence, on stderr, with WORD in it
refused() {
    name=$1 want=$2 word=$3
    shift 3
    timeout 60 "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    lines=$(wc -l <"$work/err")
    if [ "$status" -ne "$want" ]; then failed "$name" "exit status $status, not $want: $(head -n 3 "$work/err")"
    elif [ "$lines" -ne 1 ]; then failed "$name" "$lines lines on stderr instead of one"
    elif ! grep -q -e "$word" "$work/err"; then failed "$name" "no '$word' in: $(cat "$work/err")"
    else passed "$name"
    fi
}

# same NAME FOLDER FOLDER: every file but the timing is the same
same() {
    if diff -r -x timing.csv -x timing.csv.tmp "$2" "$3" >"$work/diff" 2>&1; then passed "$1"
    else failed "$1" "$(head -n 3 "$work/diff" | tr '\n' ' ')"
    fi
}

# killed_and_resumed FOLDER COMMAND...: kill -9 after $waits seconds, --resume until it is through
waits='0.05 0.1 0.15 0.2 0.3 0.4 0.6 0.8 1.2 2'
killed_and_resumed() {
    folder=$1
    shift
    for wait in $waits; do
        timeout -s KILL "$wait" "$@" --resume --out "$folder" >/dev/null 2>&1 </dev/null
        [ "$?" -eq 0 ] && return 0
    done
    timeout 120 "$@" --resume --out "$folder" >/dev/null 2>&1 </dev/null
}

# ---- wrong words: exit 2, one sentence -------------------------------------------------------------
p=$build/pattern m=$build/marker a=$build/attention_maps g=$build/gallery b=$build/bench
d=$build/depth x=$build/extrapolate
refused pattern_unknown_flag_names_the_nearest 2 -- "$p" train --epohcs 3
grep -q -e '--epochs' "$work/err" || failed pattern_unknown_flag_names_the_nearest 'the nearest flag is not named'
refused pattern_unknown_command        2 compare  "$p" compair
refused pattern_bad_value              2 whole    "$p" train --epochs many
refused pattern_value_out_of_range     2 dropout  "$p" train --dropout 1.5
refused pattern_unknown_encoding       2 rope     "$p" train --pe rpoe
refused pattern_unknown_key            2 base     "$p" train --pe rope:bass=3
refused pattern_heads_that_do_not_divide 2 heads  "$p" train --heads 7
refused pattern_unknown_task           2 sorting  "$p" train --task sortin
refused pattern_data_of_another_task   2 data     "$p" train --task sorting --data balanced
refused pattern_grid_that_is_no_square 2 square   "$p" train --task grid --seq-len 60
refused pattern_table_that_is_too_short 2 rows    "$p" compare --pe learned:rows=4
refused pattern_no_such_precision      2 bf16     "$p" train --precision fp8
refused pattern_no_gpu_yet             2 GPU      "$p" train --device cuda
refused marker_unknown_flag            2 --depth  "$m" train --dept 3
refused marker_unknown_encoding        2 rope     "$m" train --pe rpoe
refused marker_table_that_is_too_short 2 rows     "$m" train --pe learned:rows=4
refused marker_bad_depth               2 depth    "$m" grid --depth 1,x
refused marker_heads_that_do_not_divide 2 heads   "$m" train --heads 7
refused maps_without_a_checkpoint      2 .        "$a"
refused maps_bad_scale                 2 scale    "$a" --scale cubic x.safetensors
refused gallery_unknown_encoding       2 rope     "$g" --spec rpoe --out "$work/no"
refused gallery_empty_spec             2 empty    "$g" --spec '' --out "$work/no"
refused gallery_spec_that_cannot_be    2 odd      "$g" --spec rope:dim=3 --out "$work/no"
refused gallery_bad_golden_file        1 nowhere  "$g" --check --golden "$work/nowhere.safetensors"
refused bench_unknown_work             2 nothing  "$b" run --filter nothing --out "$work/no"
refused bench_unknown_flag             2 filter   "$b" run --fliter rows
refused depth_unknown_flag             2 --depth  "$d" --dept 3
refused depth_bad_depth                2 depth    "$d" --depth 1,x
refused depth_depths_that_fall         2 larger   "$d" --depth 4,2
refused depth_unknown_encoding         2 rope     "$d" --pe rpoe
refused depth_table_that_is_too_short  2 rows     "$d" --pe learned:rows=4
refused depth_text_that_is_not_there   1 nowhere  "$d" --text "$work/nowhere"
refused depth_text_that_is_too_short   1 20000    "$d" --text LICENSE
refused extrapolate_without_a_command  2 text     "$x"
refused extrapolate_unknown_command    2 text     "$x" txt
refused extrapolate_encodings_of_masked 2 --pe    "$x" masked --pe rope
refused extrapolate_too_few_steps      2 50       "$x" text --steps 10
refused extrapolate_unknown_key        2 base     "$x" text --pe rope:bass=3
refused extrapolate_text_that_is_too_short 1 20000 "$x" text --text LICENSE

r=$build/run_model published=tests/golden/published
refused run_model_without_a_folder     2 folder   "$r"
refused run_model_without_tokens       2 tokens   "$r" $published/gpt2 --generate 3
refused run_model_no_such_folder       1 nowhere  "$r" "$work/nowhere"
refused run_model_token_too_large      1 69       "$r" $published/gpt2 --tokens 3,70 --logits 1
refused run_model_too_long             1 36       "$r" $published/gpt2 --tokens 3,4 --generate 60
refused run_model_no_next_token        1 embed    "$r" $published/bert --tokens 3,4 --generate 2
refused run_model_context_too_long     1 "--context is 9999" "$r" $published/gpt2 --tokens 3 --context 9999
if "$r" $published/gpt2 --tokens 3,4 --generate 35 --threads 1 >/dev/null 2>&1; then passed run_model_fills_all_36_places
else failed run_model_fills_all_36_places '2 and 35 tokens take 36 places: the last one is not read again'; fi
if [ -e /dev/full ]; then
    if ! "$r" $published/gpt2 --tokens 3 --logits 2 >/dev/full 2>"$work/err" && grep -q 'cannot write' "$work/err"
    then passed run_model_output_that_cannot_be_written
    else failed run_model_output_that_cannot_be_written "$(cat "$work/err")"; fi
fi

# ---- files that are not there, not ours, not writable: exit 1, one sentence -------------------------
refused pattern_unwritable_out 1 null "$p" train $tiny --epochs 1 --quiet --out /dev/null/x
refused marker_unwritable_out  1 null "$m" train --epochs 1 --quiet --threads 1 --out /dev/null/x
refused depth_unwritable_out   1 null "$d" --quick --quiet --text posenc.h --out /dev/null/x
refused extrapolate_unwritable_out 1 null "$x" pattern --quick --quiet --out /dev/null/x
refused maps_missing_file      1 nowhere "$a" --out "$work/maps" "$work/nowhere.safetensors"
"$p" train $tiny --pe learned --epochs 1 --quiet --out "$work/one" >/dev/null 2>&1
last=$work/one/last.safetensors
head -c 3000 "$last" >"$work/cut.safetensors"
refused maps_truncated_checkpoint 1 cut "$a" --out "$work/maps" "$work/cut.safetensors"
cp -r "$work/one" "$work/damaged"
head -c 3000 "$last" >"$work/damaged/last.safetensors"
refused pattern_resume_from_a_truncated_checkpoint 1 last "$p" train $tiny --pe learned --epochs 2 --quiet --resume --out "$work/damaged"
refused pattern_resume_with_other_settings 1 -- "$p" train $tiny --pe learned --epochs 2 --lr 0.5 --quiet --resume --out "$work/one"
# A limit on the size of files stands for a full disk: writing fails in the middle.
cp -r "$work/one" "$work/full"
(
    trap '' XFSZ
    ulimit -f 8
    "$p" train $tiny --pe learned --epochs 2 --quiet --resume --out "$work/full"
) >/dev/null 2>"$work/err"
if [ "$?" -eq 1 ] && cmp -s "$last" "$work/full/last.safetensors"; then passed full_disk_leaves_the_old_checkpoint
else failed full_disk_leaves_the_old_checkpoint "$(head -n 2 "$work/err")"
fi

# ---- killed at any moment, resumed: the same files --------------------------------------------------
few="$p compare $tiny --pe none;rope --epochs 3 --seeds 2 --quiet"
$few --out "$work/whole" >/dev/null 2>&1
killed_and_resumed "$work/parts" $few
same pattern_killed_and_resumed_leaves_the_same_files "$work/whole" "$work/parts"
few="$m grid --pe none --pe rope --depth 1 --epochs 1,2 --seeds 1 --sequences 200 --blocks both --quiet --threads 1"
$few --out "$work/grid" >/dev/null 2>&1
killed_and_resumed "$work/grid2" $few
same marker_killed_and_resumed_leaves_the_same_files "$work/grid" "$work/grid2"
cat posenc.h tests/*.c >"$work/text.txt"
few="$d --depth 1 --steps 50 --seeds 1 --pe none --quiet --text $work/text.txt"
$few --out "$work/stacks" >"$work/out" 2>&1
killed_and_resumed "$work/stacks2" $few
same depth_killed_and_resumed_leaves_the_same_files "$work/stacks" "$work/stacks2"
refused depth_resume_with_other_settings 1 --lr $few --lr 0.5 --resume --out "$work/stacks"
# the second model is under way when it is killed, the first one is there
few="$x text --quick --pe learned --steps 50 --seeds 2 --quiet --text $work/text.txt"
$few --out "$work/lengths" >"$work/out" 2>&1
waits='1 6'
killed_and_resumed "$work/lengths2" $few
same extrapolate_killed_and_resumed_leaves_the_same_files "$work/lengths" "$work/lengths2"
refused extrapolate_resume_with_other_settings 1 --steps $few --steps 60 --resume --out "$work/lengths"

# ---- what is left behind ----------------------------------------------------------------------------
for file in summary.csv history.csv history.jsonl timing.csv curves.svg report.html report.md; do
    if [ -s "$work/whole/$file" ]; then passed "pattern_leaves_$file"; else failed "pattern_leaves_$file" 'it is not there'; fi
done
for file in grid.csv timing.csv positions.csv report.html report.md; do
    if [ -s "$work/grid/$file" ]; then passed "marker_leaves_$file"; else failed "marker_leaves_$file" 'it is not there'; fi
done
for file in layers.csv runs.csv curves.csv attention_alone.csv claims.csv loss_by_depth.svg report.html report.md; do
    if [ -s "$work/stacks/$file" ]; then passed "depth_leaves_$file"; else failed "depth_leaves_$file" 'it is not there'; fi
done
for file in text.csv text.svg text_places.svg report.html report.md; do
    if [ -s "$work/lengths/$file" ]; then passed "extrapolate_leaves_$file"; else failed "extrapolate_leaves_$file" 'it is not there'; fi
done
want=method,params,best_val_acc,best_epoch,epochs_to_99,final_val_acc,final_train_acc,gain_over_none
if [ "$(head -n 1 "$work/whole/summary.csv")" = "$want" ]; then passed pattern_summary_has_its_columns
else failed pattern_summary_has_its_columns "$(head -n 1 "$work/whole/summary.csv")"
fi
if "$a" --quiet --out "$work/maps" "$last" >/dev/null 2>&1 && [ -s "$work/maps/report.html" ]; then passed maps_of_a_checkpoint
else failed maps_of_a_checkpoint 'no report'
fi
if "$g" --quiet --out "$work/gallery" >/dev/null 2>&1 && [ -s "$work/gallery/report.html" ]; then passed gallery_of_all
else failed gallery_of_all 'no report'
fi
if "$b" run --filter rows/relu,step/marker1/ --seconds 0.01 --repeats 1 --quiet --out "$work/bench" >/dev/null 2>"$work/err" &&
   [ -s "$work/bench/bench.json" ] && [ -s "$work/bench/report.html" ]; then passed bench_of_a_few
else failed bench_of_a_few "$(tail -n 1 "$work/err")"
fi
if [ "$("$r" $published/llama3 --tokens 9,8,7 --generate 6 --threads 1 2>/dev/null | grep '^text 1:' | wc -w)" -eq 8 ] &&
   [ "$("$r" $published/bert --tokens 3,4 --embed | wc -w)" -eq 32 ]; then passed run_model_writes_and_embeds
else failed run_model_writes_and_embeds 'not six tokens or 32 numbers'
fi
printf 'too short' >"$work/short.txt"
refused bench_text_that_is_too_short 1 10,000 "$b" curves --steps 2 --quiet --text "$work/short.txt" --out "$work/no"
refused bench_text_that_is_not_there 1 nowhere "$b" curves --steps 2 --quiet --text "$work/nowhere" --out "$work/no"
if "$b" curves --steps 2 --quiet --out "$work/curves" >"$work/out" 2>"$work/err" && [ "$(wc -l <"$work/curves/curves.csv")" -eq 19 ] &&
   ! grep -q nan "$work/out" && [ -s "$work/curves/report.html" ]; then passed bench_curves
else failed bench_curves "$(tail -n 1 "$work/err")"
fi
if "$p" check --out "$work/check" >/dev/null 2>&1; then passed pattern_check; else failed pattern_check 'says no'; fi
if "$p" generate --task grid --train 5 --val 5 --quiet --out "$work/data" >/dev/null 2>&1 &&
   [ "$(wc -l <"$work/data/train.csv")" -eq 6 ]; then passed pattern_generate
else failed pattern_generate 'not five sequences and a heading'
fi

# ---- in a browser -----------------------------------------------------------------------------------
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
for report in whole grid maps gallery bench curves stacks lengths; do
    for width in 360 1280; do
        name=report_of_${report}_opens_without_an_error_at_$width
        if [ -z "$browser" ]; then skipped "$name" 'there is no chromium'; continue; fi
        timeout 60 "$browser" --headless --no-sandbox --disable-gpu --enable-logging=stderr --v=0 \
            --user-data-dir="$work/profile" --window-size="$width",2000 --screenshot="$work/page.png" \
            "file://$work/$report/report.html" >"$work/out" 2>"$work/err" </dev/null
        if [ ! -s "$work/page.png" ]; then failed "$name" "no picture: $(tail -n 1 "$work/err")"
        elif grep -q CONSOLE "$work/err"; then failed "$name" "$(grep -m 1 CONSOLE "$work/err")"
        else passed "$name"
        fi
        rm -f "$work/page.png"
    done
done

echo "Pass: $pass, fail: $fail, skip: $skip"
[ "$fail" -eq 0 ]
