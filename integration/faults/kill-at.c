/*
 * kill-at before|after N PROGRAM: runs a program and kills it with SIGKILL at its N-th system call, before the kernel does it
 * or when it is done. Exits with 137 then, and as the program when that ended by itself; stderr ends with the line "N calls" then.
 */
#include <string.h>

#include "traced.h"

static bool after;
static long at, calls;

static void stop(bool entering) {
    calls += entering;
    if (calls == at && entering != after) kill(traced, SIGKILL);
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    after = strcmp(arguments[1], "after") == 0;
    at = atol(arguments[2]);
    int status = trace(arguments + 3, stop);
    if (WIFEXITED(status)) fprintf(stderr, "%ld calls\n", calls);
    return exit_code(status);
}
