/* kit/threads.h - share the machine

   OpenMP's threads spin while they wait for each other. On a machine of one's own that saves some
   microseconds a wait, hundreds of times a step; as soon as another program wants a core it costs
   whole time slices: the pattern demo took 51 s instead of 7 on two busy cores. So they may spin for
   a few microseconds, which covers most waits (a step of the pattern model on two idle cores: 39 ms,
   51 without; beside another program 72, where threads that never sleep take several hundred), and
   sleep then. How to wait can only be said before the program starts, so it is said here and the
   program starts itself again. Set GOMP_SPINCOUNT or OMP_WAIT_POLICY yourself to have it as you
   like. */
#ifndef KIT_THREADS_H
#define KIT_THREADS_H

#include <stdlib.h>
#include <unistd.h>

/* first thing in main; does nothing where it cannot */
static inline void kit_wait_patiently(char **argv)
{
#if defined(_OPENMP) && defined(__linux__)
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
    if (setenv("GOMP_SPINCOUNT", "1000", 1) == 0) execv("/proc/self/exe", argv);
#else
    (void)argv;
#endif
}

#endif
