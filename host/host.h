/* The native host: what its parts know of each other. README.md tells the whole. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quickjs.h"

/* memory.c: where the engine's memory comes from */
extern const JSMallocFunctions memory_functions;
/* The next allocations come from this range, then from the kernel. */
void memory_use(char *start, char *end);
/* main.c: ends the process with an error object. */
_Noreturn void out_of_memory(void);
/* Where in the range given to `memory_use` the next allocation would lie. */
char *memory_position(void);
/*
 * Whether each block of that range, in their order, is free now, as the last thing that is done. Told of that, a process that does
 * the same takes those that will be free from another place, so that the range has none: a heap image is made twice.
 */
void memory_fates(char *start, uint8_t *known);
void memory_set_aside(const uint8_t *known, char *start);
/* Whether nothing of the range is free and all that was set aside is, as the last thing that is done. */
bool memory_is_apart(char *start);

/* door.c: the language and what TypeScript can ask of the system. NULL without memory. */
JSContext *new_context(JSRuntime *runtime);
extern char **program_arguments;
extern bool answered; /* something has been written to stdout */

/* bytecode.c or snapshot.c, the two ways to start: `*plugins` is an object of functions by name, or an exception. */
JSContext *start(JSValue *plugins);

/* main.c: the engine as every program of this folder wants it; NULL without memory */
JSRuntime *new_runtime(void);
/* Evaluates bytecode, which leaves its plugins in `globalThis.plugins`, and returns that object. */
JSValue load(JSContext *context, const uint8_t *bytecode, size_t length);
/* Prints the pending exception on stderr, and on stdout for a runtime, which always gets one error object. */
int report(JSContext *context);

/* Linked in by the build, see scripts/native.ts. */
struct blob {
    const uint8_t *start, *end;
};
extern const struct blob bytecode;  /* of the bundle, where that is evaluated at each start */
extern const struct blob positions; /* which line of the bundle is which line of a source file */
