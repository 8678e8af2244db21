/* The library itself, compiled once for all tests that do not set switches of their own; the Makefile
   also makes a double build of it for the gradient checks. */
#define POSENC_IMPLEMENTATION
#include "posenc.h"
