/*
 * Runs a program under ptrace(2), and calls a function at the beginning and end of each of its system calls, while the
 * program is stopped. Programs that it starts are not traced, and continue when it is killed.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t traced;

static void must(bool done, const char *what) {
    if (done) return;
    perror(what);
    exit(2);
}

/* Returns the status of waitpid(2). `stop` may kill the program. */
static int trace(char **command, void (*stop)(bool entering)) {
    traced = fork();
    must(traced != -1, "fork");
    if (traced == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP); /* until the options are set */
        execv(command[0], command);
        _exit(127);
    }
    int status;
    must(waitpid(traced, &status, 0) == traced, "waitpid");
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    must(ptrace(PTRACE_SETOPTIONS, traced, NULL, options) == 0, "ptrace");
    bool runs = false, started = false, entering = true;
    for (int signal = 0;;) {
        must(ptrace(PTRACE_SYSCALL, traced, NULL, (void *)(long)signal) == 0 || errno == ESRCH, "ptrace");
        must(waitpid(traced, &status, 0) == traced, "waitpid");
        if (WIFEXITED(status) || WIFSIGNALED(status)) return status;
        signal = 0;
        if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8)) {
            runs = true;
            entering = false; /* the end of execve(2) itself comes next */
        } else if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            if (started) stop(entering);
            started = runs;
            entering = !entering;
        } else {
            signal = WSTOPSIG(status);
        }
    }
}

/* Returns the exit code that a shell would report. */
static int exit_code(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
