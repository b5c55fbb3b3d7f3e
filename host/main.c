/*
 * The executable: a plugin, under any name of its file. A plugin is a function of TypeScript that reads
 * its input, answers and ends the process; all else here is for the case that it cannot.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host.h"

#define STACK_MAX ((size_t)4 << 20)
#define STACK_LEAST ((size_t)128 << 10) /* twice what plugins need */
#define STACK_OF_C ((size_t)64 << 10) /* for what runs beyond the engine's check */
#ifdef TOOL
#define COLLECT_FROM ((size_t)8 << 20) /* some commands go on for days */
#define CANNOT_RUN "Cannot run this program: "
#else
/* A plugin runs for milliseconds, so its memory is not searched for cycles; important objects are freed explicitly. */
#define COLLECT_FROM ((size_t)64 << 20)
#define CANNOT_RUN "Cannot run the plugin: "
#endif

JSRuntime *new_runtime(void) {
    JSRuntime *runtime = JS_NewRuntime2(&memory_functions, NULL);
    if (!runtime) return NULL;
    JS_SetGCThreshold(runtime, COLLECT_FROM);
    return runtime;
}

JSValue load(JSContext *context, const uint8_t *bytecode, size_t length) {
    JSValue function = JS_ReadObject(context, bytecode, length, JS_READ_OBJ_BYTECODE);
    if (JS_IsException(function)) return JS_EXCEPTION;
    JSValue result = JS_EvalFunction(context, function);
    if (JS_IsException(result)) return JS_EXCEPTION;
    JS_FreeValue(context, result);
    JSValue global = JS_GetGlobalObject(context), plugins = JS_GetPropertyStr(context, global, "plugins");
    JS_FreeValue(context, global);
    return plugins;
}

static void say(int fd, const char *text) {
    if (write(fd, text, strlen(text)) == -1) return; /* there is no other place to tell it */
}

/* Without the engine. Half an answer of a plugin is not followed by another: the death says enough. */
static int fail(const char *reason) {
#ifndef TOOL
    if (answered) abort();
    if (getenv("CNI_COMMAND")) {
        say(1, "{\n    \"cniVersion\": \"1.1.0\",\n    \"code\": 999,\n    \"msg\": \"" CANNOT_RUN);
        say(1, reason);
        say(1, "\"\n}\n");
    }
#endif
    say(2, CANNOT_RUN);
    say(2, reason);
    say(2, "\n");
    return 1;
}

void out_of_memory(void) { _exit(fail("not enough memory (RLIMIT_AS, memory cgroup)")); }

int report(JSContext *context) {
    JSValue error = JS_GetException(context), stack = JS_GetPropertyStr(context, error, "stack");
    const char *what = JS_ToCString(context, error), *where = JS_ToCString(context, stack);
    if (what) say(2, what), say(2, "\n");
    if (where) say(2, where);
    return fail("it ended in an error that it could not report");
}

/*
 * A closed one among the first three descriptors is opened on /dev/null: otherwise one of our files would get its
 * number. Not so that it could be used: an answer that is not delivered is a failed ADD.
 */
static bool hold_standard_descriptors(void) {
    static const int useless[3] = {O_WRONLY, O_RDONLY, O_RDWR};
    struct pollfd standard[3] = {{.fd = 0}, {.fd = 1}, {.fd = 2}};
    while (poll(standard, 3, 0) == -1)
        if (errno != EINTR) return false;
    for (int fd = 0; fd < 3; fd++)
        if (standard[fd].revents & POLLNVAL && openat(AT_FDCWD, "/dev/null", useless[fd]) != fd) return false;
    return true;
}

/* How deep a program may nest: the engine refuses recursion beyond that. 0 when it is too little to run, which is to be known before anything does. */
static size_t stack_room(void) {
    struct rlimit stack;
    size_t most = STACK_MAX, used = STACK_OF_C; /* arguments and environment lie on the stack too, the file's name first */
    used += getauxval(AT_EXECFN) - (uintptr_t)__builtin_frame_address(0);
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < used + most) most = stack.rlim_cur < used ? 0 : stack.rlim_cur - used;
    return most >= STACK_LEAST ? most : 0;
}

int main(int count, char **arguments) {
    const char *path = count > 0 ? arguments[0] : "", *slash = strrchr(path, '/');
    JSValue plugins, plugin;
    if (!hold_standard_descriptors()) return fail("stdin, stdout or stderr is closed, and there is no /dev/null in its place");
    signal(SIGPIPE, SIG_IGN); /* a reader that closed its end is an error of write(2), and ADD is undone */
    signal(SIGXFSZ, SIG_IGN); /* likewise a file that would be larger than RLIMIT_FSIZE */
    signal(SIGCHLD, SIG_DFL); /* ignored, as a caller may have left it, it would cost us our programs' exit codes */
    size_t room = stack_room();
    if (!room) return fail("not enough stack (RLIMIT_STACK)");
    program_arguments = arguments;
    JSContext *context = start(&plugins);
    if (!context) return fail("not enough memory to start");
    JS_SetMaxStackSize(JS_GetRuntime(context), room);
    JS_UpdateStackTop(JS_GetRuntime(context));
    if (JS_IsException(plugins)) return report(context);
    plugin = JS_GetPropertyStr(context, plugins, slash ? slash + 1 : path); /* the object has no prototype */
    if (JS_IsUndefined(plugin)) plugin = JS_GetPropertyStr(context, plugins, "unknown");
    if (JS_IsException(plugin) || JS_IsException(JS_Call(context, plugin, JS_UNDEFINED, 0, NULL))) return report(context);
    return fail("it ended without an answer");
}
