/*
 * between: runs a program, and acts between its system calls while the program is stopped.
 *
 *   between N run COMMAND -- PROGRAM...         before the N-th call: runs a shell command
 *   between SEED links A B -- PROGRAM...        before random calls: exchanges the names A and B
 *   between SEED mounts PATH A B -- PROGRAM...  before random calls: mounts A or B on PATH, in turn
 *   between SEED process A B -- PROGRAM...      before random calls: moves a process to network namespace A or B, in turn;
 *                                               the program's CNI_NETNS is the namespace of that process
 *
 * Exits like the program, with 64 added if the program ended before its N-th call.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "traced.h"

static unsigned state;

/* xorshift32 */
static bool by_chance(void) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state & 0x100;
}

static int orders[2], replies[2];

/*
 * Runs in the process that moves between namespaces. It reads a byte that names the namespace, and answers with a byte
 * when it is there.
 */
static void wander(char **places) {
    char byte;
    while (read(orders[0], &byte, 1) == 1) {
        int fd = open(places[(int)byte], O_RDONLY | O_CLOEXEC);
        must(fd != -1 && setns(fd, CLONE_NEWNET) == 0 && close(fd) == 0, "setns");
        must(write(replies[1], &byte, 1) == 1, "reply");
    }
    _exit(0);
}

static void go(char place) {
    must(write(orders[1], &place, 1) == 1 && read(replies[0], &place, 1) == 1, "order");
}

static pid_t start_wanderer(char **places) {
    must(pipe2(orders, O_CLOEXEC) == 0 && pipe2(replies, O_CLOEXEC) == 0, "pipe");
    pid_t wanderer = fork();
    must(wanderer != -1, "fork");
    if (wanderer == 0) {
        close(orders[1]); /* else it would never see the end */
        wander(places);
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)wanderer);
    setenv("CNI_NETNS", path, 1);
    go(0);
    return wanderer;
}

/*
 * The kind of action and its arguments; the number of the call, or 0 for random calls; and whether the action has run.
 */
static const char *how;
static char **words;
static long at, calls;
static bool done;

static void act(void) {
    static char turn;
    turn = !turn;
    if (strcmp(how, "run") == 0) {
        pid_t shell = fork();
        if (shell == 0) {
            dup2(2, 1); /* the answer is the program's alone */
            execl("/bin/sh", "sh", "-c", words[0], (char *)NULL);
            _exit(127);
        }
        must(waitpid(shell, NULL, 0) == shell, "sh");
    } else if (strcmp(how, "links") == 0) {
        must(syscall(SYS_renameat2, AT_FDCWD, words[0], AT_FDCWD, words[1], RENAME_EXCHANGE) == 0, words[0]);
    } else if (strcmp(how, "mounts") == 0) {
        must(umount2(words[0], MNT_DETACH) == 0, words[0]);
        must(mount(words[turn ? 2 : 1], words[0], NULL, MS_BIND, NULL) == 0, words[0]);
    } else {
        go(turn);
    }
}

static void stop(bool entering) {
    if (!entering || !(at ? ++calls == at : by_chance())) return;
    act();
    done = true;
}

int main(int count, char **arguments) {
    int dashes = 3;
    while (dashes < count && strcmp(arguments[dashes], "--") != 0) dashes++;
    if (dashes >= count - 1) return 2;
    long number = atol(arguments[1]);
    how = arguments[2];
    words = arguments + 3;
    bool once = strcmp(how, "run") == 0;
    if (once) at = number;
    state = (unsigned)number * 2654435761u | 1;
    pid_t wanderer = strcmp(how, "process") == 0 ? start_wanderer(words) : 0;
    int status = trace(arguments + dashes + 1, stop);
    if (wanderer) {
        kill(wanderer, SIGKILL);
        waitpid(wanderer, NULL, 0);
    }
    return exit_code(status) + (WIFEXITED(status) && once && !done ? 64 : 0);
}
