/*
 * between: runs a program, and does something between its system calls, while it stands still.
 *
 *   between N run COMMAND -- PROGRAM...        before the N-th call, once: a command of the shell
 *   between SEED links A B -- PROGRAM...       before each call, by chance: the two names change places
 *   between SEED mounts PATH A B -- PROGRAM... before each call, by chance: the other one of A and B is mounted on PATH
 *   between SEED process A B -- PROGRAM...     before each call, by chance: a process goes to the other one of two network
 *                                              namespaces; the program's CNI_NETNS is that of the process
 *
 * Exits as the program does, and 64 higher when the program ended before its N-th call.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned state;

/* xorshift32 */
static bool by_chance(void) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state & 0x100;
}

static void must(bool done, const char *what) {
    if (done) return;
    perror(what);
    exit(2);
}

static int orders[2], replies[2];

/* The process that goes to and fro: one byte says where to, one that it is there. */
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

static void act(const char *how, char **words) {
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

int main(int count, char **arguments) {
    int dashes = 3;
    while (dashes < count && strcmp(arguments[dashes], "--") != 0) dashes++;
    if (dashes >= count - 1) return 2;
    long at = atol(arguments[1]);
    state = (unsigned)at * 2654435761u | 1;
    const char *how = arguments[2];
    char **words = arguments + 3;
    bool once = strcmp(how, "run") == 0;
    pid_t wanderer = strcmp(how, "process") == 0 ? start_wanderer(words) : 0;
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP); /* until the options are set */
        execv(arguments[dashes + 1], arguments + dashes + 1);
        _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    must(ptrace(PTRACE_SETOPTIONS, child, NULL, options) == 0, "ptrace");
    bool started = false, entering = true, done = !once;
    long calls = 0;
    for (int signal = 0;;) {
        must(ptrace(PTRACE_SYSCALL, child, NULL, (void *)(long)signal) == 0, "ptrace");
        must(waitpid(child, &status, 0) != -1, "waitpid");
        if (WIFEXITED(status) || WIFSIGNALED(status)) break;
        signal = 0;
        if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8)) {
            started = true;
            entering = false; /* the end of execve(2) itself comes next */
        } else if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            if (started && entering && (once ? ++calls == at : by_chance())) {
                act(how, words);
                done = true;
            }
            entering = !entering;
        } else {
            signal = WSTOPSIG(status);
        }
    }
    if (wanderer) {
        kill(wanderer, SIGKILL);
        waitpid(wanderer, NULL, 0);
    }
    if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
    return WEXITSTATUS(status) + (done ? 0 : 64);
}
