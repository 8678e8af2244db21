#!/bin/sh
# Runs fuzzing harnesses one after the other, one process at a time, and says what they found.
#
#     TIME=600 sh tests/fuzz/run.sh PROGRAM...        or make fuzz TIME=600
#
# TIME is the seconds for all of them together; SEED, if given, makes the inputs the same each time. What a harness learns is kept in PROGRAM.corpus, where
# the next run goes on; the first begins with tests/fuzz/corpus. An input that makes one fail is left
# beside the program, and the last line about it is the command that runs it again. Exit status 1 if
# there was any.

# Files in memory are quicker. The folder is removed here because a harness that fails does not.
TMPDIR=$(mktemp -d /dev/shm/posenc.XXXXXX 2>/dev/null || mktemp -d) || exit 1
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 1' INT TERM

seconds=$((${TIME:-600} / $#))
[ "$seconds" -gt 0 ] || seconds=1
status=0
for program in "$@"; do
    name=$(basename "$program") log=$program.log
    mkdir -p "$program.corpus"
    # shellcheck disable=SC2086  # RUN is a list of words
    $RUN "$program" -max_total_time="$seconds" ${SEED:+-seed="$SEED"} -max_len=8192 -timeout=20 -rss_limit_mb=2048 \
        -dict=tests/fuzz/words.dict -artifact_prefix="$program-" -print_final_stats=1 \
        "$program.corpus" "tests/fuzz/corpus/$name" >"$log" 2>&1 </dev/null
    code=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    reached=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    if [ "$code" -eq 0 ]; then
        printf 'ok      %-12s %9s inputs in %s s, %s places reached\n' "$name" "$runs" "$seconds" \
            "$reached"
    else
        status=1
        printf 'FAILED  %-12s %9s inputs; all it said is in %s\n' "$name" "$runs" "$log"
        grep -m 3 -e 'ERROR: ' -e 'runtime error' -e 'does not hold' "$log" | sed 's/^/          /'
        printf '          %s %s\n' "$program" "$(sed -n 's/.*Test unit written to //p' "$log")"
    fi
done
exit $status
