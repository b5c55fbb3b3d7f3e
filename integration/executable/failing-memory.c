/*
 * Replaces host/memory.c in a build for tests. FAIL_ALLOCATION=7 in the environment makes the seventh allocation fail,
 * and FAIL_ALLOCATION=7+ also all later ones.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool fails(void) {
    static long left = -1;
    static bool forever;
    const char *which = left == -1 ? getenv("FAIL_ALLOCATION") : NULL;
    if (left == -1) left = which ? atol(which) : 0, forever = which && strchr(which, '+');
    if (left == 0 || --left > 0) return false;
    left = forever;
    return write(2, "An allocation fails\n", 20) == 20;
}

#define FAILS() fails()
#include "memory.c"
