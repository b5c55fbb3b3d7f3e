/*
 * Keeps a node busy until the process that started this one ends.
 *
 *     load processor          computes without waiting
 *     load disk DIRECTORY     writes 64 MB into a file without a name and syncs it, again and again, like `dd conv=fsync`
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static char block[1 << 20];

static void must(int worked, const char *what) {
    if (worked) return;
    perror(what);
    exit(1);
}

static void write_and_sync(const char *directory) {
    int fd = open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    must(fd >= 0, directory);
    for (;;) {
        for (off_t at = 0; at < 64; at++) must(pwrite(fd, block, sizeof block, at * (off_t)sizeof block) > 0, "pwrite");
        must(fsync(fd) == 0, "fsync");
    }
}

int main(int count, char **arguments) {
    pid_t parent = getppid();
    must(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "prctl");
    if (getppid() != parent) return 0;
    if (count == 3 && strcmp(arguments[1], "disk") == 0) write_and_sync(arguments[2]);
    if (count == 2 && strcmp(arguments[1], "processor") == 0)
        for (;;)
            for (volatile int i = 0; i < 10000000; i++) continue;
    return 2;
}
