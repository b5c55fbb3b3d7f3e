/* The native host: what its parts know of each other. README.md tells the whole. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quickjs.h"

/* memory.c: where the engine's memory comes from */
extern const JSMallocFunctions memory_functions;
/* The making of an image. Blocks that are free at the end lie in separate memory. */
#define MOST_BLOCKS ((size_t)1 << 20) /* more than there are */
struct room {
    char *start, *position, *limit;
};
struct making {
    struct room rooms[2];      /* the image, and the room beside it */
    size_t count;              /* of the blocks that were made the last time */
    bool is_free[MOST_BLOCKS]; /* in the end of the last time, in the order of their making */
};
/* From now on all blocks come from these rooms. */
void memory_begin(struct making *making);
/* Notes which blocks are free. Returns whether they are the same as the last time. */
bool memory_end(void);
/* main.c: ends the process with an error object. */
_Noreturn void out_of_memory(void);
/* door.c: the language and what TypeScript can ask of the system. NULL without memory. */
JSContext *new_context(JSRuntime *runtime);
extern char **program_arguments;
extern bool answered; /* something has been written to stdout */

/* bytecode.c or snapshot.c, the two ways to start: `*plugins` is an object of functions by name, or an exception. */
JSContext *start(JSValue *plugins);

/* main.c: returns the engine as every program of this folder needs it; NULL without memory */
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
