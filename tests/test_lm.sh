#!/bin/sh
# demos/lm as a person meets it: what it would take, a first model, a run that is killed, stopped, full
# disks, data that goes away, wrong words, and the way from text to a model that was asked.
#
#     sh tests/test_lm.sh [-v]               programs in BUILD (default: where this file was copied to)
#
# Speaks like the other test programs: a line per test, "Pass: N, fail: N, skip: N" at the end.

build=${BUILD:-$(cd "$(dirname "$0")" && pwd)}
lm=$build/lm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pass=0 fail=0 skip=0
small='--channels 16 --layers 2 --heads 2 --context 16 --batch-size 8 --threads 1 --eval-tokens 512'

passed()  { pass=$((pass + 1)); echo "PASS $1"; }
failed()  { fail=$((fail + 1)); echo "FAIL $1: $2"; }
skipped() { skip=$((skip + 1)); echo "SKIP $1: $2"; }

# refused NAME STATUS WORD COMMAND...: ends with STATUS and says one sentence, on stderr, with WORD in it
refused() {
    name=$1 want=$2 word=$3
    shift 3
    timeout 60 "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    lines=$(grep -v -e 'tokens to train on' "$work/err" | wc -l)
    if [ "$status" -ne "$want" ]; then failed "$name" "exit status $status, not $want: $(head -n 3 "$work/err")"
    elif [ "$lines" -ne 1 ]; then failed "$name" "$lines lines on stderr instead of one"
    elif ! grep -q -e "$word" "$work/err"; then failed "$name" "no '$word' in: $(cat "$work/err")"
    else passed "$name"
    fi
}

# works NAME COMMAND...: ends with 0
works() {
    name=$1
    shift
    if timeout 120 "$@" >"$work/out" 2>"$work/err" </dev/null; then passed "$name"
    else failed "$name" "exit status $?: $(tail -n 2 "$work/err")"
    fi
}

# says NAME WORD: what worked last said WORD on stdout
says() {
    if grep -q -e "$2" "$work/out"; then passed "$1"
    else failed "$1" "no '$2' in: $(head -n 5 "$work/out" | tr '\n' ' ')"
    fi
}

same() {
    if cmp -s "$2" "$3"; then passed "$1"; else failed "$1" "$2 and $3 differ"; fi
}

# A text of 90 KB in which there is something to learn.
awk 'BEGIN { for (i = 0; i < 4000; i++) printf "%d sheep and %d goats\n", i * 7 % 97, i * 13 % 31 }' >"$work/text"
train() { timeout 120 "$lm" train $small --data "$work/text" --quiet "$@"; }

# ---- wrong words ------------------------------------------------------------------------------------
refused without_a_command        2 train     "$lm"
refused unknown_command          2 compare   "$lm" comapre
refused compare_keeps_its_flags  2 '[-]-pe'  "$lm" compare --pe rope --out "$work/mixed_up" --train="--pe alibi"
refused compare_keeps_its_seed   2 '[-]-seed' "$lm" compare --pe rope --out "$work/mixed_up" --train="--lr 1e-3 --seed=7"
refused empty_folder_name        2 'empty'   "$lm" train --out '' --dry-run
refused empty_encoding           2 'empty'   "$lm" train --pe '' --dry-run
refused no_room_at_all           1 'fewer'   "$lm" train --size nano --memory 1M --dry-run
refused unknown_flag             2 --tokens  "$lm" train --tokns 3M
refused bad_budget               2 2.4B      "$lm" train --tokens many
refused budget_below_an_update   2 update    "$lm" train --tokens 100
refused steps_and_tokens         2 --tokens  "$lm" train --tokens 1M --steps 3
refused unknown_size             2 medium    "$lm" train --size huge
refused unknown_encoding         2 rope      "$lm" train --pe rpoe
refused table_that_is_too_short  2 rows      "$lm" train --pe learned:rows=4
refused heads_that_do_not_divide 2 heads     "$lm" train --heads 7
refused branches_without_wsd     2 wsd       "$lm" train --schedule cosine --target-budgets 1M
refused budgets_that_fall        2 larger    "$lm" train --target-budgets 2M,1M
refused decay_of_nothing         2 --resume  "$lm" train --wsd-stage decay_only
refused config_that_is_not_there 2 nowhere   "$lm" train --config "$work/nowhere.yaml"
refused data_that_is_not_there   1 nowhere   "$lm" train $small --data "$work/nowhere" --out "$work/no"
refused resume_from_nothing      1 nowhere   "$lm" train $small --data "$work/text" --resume "$work/nowhere.safetensors"
refused resume_from_a_text       1 text      "$lm" train $small --data "$work/text" --resume "$work/text"
refused unwritable_out           1 null      "$lm" train $small --data "$work/text" --quiet --steps 3 --out /dev/null/x
printf 'size: nano\nepohcs: 3\n' >"$work/bad.yaml"
refused config_with_a_wrong_key  2 'line 2'  "$lm" train --config "$work/bad.yaml"

# ---- what would it take? ----------------------------------------------------------------------------
for row in tiny:58727680 small:163598592 medium:469815296 large:1208029184; do
    size=${row%:*}
    "$lm" train --size "$size" --memory 900G --dry-run >"$work/out" 2>&1
    says "${size}_has_as_many_parameters_as_published" "${row#*:} parameters"
done
"$lm" train --model-size=tiny --pe-type=alibi --memory=900G --dry-run >"$work/out" 2>&1
says dry_run_says_the_schedule 'decay over the last 3662, from 32959 on'
says dry_run_says_the_branch   '1.2B: at update 16479'
says dry_run_says_the_folder   'results/lm/tiny_alibi_2.4B_s42'
[ -e results/lm/tiny_alibi_2.4B_s42 ] && failed dry_run_does_nothing 'it left a folder'
"$lm" train --size large --memory 8G --dry-run >/dev/null 2>"$work/err"
if [ "$?" -eq 1 ] && grep -q 'large takes .* fewer --layers.* --size small' "$work/err"; then passed large_is_refused_with_what_would_help
else failed large_is_refused_with_what_would_help "$(cat "$work/err")"; fi

# ---- a first model ----------------------------------------------------------------------------------
works a_first_model "$lm" train $small --data "$work/text" --steps 60 --out "$work/runs" --tensorboard
run=$work/runs/nano_rope_7680_s42
says a_first_model_says_what_next "$lm generate $run"
for file in config.yaml metrics.jsonl latest.safetensors best.safetensors final.safetensors report.html report.md; do
    [ -s "$run/$file" ] || failed "a_run_leaves_$file" 'it is not there'
done
ls "$run"/events.out.tfevents.* >/dev/null 2>&1 || failed a_run_leaves_events 'there is no event file'
refused a_run_is_not_overwritten 1 --overwrite "$lm" train $small --data "$work/text" --steps 60 --quiet --out "$work/runs"
works a_finished_run_stays "$lm" train $small --data "$work/text" --steps 60 --out "$work/runs" --resume auto
works the_saved_config_is_a_config "$lm" train --config "$run/config.yaml" --checkpoint-dir "$work/again" --threads 1 --quiet
same  the_saved_config_is_the_same_run "$run/final.safetensors" "$work/again/final.safetensors"
works shipped_config "$lm" train --config demos/lm/config.yaml --dry-run
says  shipped_config_changes_nothing 'nano_rope_6.144M_s42'

# ---- killed at any moment, stopped, no room ----------------------------------------------------------
long='--steps 1500 --checkpoint-interval 100 --eval-interval 500 --keep 2 --lr 0.003 --target-budgets 96000,192000'
train $long --checkpoint-dir "$work/straight" >/dev/null 2>&1
for wait in 0.2 0.3 0.5 0.4 0.7 0.3 1 1.5; do
    timeout -s KILL "$wait" "$lm" train $small --data "$work/text" --quiet $long --resume auto --checkpoint-dir "$work/killed" >/dev/null 2>&1
done
train $long --resume auto --checkpoint-dir "$work/killed" >/dev/null 2>&1
same killed_at_any_moment        "$work/straight/final.safetensors" "$work/killed/final.safetensors"
same killed_at_any_moment_branch "$work/straight/decay_96K/final.safetensors" "$work/killed/decay_96K/final.safetensors"
lines() { grep -c 'train/loss' "$1"; }
if [ "$(lines "$work/straight/metrics.jsonl")" -eq "$(lines "$work/killed/metrics.jsonl")" ]; then passed killed_run_has_each_line_once
else failed killed_run_has_each_line_once "$(lines "$work/straight/metrics.jsonl") and $(lines "$work/killed/metrics.jsonl")"; fi

"$lm" train $small --data "$work/text" --quiet --steps 900000 --checkpoint-dir "$work/stopped" >/dev/null 2>"$work/err" &
stopped=$!
tries=0
while [ ! -s "$work/stopped/metrics.jsonl" ] && [ $tries -lt 600 ]; do sleep 0.1; tries=$((tries + 1)); done
kill -TERM $stopped
wait $stopped
if [ -s "$work/stopped/latest.safetensors" ] && grep -q 'go on with: .* --resume' "$work/err"; then passed stopped_run_saves_and_says_how_to_go_on
else failed stopped_run_saves_and_says_how_to_go_on "$(cat "$work/err")"; fi

# What cannot be written is a sentence, and the last state is as it was.
full="$lm train $small --data $work/text --quiet --steps 900000 --resume auto --checkpoint-dir $work/stopped"
before=$(cksum <"$work/stopped/latest.safetensors")
# shellcheck disable=SC2086  # a list of words
(ulimit -f 8; timeout 60 $full --checkpoint-interval 50 >/dev/null 2>"$work/err")
status=$?
if [ "$status" -eq 1 ] && grep -q 'cannot write' "$work/err"; then passed full_disk_is_a_sentence
else failed full_disk_is_a_sentence "exit status $status: $(cat "$work/err")"; fi
if [ "$before" = "$(cksum <"$work/stopped/latest.safetensors")" ]; then passed full_disk_leaves_the_state
else failed full_disk_leaves_the_state 'latest.safetensors has changed'; fi

cp "$work/text" "$work/going"
(while [ ! -s "$work/gone/latest.safetensors" ]; do sleep 0.1; done; : >"$work/going") &
timeout 60 "$lm" train $small --data "$work/going" --quiet --steps 900000 --checkpoint-interval 50 --checkpoint-dir "$work/gone" >/dev/null 2>"$work/err"
status=$?
kill $! 2>/dev/null
wait
if [ "$status" -eq 1 ] && grep -q going "$work/err" && [ "$(wc -l <"$work/err")" -eq 1 ]; then passed data_that_goes_away_is_a_sentence
else failed data_that_goes_away_is_a_sentence "exit status $status: $(cat "$work/err")"; fi
[ -s "$work/gone/latest.safetensors" ] || failed data_that_goes_away_leaves_the_state 'there is none'

# ---- from text to a model that was asked -------------------------------------------------------------
works prepare "$lm" prepare "$work/text" --out "$work/shards" --quiet
works info    "$lm" info "$work/shards"
works tasks   "$lm" tasks --config demos/lm/data_generation.yaml --count 400 --eval 4 --out "$work/tasks" --quiet
works mixed   "$lm" train $small --context 128 --data "$work/shards:0.7,$work/tasks:0.3" --steps 30 --quiet --checkpoint-dir "$work/mixed"
works eval     "$lm" eval "$run" --help
works generate "$lm" generate "$run" --prompt "7 sheep"
refused stage_that_contradicts_the_file 2 'decay_only' "$lm" train --resume "$work/straight/decay_96K/final.safetensors" --wsd-stage full --quiet

echo "Pass: $pass, fail: $fail, skip: $skip"
[ "$fail" -eq 0 ]
