/*
 * Runs programs and measures their resources. It is small, because a program's peak memory begins with that of its
 * parent.
 *
 * A request is a line with its length in bytes, and then texts that each end with NUL:
 *
 *     the number of concurrent chains, the number of chains, and for each chain: the number of jobs, and for each job:
 *     "1" to drop the executable from the page cache, the number of arguments, the arguments, the number of variables,
 *     the variables, the first part of the input, "1" to insert the output of the previous job, the rest of the input
 *
 * The jobs of a chain run in sequence. A chain ends with its first failure. The answer is a line with its length, and
 * then texts:
 *
 *     ns of all; for each job: ns, CPU us, peak memory in KB, page faults, exit code (256 + the signal, -1: not run),
 *     stdout, stderr
 *
 * CPU time, memory and page faults include those of the program's own children.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEPS 512
#define POINTERS 8192

struct step {
    int cold, spliced;
    char **arguments, **variables, *before, *after;
};
struct output {
    size_t length;
    char bytes[16384];
};
struct outcome {
    long long ns, cpu_us;
    long peak_kb, faults;
    int exit_code;
    struct output out, err;
};

static char request[2 << 20], *position;
static char *pointers[POINTERS];
static struct step steps[STEPS];
static int first_step[STEPS + 1];
static struct {
    atomic_int next_chain;
    struct outcome outcomes[STEPS];
} *shared;

static void must(int worked, const char *what) {
    if (worked) return;
    perror(what);
    exit(1);
}

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static char *next_text(void) {
    char *text = position;
    position += strlen(text) + 1;
    return text;
}

static int next_number(void) { return atoi(next_text()); }

static char **next_texts(int *used) {
    char **texts = &pointers[*used];
    int count = next_number();
    must(*used + count < POINTERS, "too many texts");
    for (int i = 0; i < count; i++) pointers[(*used)++] = next_text();
    pointers[(*used)++] = NULL;
    return texts;
}

/* Drops the executable's pages from the page cache. No other process may be running it. */
static void forget(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    must(fd >= 0 && fdatasync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, path);
    close(fd);
}

static void feed(int fd, const char *text, size_t length) {
    must(write(fd, text, length) == (ssize_t)length, "the input is longer than a pipe holds");
}

static void drain(int out, int err, struct outcome *outcome) {
    struct pollfd open_ends[] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    struct output *outputs[] = {&outcome->out, &outcome->err};
    while (open_ends[0].fd >= 0 || open_ends[1].fd >= 0) {
        must(poll(open_ends, 2, -1) > 0, "poll");
        for (int i = 0; i < 2; i++) {
            struct output *output = outputs[i];
            if (!open_ends[i].revents) continue;
            ssize_t length = read(open_ends[i].fd, output->bytes + output->length, sizeof output->bytes - 1 - output->length);
            if (length > 0) output->length += (size_t)length;
            else open_ends[i].fd = -1;
        }
    }
}

static void run(const struct step *step, const struct output *last, struct outcome *outcome) {
    int in[2], out[2], err[2], status;
    pid_t pid;
    struct rusage usage;
    posix_spawn_file_actions_t actions;
    must(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0, "pipe2");
    feed(in[1], step->before, strlen(step->before));
    if (step->spliced) feed(in[1], last->bytes, last->length);
    feed(in[1], step->after, strlen(step->after));
    close(in[1]);
    must(posix_spawn_file_actions_init(&actions) == 0, "posix_spawn");
    const int ends[] = {in[0], out[1], err[1]};
    for (int i = 0; i < 3; i++) must(posix_spawn_file_actions_adddup2(&actions, ends[i], i) == 0, "posix_spawn");
    if (step->cold) forget(step->arguments[0]);
    long long start = now();
    errno = posix_spawn(&pid, step->arguments[0], &actions, NULL, step->arguments, step->variables);
    must(errno == 0, step->arguments[0]);
    for (int i = 0; i < 3; i++) close(ends[i]);
    drain(out[0], err[0], outcome);
    must(wait4(pid, &status, 0, &usage) == pid, "wait4");
    outcome->ns = now() - start;
    outcome->cpu_us = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000LL + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    outcome->peak_kb = usage.ru_maxrss;
    outcome->faults = usage.ru_minflt + usage.ru_majflt;
    outcome->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
    close(out[0]);
    close(err[0]);
    posix_spawn_file_actions_destroy(&actions);
}

static void run_chain(int chain) {
    for (int at = first_step[chain]; at < first_step[chain + 1]; at++) {
        struct outcome *outcome = &shared->outcomes[at];
        run(&steps[at], at > first_step[chain] ? &outcome[-1].out : &outcome->out, outcome);
        if (outcome->exit_code != 0) return;
    }
}

static void answer(int count, long long ns) {
    char *text;
    size_t length;
    FILE *memory = open_memstream(&text, &length);
    must(memory != NULL, "open_memstream");
    fprintf(memory, "%lld%c", ns, 0);
    for (int at = 0; at < count; at++) {
        const struct outcome *outcome = &shared->outcomes[at];
        fprintf(memory, "%lld%c%lld%c%ld%c%ld%c%d%c", outcome->ns, 0, outcome->cpu_us, 0, outcome->peak_kb, 0, outcome->faults, 0, outcome->exit_code, 0);
        fwrite(outcome->out.bytes, 1, outcome->out.length + 1, memory);
        fwrite(outcome->err.bytes, 1, outcome->err.length + 1, memory);
    }
    must(fclose(memory) == 0, "fclose");
    printf("%zu\n", length);
    fwrite(text, 1, length, stdout);
    fflush(stdout);
    free(text);
}

static void serve(size_t length) {
    int used = 0, count = 0;
    must(length < sizeof request && fread(request, 1, length, stdin) == length, "request");
    position = request;
    int parallel = next_number(), chains = next_number();
    for (int chain = 0; chain < chains; chain++) {
        int end = first_step[chain] + next_number();
        must(end <= STEPS, "too many steps");
        for (first_step[chain + 1] = end; count < end; count++) {
            struct step *step = &steps[count];
            step->cold = next_number();
            step->arguments = next_texts(&used);
            step->variables = next_texts(&used);
            step->before = next_text();
            step->spliced = next_number();
            step->after = next_text();
        }
    }
    must(madvise(shared, sizeof *shared, MADV_REMOVE) == 0, "madvise"); /* all zeros again */
    for (int at = 0; at < count; at++) shared->outcomes[at].exit_code = -1;
    long long start = now();
    for (int i = 0; i < parallel; i++) {
        pid_t pid = fork();
        must(pid >= 0, "fork");
        if (pid > 0) continue;
        for (int chain; (chain = atomic_fetch_add(&shared->next_chain, 1)) < chains;) run_chain(chain);
        _exit(0);
    }
    for (int i = 0; i < parallel; i++) must(wait(NULL) > 0, "wait");
    answer(count, now() - start);
}

int main(void) {
    size_t length;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(shared != MAP_FAILED, "mmap");
    while (scanf("%zu", &length) == 1 && getchar() == '\n') serve(length);
    return 0;
}
