/*
 * kill-at before|after N PROGRAM: runs a program and kills it with SIGKILL at its N-th system call, before the kernel does it
 * or when it is done. Exits with 137 then, and as the program when that ended by itself; stderr ends with the line "N calls" then.
 * Programs that the program starts are not looked at, and live on when it is killed.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments) {
    if (count < 4) return 2;
    bool after = strcmp(arguments[1], "after") == 0;
    long at = atol(arguments[2]);
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP); /* until the options are set */
        execv(arguments[3], arguments + 3);
        _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    if (ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)) return perror("ptrace"), 2;
    bool started = false, entering = true;
    long calls = 0;
    for (int signal = 0;;) {
        if (ptrace(PTRACE_SYSCALL, child, NULL, (void *)(long)signal)) return perror("ptrace"), 2;
        if (waitpid(child, &status, 0) == -1) return perror("waitpid"), 2;
        if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
        if (WIFEXITED(status)) {
            fprintf(stderr, "%ld calls\n", calls);
            return WEXITSTATUS(status);
        }
        signal = 0;
        if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8)) {
            started = true;
            entering = false; /* the end of execve(2) itself comes next */
        } else if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            if (started && entering) calls++;
            if (started && calls == at && entering != after) {
                kill(child, SIGKILL);
                waitpid(child, &status, 0);
                return 128 + SIGKILL;
            }
            entering = !entering;
        } else {
            signal = WSTOPSIG(status);
        }
    }
}
