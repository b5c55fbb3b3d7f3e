/*
 * launcher [-m] [-s] [-b SOURCE=TARGET]... PROGRAM [ARGUMENT...]: runs a program under limits that Debian's tools do not set.
 *
 *   -m   PR_SET_MDWE: memory that can be written never becomes executable, prctl(2)
 *   -s   a seccomp filter: any system call that is not in CALLS, which the build defines, kills the program
 *   -b   an empty root file system but for these bind mounts; once for each
 */
#define _GNU_SOURCE
#include <errno.h>
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif
#define ROOT "/mnt" /* covered, in a mount namespace of its own: nothing that is bound may lie there */

static const unsigned calls[] = {CALLS};
#define COUNT (sizeof calls / sizeof *calls)

static void must(int result, const char *what) {
    if (result != -1) return;
    perror(what);
    exit(125);
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
    struct sock_fprog program = {COUNT + 5, code};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "PR_SET_SECCOMP");
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

int main(int count, char **arguments) {
    char *binds[16];
    int option, bind_count = 0, no_gain = 0, filter = 0;
    while ((option = getopt(count, arguments, "+msb:")) != -1) {
        if (option == 'm') no_gain = 1;
        else if (option == 's') filter = 1;
        else if (option == 'b' && bind_count < 16) binds[bind_count++] = optarg;
        else return 2;
    }
    if (bind_count > 0) {
        must(unshare(CLONE_NEWNS), "unshare");
        must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
        must(mount("root", ROOT, "tmpfs", 0, "mode=755"), "root");
        for (int i = 0; i < bind_count; i++) bind_directory(binds[i]);
        must(chdir(ROOT), ROOT);
        must((int)syscall(SYS_pivot_root, ".", "."), "pivot_root");
        must(umount2(".", MNT_DETACH), "umount");
        must(chdir("/"), "/");
    }
    if (no_gain) must(prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0), "PR_SET_MDWE");
    if (filter) filter_calls();
    execv(arguments[optind], arguments + optind);
    perror(arguments[optind]);
    return 126;
}
