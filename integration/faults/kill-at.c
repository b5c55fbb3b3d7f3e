/*
 * kill-at before|after N PROGRAM: runs a program and kills it with SIGKILL at its N-th system call, before or after the
 * kernel executes the call. Then it exits with 137. If the program ends first, it exits like the program, and stderr
 * ends with the line "N calls".
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
