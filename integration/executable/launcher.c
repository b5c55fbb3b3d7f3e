/*
 * launcher [OPTION...] PROGRAM [ARGUMENT...]: runs a program under limits that Debian's tools cannot set.
 *
 *   -m   PR_SET_MDWE: writable memory can never become executable, prctl(2)
 *   -s   a seccomp filter: a system call that is not in CALLS, which the build defines, kills the program
 *   -v   no vdso: each reading of a clock is a system call, as with clock sources that programs cannot read directly
 *   -e   NAME=ERRNO: this system call fails with this error, by seccomp; may be repeated
 *   -n   PROTOCOL: netlink sockets of this protocol are refused with EACCES, as by a security module
 *   -b   SOURCE=TARGET: the root file system is empty except for these bind mounts; may be repeated
 *   -r   PATH: this directory is read-only; may be repeated
 *   -t   PATH: this directory is empty, and no program in it can be executed; may be repeated
 *   -c   FD: this descriptor is closed; -f FD: it leads to a full disk
 *   -g   FILE: the program's process ID is written to this file, such as cgroup.procs
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

/* Makes a system call fail: "NAME=ERRNO". */
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

/* Mounts a directory of the old root in the new root: "SOURCE=TARGET". */
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

/* Becomes the parent of the program. Hides the vdso from it at execve(2), getauxval(3), and ends with its exit code. */
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
        /*
         * The stack contains the number of arguments, the arguments, NULL, the environment, NULL, and pairs of type and
         * value.
         */
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

/*
 * Runs the part of an option in a step. The steps are: options that need the old root, file systems, options that the
 * program must not notice, filters.
 */
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
