#!/bin/sh
# Compiles, links and runs the drop-in programs under every compiler, standard, level and switch, with
# -Werror, and prints a table. A compiler that is not here is skipped, with the reason. Exit status 1 if
# a cell is not ok; then the first lines of what went wrong follow the table.
#
#     sh tests/matrix.sh        or make matrix; programs and logs go to $BUILD (build/matrix)

out=${BUILD:-build/matrix}
mkdir -p "$out"
rm -f "$out"/*.log "$out"/row.*
strict='-Wall -Wextra -pedantic -Werror -I.'
columns='O0 O2 O3 no-openmp no-simd static no-stdio fixed double'

# cell COMPILER STANDARD COLUMN: says ok, WARNS (does not compile as it should) or WRONG (when it runs)
cell() {
    flags="-std=$2 $strict" program=$out/$1-$2-$3
    again='' sources='tests/compiles_twice_a.c tests/compiles_twice_b.c'
    case $1 in *++) language='-x c++' ;; *) language='' ;; esac
    case $3 in
        O?) flags="$flags -$3 $openmp" ;;
        no-openmp) flags="$flags -O2" ;;
        no-simd)   flags="$flags -O2 $openmp -DPOSENC_NO_SIMD" ;;
        no-stdio)  flags="$flags -O1 $openmp" sources=tests/compiles_no_stdio.c ;;
        fixed)     flags="$flags -O1 $openmp" sources=tests/compiles_deterministic.c ;;
        double)    flags="$flags -O1 $openmp" sources=tests/compiles_double.c ;;
        static)    flags="$flags -O1 $openmp" sources=tests/compiles_static.c
                   again="$1 $flags $language -DSECOND_FILE -c $sources -o $program.o" ;;
    esac
    # shellcheck disable=SC2086  # lists of words, all of them
    if ! { $again && $1 $flags $language $sources ${again:+-x none $program.o} -o "$program" -lm; } \
         >"$program.log" 2>&1; then
        echo WARNS
    elif ! "$program" >"$program.log" 2>&1; then
        echo WRONG
    else
        rm -f "$program.log"
        echo ok
    fi
    rm -f "$program" "$program.o"
}

# row COMPILER STANDARD: one line of the table
row() {
    openmp=
    printf '%-10s%-8s' "$1" "$2"
    if ! command -v "$1" >/dev/null 2>&1; then echo 'skipped: not on this machine'; return; fi
    case $1 in *++) language='-x c++' ;; *) language='-x c' ;; esac
    # shellcheck disable=SC2086
    if echo 'int main(void) { return 0; }' | $1 $language -fopenmp - -o "$out/probe-$1-$2" 2>/dev/null; then
        openmp=-fopenmp
    fi
    rm -f "$out/probe-$1-$2"
    for column in $columns; do printf '%-11s' "$(cell "$1" "$2" "$column")"; done
    if [ -z "$openmp" ]; then printf '(no OpenMP)'; fi
    echo
}

# Two rows at a time, each into a file, so that the table stays in order.
rows='gcc:c99 clang:c99 gcc:gnu11 clang:gnu11 g++:c++11 clang++:c++11'
# shellcheck disable=SC2086
set -- $rows
while [ $# -gt 0 ]; do
    row "${1%:*}" "${1#*:}" >"$out/row.$1" &
    if [ $# -gt 1 ]; then row "${2%:*}" "${2#*:}" >"$out/row.$2" & shift; fi
    shift
    wait
done

printf '%-10s%-8s' compiler std
# shellcheck disable=SC2086
printf '%-11s' $columns
echo
for r in $rows; do cat "$out/row.$r"; done

status=0
for log in "$out"/*.log; do
    if [ ! -f "$log" ]; then continue; fi
    status=1
    echo "---- $(basename "$log" .log)"
    head -n 12 "$log"
done
exit $status
