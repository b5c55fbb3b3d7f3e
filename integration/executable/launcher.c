/*
 * launcher [OPTION...] PROGRAM [ARGUMENT...]: runs a program under limits that Debian's tools do not set.
 *
 *   -m   PR_SET_MDWE: memory that can be written never becomes executable, prctl(2)
 *   -s   a seccomp filter: any system call that is not in CALLS, which the build defines, kills the program
 *   -v   no vdso: the program reads clocks by system calls, as with clock sources that the kernel cannot lend it
 *   -e   NAME=ERRNO: this system call fails with this error, seccomp; once for each
 *   -n   PROTOCOL: a netlink socket of this protocol is refused with EACCES, as a security module would
 *   -b   SOURCE=TARGET: an empty root file system but for these bind mounts; once for each
 *   -r   PATH: what is below is read-only; once for each
 *   -t   PATH: an empty directory that holds no programs, in the place of this one; once for each
 *   -c   FD: this descriptor is closed; -f FD: it leads to a full disk
 *   -g   FILE: the program's number is written there: cgroup.procs
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif
#define ROOT "/mnt" /* covered, in a mount namespace of its own: nothing that is bound may lie there */

static const unsigned calls[] = {CALLS};
static const char *const names[] = {NAMES};
#define COUNT (sizeof calls / sizeof *calls)

static void must(int result, const char *what) {
    if (result != -1) return;
    perror(what);
    exit(125);
}

static void install(struct sock_filter *code, unsigned short length) {
    struct sock_fprog program = {length, code};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "PR_SET_SECCOMP");
}

static void filter_calls(void) {
    struct sock_filter code[COUNT + 5] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, COUNT + 1),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    for (size_t i = 0; i < COUNT; i++)
        code[i + 3] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], (unsigned char)(COUNT - i), 0);
    code[COUNT + 3] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[COUNT + 4] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    install(code, COUNT + 5);
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define UNLESS(value, skipped) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped)
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)

/* "NAME=ERRNO" */
static void refuse_call(char *pair) {
    char *error = strchr(pair, '=');
    if (!error) exit(2);
    *error++ = 0;
    unsigned at = 0;
    while (at < COUNT && strcmp(names[at], pair) != 0) at++;
    if (at == COUNT) exit(2);
    struct sock_filter code[] = {LOAD(nr), UNLESS(calls[at], 1), RETURN(SECCOMP_RET_ERRNO | (unsigned)atoi(error)), RETURN(SECCOMP_RET_ALLOW)};
    install(code, sizeof code / sizeof *code);
}

static void refuse_netlink(unsigned protocol) {
    struct sock_filter code[] = {
        LOAD(nr), UNLESS(SYS_socket, 5), LOAD(args[0]), UNLESS(AF_NETLINK, 3), LOAD(args[2]), UNLESS(protocol, 1),
        RETURN(SECCOMP_RET_ERRNO | EACCES), RETURN(SECCOMP_RET_ALLOW),
    };
    install(code, sizeof code / sizeof *code);
}

static void replace_descriptor(int fd, const char *path) {
    close(fd);
    if (!path) return;
    int found = open(path, O_RDWR);
    must(found == fd || dup2(found, fd) == fd ? 0 : -1, path);
}

static void write_number(const char *path) {
    FILE *file = fopen(path, "w");
    if (!file || fprintf(file, "%d", (int)getpid()) < 0 || fclose(file)) must(-1, path);
}

static void make_read_only(const char *path) {
    if (strcmp(path, "/") != 0) must(mount(path, path, NULL, MS_BIND | MS_REC, NULL), path);
    must(mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), path);
}

/* "SOURCE=TARGET": a directory of the new root that is one of the old. */
static void bind_directory(char *pair) {
    char *target = strchr(pair, '='), path[4096];
    if (!target) exit(2);
    *target++ = 0;
    snprintf(path, sizeof path, ROOT "%s", target);
    for (char *at = path + sizeof ROOT; (at = strchr(at, '/')); *at++ = '/') {
        *at = 0;
        if (mkdir(path, 0755) && errno != EEXIST) must(-1, path);
    }
    must(mkdir(path, 0755), path);
    must(mount(pair, path, NULL, MS_BIND | MS_REC, NULL), pair);
}

/* Becomes the parent of what runs from here on, tells it at its execve(2) of no vdso, getauxval(3), and ends as it does. */
static void hide_vdso(void) {
    pid_t child = fork();
    must(child, "fork");
    if (child == 0) {
        must(prctl(PR_SET_PDEATHSIG, SIGKILL), "PR_SET_PDEATHSIG");
        must((int)ptrace(PTRACE_TRACEME, 0, NULL, NULL), "PTRACE_TRACEME");
        return;
    }
    int status;
    struct user_regs_struct registers;
    must(waitpid(child, &status, 0), "waitpid");
    if (WIFSTOPPED(status)) {
        must((int)ptrace(PTRACE_GETREGS, child, NULL, &registers), "PTRACE_GETREGS");
        /* The stack has the number of arguments, the arguments, NULL, the environment, NULL, and pairs of kind and value. */
        char *at = (char *)registers.rsp + sizeof(long);
        for (int lists = 0; lists < 2; at += sizeof(long))
            if (ptrace(PTRACE_PEEKDATA, child, at, NULL) == 0) lists++;
        for (long kind; (kind = ptrace(PTRACE_PEEKDATA, child, at, NULL)) != AT_NULL; at += 2 * sizeof(long))
            if (kind == AT_SYSINFO_EHDR) must((int)ptrace(PTRACE_POKEDATA, child, at, (void *)AT_IGNORE), "PTRACE_POKEDATA");
        must((int)ptrace(PTRACE_DETACH, child, NULL, NULL), "PTRACE_DETACH");
        must(waitpid(child, &status, 0), "waitpid");
    }
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static const char letters[] = "+msve:n:b:r:t:c:f:g:";

/* Each option's part of a step: what needs the old root, the file systems, what the program must not notice, the filters. */
static void take(int step, int option, char *value) {
    if (step == 0) {
        if (option == 'g') write_number(value);
        if (option == 'f') replace_descriptor(atoi(value), "/dev/full");
    } else if (step == 1) {
        if (option == 'r') make_read_only(value);
        if (option == 't') must(mount("empty", value, "tmpfs", MS_NOEXEC, NULL), value);
    } else {
        if (option == 'm') must(prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0), "PR_SET_MDWE");
        if (option == 'c') close(atoi(value));
        if (option == 'e') refuse_call(value);
        if (option == 'n') refuse_netlink((unsigned)atoi(value));
    }
}

int main(int count, char **arguments) {
    char *binds[16], *values[32];
    int option, options[32], option_count = 0, bind_count = 0, mounts = 0, filter = 0, no_vdso = 0;
    while ((option = getopt(count, arguments, letters)) != -1) {
        if (option == '?' || option_count == 32 || bind_count == 16) return 2;
        if (option == 's') filter = 1;
        if (option == 'v') no_vdso = 1;
        if (option == 'b') binds[bind_count++] = optarg;
        if (strchr("brt", option)) mounts = 1;
        options[option_count] = option;
        values[option_count++] = optarg;
    }
    for (int i = 0; i < option_count; i++) take(0, options[i], values[i]);
    if (mounts) {
        must(unshare(CLONE_NEWNS), "unshare");
        must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
    }
    if (bind_count > 0) {
        must(mount("root", ROOT, "tmpfs", 0, "mode=755"), "root");
        for (int i = 0; i < bind_count; i++) bind_directory(binds[i]);
        must(chdir(ROOT), ROOT);
        must((int)syscall(SYS_pivot_root, ".", "."), "pivot_root");
        must(umount2(".", MNT_DETACH), "umount");
        must(chdir("/"), "/");
    }
    if (no_vdso) hide_vdso();
    for (int step = 1; step <= 2; step++)
        for (int i = 0; i < option_count; i++) take(step, options[i], values[i]);
    if (filter) filter_calls();
    execv(arguments[optind], arguments + optind);
    perror(arguments[optind]);
    return 126;
}
