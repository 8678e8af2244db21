#!/bin/sh
# Runs test programs one after the other and adds up what they report.
#
#     sh tests/run.sh PROGRAM... demo:PROGRAM... skip:NAME:REASON...
#
# A program says "Pass: 3, fail: 0, skip: 1" as greatest does. It has failed when it reports a failure,
# reports no test at all, crashes, takes longer than TIME_LIMIT seconds (300) or was not built. A demo
# is only looked at: --help must say something, and if it names flags a wrong one must be refused.
# Whole outputs stay in PROGRAM.log. RUN, if set, is put in front of each program ("setarch -R").
# The last line is always "N passed, N failed, N skipped"; the exit status is 0 only if something
# passed and nothing failed.

# On a busy machine threads that spin while they wait make the small tests many times slower.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"

limit=${TIME_LIMIT:-300}
passed=0 failed=0 skipped=0
timeout=
if command -v timeout >/dev/null 2>&1; then timeout="timeout -k 10 $limit"; fi

# count NAME PASSED FAILED SKIPPED NOTE: one line per program, and the sums
count() {
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
    verdict=ok
    if [ "$3" -gt 0 ]; then verdict=FAILED; fi
    if [ "$(($2 + $3))" -eq 0 ]; then verdict=skipped; fi
    printf '%-8s%-32s %4d passed %3d failed %3d skipped  %s\n' "$verdict" "$1" "$2" "$3" "$4" "$5"
}

# What the exit status of a program that did not end by itself means.
cause() {
    case $1 in
        124|137) echo "stopped after $limit s" ;;
        126|127) echo "could not be started" ;;
        12[89]|1[3-9][0-9]) echo "killed by signal $(($1 - 128))" ;;
        *) echo "exit status $1" ;;
    esac
}

run_tests() {
    name=$(basename "$1") log=$1.log
    if [ ! -x "$1" ]; then count "$name" 0 1 0 'was not built'; return; fi
    begin=$(date +%s)
    # shellcheck disable=SC2086  # both are lists of words
    $timeout $RUN "$1" -v >"$log" 2>&1 </dev/null
    status=$?
    seconds="$(($(date +%s) - begin)) s"
    numbers=$(sed -n 's/^Pass: \([0-9]*\), fail: \([0-9]*\), skip: \([0-9]*\).*/\1 \2 \3/p' "$log" | tail -n 1)
    # shellcheck disable=SC2086
    set -- ${numbers:-0 0 0}
    if [ "$status" -ne 0 ] && [ "$2" -eq 0 ]; then
        count "$name" "$1" 1 "$3" "$(cause "$status"), $seconds"
    elif [ "$(($1 + $2 + $3))" -eq 0 ]; then
        count "$name" 0 1 0 'reported no test at all'
    else
        count "$name" "$1" "$2" "$3" "$seconds"
    fi
    grep '^SKIP' "$log" | sed 's/ ([0-9]* ticks.*//; s/^/          /'
    if [ "$verdict" = FAILED ]; then
        if ! grep '^FAIL' "$log" | sed 's/^/          /' | grep .; then
            tail -n 30 "$log" | sed 's/^/          | /'
        fi
    fi
}

run_demo() {
    name="demo $(basename "$1") --help" log=$1.log
    if [ ! -x "$1" ]; then count "$name" 0 1 0 'was not built'; return; fi
    # shellcheck disable=SC2086
    $timeout $RUN "$1" --help >"$log" 2>&1 </dev/null
    status=$?
    if [ "$status" -ne 0 ]; then count "$name" 0 1 0 "$(cause "$status")"; return; fi
    if [ ! -s "$log" ]; then count "$name" 0 1 0 'said nothing'; return; fi
    # shellcheck disable=SC2086
    if grep -q -e '--[a-z]' "$log" && $timeout $RUN "$1" --no-such-flag >>"$log" 2>&1 </dev/null; then
        count "$name" 0 1 0 'accepted --no-such-flag'
        return
    fi
    count "$name" 1 0 0 ''
}

for item in "$@"; do
    case $item in
        skip:*) rest=${item#skip:}; count "${rest%%:*}" 0 0 1 "${rest#*:}" ;;
        demo:*) run_demo "${item#demo:}" ;;
        *)      run_tests "$item" ;;
    esac
done
if [ "$((passed + failed))" -eq 0 ]; then echo 'Nothing ran.'; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
