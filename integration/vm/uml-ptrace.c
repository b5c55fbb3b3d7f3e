/*
 * A library for user-mode Linux (LD_PRELOAD) on a processor whose extended state is larger than Debian's kernel
 * supports, such as with AMX. That kernel reads only as much of the state as its buffer can hold, but the host accepts
 * only the whole state ("ptrace set fp regs failed"). So this library adds the rest of the process's state.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

typedef long Ptrace(enum __ptrace_request, pid_t, void *, void *);

long ptrace(enum __ptrace_request request, ...) {
    static Ptrace *of_libc;
    static _Alignas(64) char state[64 << 10];
    va_list rest;
    va_start(rest, request);
    pid_t pid = va_arg(rest, pid_t);
    void *address = va_arg(rest, void *), *data = va_arg(rest, void *);
    va_end(rest);
    if (!of_libc) of_libc = (Ptrace *)dlsym(RTLD_NEXT, "ptrace");
    if (request == PTRACE_SETREGSET && (uintptr_t)address == NT_X86_XSTATE) {
        const struct iovec *part = data;
        struct iovec whole = {state, sizeof state};
        if (of_libc(PTRACE_GETREGSET, pid, address, &whole) == 0 && part->iov_len < whole.iov_len) {
            memcpy(state, part->iov_base, part->iov_len);
            return of_libc(request, pid, address, &whole);
        }
    }
    return of_libc(request, pid, address, data);
}
