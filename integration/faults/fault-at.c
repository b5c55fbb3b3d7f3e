/*
 * fault-at LOG FAULT[,FAULT] PROGRAM ...: runs a program, and makes some of its system calls fail or changes answers of
 * netlink. x86-64. Writes a line to LOG for each fault that occurred. For the fault "list" it writes a line for each
 * call: its number, its count among calls with this number, its kind, and a path or a message type. Exits like the
 * program.
 *
 *   fail:NR:K:E     the K-th call with number NR is not executed and fails with error E; close(2) is executed, as in the kernel
 *   always:NR:K:E   also all later calls with this number, except those on stdin, stdout and stderr
 *   disk:NR:K:E     also all later calls that create or extend files: the disk is full
 *   then:J:E        after another fault, the J-th call that changes something fails with E
 *
 * Faults of netlink, where K is the index of the sendto(2) or recvfrom(2) (without MSG_PEEK):
 *
 *   refuse:44:K:E   the kernel does not execute this request, and answers with error E
 *   lie:44:K:E      the kernel executes it, and answers with error E
 *   lose:44:K       the kernel executes it, and the answer is lost: ENOBUFS, as if the kernel had no memory for it
 *   never:44:K      the kernel does not get the request: EAGAIN for a caller that does not wait, otherwise an endless wait
 *   changed:45:K    the answer is part of a dump that has changed (NLM_F_DUMP_INTR); changing: also all later answers
 *   short:45:K      half of the answer, cut within a message; twice: it arrives again; stray: another sequence number precedes it
 */
#define _GNU_SOURCE /* process_vm_readv */
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "traced.h"

#define FAULTS_MAX 4
#define FDS_MAX 1024
#define CALLS_MAX 512
#define DATAGRAM_MAX (1 << 20)

typedef struct user_regs_struct registers;

static struct fault { char kind[16]; long number, nth, error; bool fired; } faults[FAULTS_MAX];
/*
 * A netlink socket: whether it is a netfilter socket, the fault for the answer to its last request, and the sequence
 * numbers of the first and last message of that request.
 */
static struct socket { bool netlink, filter; struct fault *fate; uint32_t first, last; } sockets[FDS_MAX];
static bool in_memory[FDS_MAX]; /* a file of /proc or /sys, which no disk is full for */
static long counts[CALLS_MAX], changes;
static int fault_count;
static bool any_fired;
static FILE *log_file;
static uint8_t datagram[DATAGRAM_MAX];

/* Copies bytes of the program, as many as are mapped. Each page is mapped as a whole or not at all. */
static size_t copy_in(uint64_t address, void *bytes, size_t length) {
    size_t first = 4096 - address % 4096;
    struct iovec here = {bytes, length}, there[2] = {{(void *)address, length < first ? length : first}, {(void *)(address + first), 0}};
    if (length > first) there[1].iov_len = length - first;
    ssize_t copied = process_vm_readv(traced, &here, 1, there, 2, 0);
    return copied < 0 ? 0 : (size_t)copied;
}

static void copy_out(uint64_t address, void *bytes, size_t length) {
    struct iovec here = {bytes, length}, there = {(void *)address, length};
    if (process_vm_writev(traced, &here, 1, &there, 1, 0) == -1) perror("process_vm_writev");
}

static bool is(const struct fault *fault, const char *kind) { return fault && strcmp(fault->kind, kind) == 0; }

static void fire(struct fault *fault, const registers *at) {
    any_fired = true;
    if (!fault->fired) fprintf(log_file, "fired %s at call %ld of number %lu\n", fault->kind, fault->nth, at->orig_rax);
    fault->fired = true;
}

#include "fault-at-netlink.h"

/* Reports whether the program's file of an open(2) exists. */
static bool is_there(const registers *regs) {
    char path[PATH_MAX + 32];
    int length = snprintf(path, sizeof path, "/proc/%d/root", traced);
    path[(size_t)length + copy_in(regs->rsi, path + length, PATH_MAX - 1)] = 0;
    return access(path, F_OK) == 0;
}

/* Reports whether a call creates or extends a file. */
static bool fills_disk(const registers *regs) {
    switch (regs->orig_rax) {
    case SYS_write: case SYS_pwrite64: case SYS_fsync: return regs->rdi > 2 && regs->rdi < FDS_MAX && !in_memory[regs->rdi];
    case SYS_openat: return regs->rdx & O_CREAT && !is_there(regs);
    case SYS_mkdirat: case SYS_linkat: case SYS_rename: return true;
    }
    return false;
}

static bool changes_something(const registers *regs) {
    switch (regs->orig_rax) {
    case SYS_unlink: case SYS_rmdir: case SYS_ftruncate: case SYS_sendto: case SYS_setns: case SYS_vfork: return true;
    case SYS_openat: return regs->rdx & (O_WRONLY | O_RDWR);
    }
    return fills_disk(regs);
}

/* Returns the subject of a call for the list. */
static const char *subject(const registers *regs, char *text, size_t size) {
    uint64_t path = 0, number = regs->orig_rax;
    if (number == SYS_openat || number == SYS_mkdirat || number == SYS_readlinkat || number == SYS_statx) path = regs->rsi;
    if (number == SYS_unlink || number == SYS_rmdir || number == SYS_rename || number == SYS_linkat) path = regs->rdi;
    if (number == SYS_linkat) path = regs->rsi;
    text[0] = 0;
    if (path) {
        text[copy_in(path, text, size - 1)] = 0;
    }
    if (number == SYS_read || number == SYS_write || number == SYS_pread64 || number == SYS_pwrite64 || number == SYS_fsync ||
        number == SYS_ftruncate || number == SYS_flock || number == SYS_getdents64) {
        char link[64];
        snprintf(link, sizeof link, "/proc/%d/fd/%d", traced, (int)regs->rdi);
        ssize_t length = readlink(link, text, size - 1);
        text[length < 0 ? 0 : length] = 0;
    }
    if (number == SYS_sendto && copy_in(regs->rsi, datagram, 16) == 16)
        snprintf(text, size, "type %d flags %x", ((struct nlmsghdr *)(void *)datagram)->nlmsg_type, ((struct nlmsghdr *)(void *)datagram)->nlmsg_flags);
    for (char *c = text; *c; c++) if (*c == '\n') *c = '?';
    return text;
}

static const char *sort_of(const registers *regs) {
    uint64_t fd = regs->rdi, number = regs->orig_rax;
    bool moves = number == SYS_read || number == SYS_write || number == SYS_fcntl || number == SYS_close;
    if (number == SYS_recvfrom) return regs->r10 & MSG_PEEK ? "peek" : fd < FDS_MAX && sockets[fd].netlink ? "netlink" : "socket";
    if (number == SYS_sendto) return fd < FDS_MAX && sockets[fd].netlink ? "netlink" : "socket";
    if (number == SYS_openat) return regs->rdx & (O_WRONLY | O_RDWR) ? "writing" : "reading";
    return moves && fd < 3 ? "standard" : "-";
}

/* Returns the fault for a call at its beginning, if any. `nth` counts the calls with this number. */
static struct fault *meets(const registers *regs, long nth) {
    struct fault *met = NULL;
    changes += any_fired && changes_something(regs);
    for (int i = 0; i < fault_count; i++) {
        struct fault *fault = &faults[i];
        bool here = fault->number == (long)regs->orig_rax && nth == fault->nth;
        if (is(fault, "always")) here = fault->number == (long)regs->orig_rax && nth >= fault->nth && (nth == fault->nth || regs->rdi > 2 || (regs->orig_rax != SYS_read && regs->orig_rax != SYS_write));
        if (is(fault, "disk")) here |= fault->fired && fills_disk(regs);
        if (is(fault, "then")) here = any_fired && !fault->fired && changes == fault->number && changes_something(regs);
        if (is(fault, "changing")) here = fault->number == (long)regs->orig_rax && nth >= fault->nth;
        if (here) met = fault;
    }
    return met;
}

static bool is_refusal(const struct fault *fault) {
    return is(fault, "fail") || is(fault, "always") || is(fault, "disk") || is(fault, "then");
}

/* The present call and its fault. */
static struct under_way { registers at; struct fault *fault; struct socket *socket; long answer; bool skipped; } now;

static void set_registers(registers *regs) {
    if (ptrace(PTRACE_SETREGS, traced, NULL, regs)) perror("PTRACE_SETREGS");
}

static void skip(registers *regs, long answer) {
    now.skipped = true;
    now.answer = answer;
    regs->orig_rax = (uint64_t)-1;
    set_registers(regs);
}

/* Handles a request on a netlink socket: applies its fault, and records the fault of its answer. */
static void enter_request(registers *regs, struct socket *socket, struct fault *fault) {
    size_t length = copy_in(regs->rsi, datagram, regs->rdx < DATAGRAM_MAX ? regs->rdx : DATAGRAM_MAX);
    socket->fate = fault;
    socket->first = 0;
    each_message(length, note_sequence, socket);
    if (is(fault, "never")) skip(regs, (long)regs->rdx);
    if (!is(fault, "refuse")) return;
    each_message(length, spoil, socket);
    copy_out(regs->rsi, datagram, length);
}

static void enter(registers *regs) {
    uint64_t number = regs->orig_rax, fd = regs->rdi;
    char text[200];
    long nth = number < CALLS_MAX ? ++counts[number] : 0;
    struct socket *socket = fd < FDS_MAX && sockets[fd].netlink ? &sockets[fd] : NULL;
    now = (struct under_way){.at = *regs, .fault = meets(regs, nth), .socket = socket};
    if (is(&faults[0], "list")) fprintf(log_file, "%llu %ld %s %s\n", (unsigned long long)number, nth, sort_of(regs), subject(regs, text, sizeof text));
    if (now.fault) fire(now.fault, regs);
    if (is_refusal(now.fault) && number != SYS_close) return skip(regs, -now.fault->error);
    if (!socket) return;
    if (number == SYS_sendto) return enter_request(regs, socket, now.fault);
    if (number != SYS_recvfrom) return;
    if (is(socket->fate, "lose")) { /* taken away, and reported as the kernel does when it had no memory for it */
        regs->r10 = (regs->r10 & ~(uint64_t)MSG_PEEK) | MSG_DONTWAIT;
        set_registers(regs);
    }
    if (is(now.fault, "twice") || is(now.fault, "stray")) {
        regs->r10 |= MSG_PEEK;
        set_registers(regs);
    }
}

static void leave(registers *regs) {
    uint64_t number = now.at.orig_rax;
    char path[5];
    if (number == SYS_openat && regs->rax < FDS_MAX)
        in_memory[regs->rax] = copy_in(now.at.rsi, path, sizeof path) == sizeof path && (!memcmp(path, "/proc", 5) || !memcmp(path, "/sys/", 5));
    bool peeks = now.at.r10 & MSG_PEEK;
    if (now.skipped) {
        regs->rax = (uint64_t)now.answer;
        return set_registers(regs);
    }
    if (number == SYS_socket && now.at.rdi == AF_NETLINK && (long)regs->rax >= 0 && regs->rax < FDS_MAX)
        sockets[regs->rax] = (struct socket){.netlink = true, .filter = now.at.rdx == NETLINK_NETFILTER};
    if (number == SYS_close && now.socket) *now.socket = (struct socket){0};
    if (is_refusal(now.fault)) { /* close(2), which closes also when it fails */
        regs->rax = (uint64_t)-now.fault->error;
        return set_registers(regs);
    }
    if (!now.socket) return;
    if (number != SYS_recvfrom) return;
    if (is(now.socket->fate, "lose")) {
        now.socket->fate = NULL;
        regs->rax = (uint64_t)-ENOBUFS;
        regs->r10 = now.at.r10;
        return set_registers(regs);
    }
    if ((long)regs->rax <= 0 || peeks) return;
    tamper(regs, now.socket, now.fault ? now.fault : now.socket->fate);
    if (is(now.socket->fate, "lie")) now.socket->fate = NULL;
    regs->r10 = now.at.r10;
    set_registers(regs);
}

static bool read_faults(char *text) {
    for (char *one = strtok(text, ","); one; one = strtok(NULL, ",")) {
        struct fault *fault = &faults[fault_count];
        if (fault_count++ == FAULTS_MAX) return false;
        if (sscanf(one, "%15[a-z]:%ld:%ld:%ld", fault->kind, &fault->number, &fault->nth, &fault->error) < 1) return false;
        if (is(fault, "then")) fault->error = fault->nth;
    }
    return fault_count > 0;
}

static void stop(bool entering) {
    registers regs;
    if (ptrace(PTRACE_GETREGS, traced, NULL, &regs)) return;
    entering ? enter(&regs) : leave(&regs);
}

int main(int count, char **arguments) {
    if (count < 4 || !read_faults(arguments[2]) || !(log_file = fopen(arguments[1], "we"))) return 2;
    int status = trace(arguments + 3, stop);
    fclose(log_file);
    return exit_code(status);
}
