/*
 * image MADE.js USED.js ROUNDS FAIL: runs the engine with an image or without. It evaluates MADE.js and turns the heap
 * into an image. Then it evaluates USED.js in each round, followed by a cycle collection. Prints the output of USED.js
 * in each round, and the number of allocated blocks. The headers in the image are poisoned, so a write to one of them
 * aborts the program.
 *
 * ROUNDS 0 makes no image and runs two rounds. FAIL n makes the n-th allocation of each round fail, and FAIL 0 none.
 * Exit code 9: an allocation failed and the script ended with an exception.
 */
#include <malloc.h>
#include <sys/mman.h>

#include "quickjs.c"

#define ROOM ((size_t)64 << 20)
#define POISON 0x5eed5eed

/* While the image is made, all blocks are allocated one after the other in `room`. Each has its size in front of it. */
static char *room, *position;
static bool sealed;
static long left_until_failure = -1;

static bool fails(void) { return left_until_failure > 0 && --left_until_failure == 0; }

static void *allocate(void *opaque, size_t size) {
    (void)opaque;
    if (fails()) return NULL;
    if (sealed || !room) return malloc(size);
    size_t *header = (size_t *)(void *)position;
    position += (size + 2 * sizeof(size_t) - 1 + 8) & ~(size_t)15;
    if (position > room + ROOM) abort();
    *header = size;
    return header + 1;
}

static bool in_room(const void *block) { return room && (const char *)block >= room && (const char *)block < room + ROOM; }
static size_t usable_size(const void *block) {
    if (!block) return 0;
    return in_room(block) ? ((const size_t *)block)[-1] : malloc_usable_size((void *)(uintptr_t)block);
}

static void give(void *opaque, void *block) {
    (void)opaque;
    if (in_room(block) && sealed) abort(); /* a block of the image is never given back */
    if (!in_room(block)) free(block);
}

static void *allocate_zeros(void *opaque, size_t count, size_t size) {
    void *block = allocate(opaque, count * size);
    return block ? memset(block, 0, count * size) : NULL;
}

static void *reallocate(void *opaque, void *block, size_t size) {
    if (!block) return allocate(opaque, size);
    if (!in_room(block)) return fails() ? NULL : realloc(block, size);
    if (sealed) abort();
    size_t had = usable_size(block);
    void *larger = allocate(opaque, size);
    return larger ? memcpy(larger, block, had < size ? had : size) : NULL;
}

/* Calls `look` for the header of each block in the image, whether used or free. */
static void each_header(JSRuntime *runtime, void (*look)(JSMallocBlockHeader *)) {
    for (char *at = room; at < position;) {
        size_t size = *(size_t *)(void *)at;
        char *block = at + sizeof(size_t);
        at += (size + 2 * sizeof(size_t) - 1 + 8) & ~(size_t)15;
        if (block == (char *)runtime) continue;
        look((JSMallocBlockHeader *)(void *)block);
    }
}

static long blocks;
static void poison(JSMallocBlockHeader *header) { header->ref_count = POISON, blocks++; }
static void require_poison(JSMallocBlockHeader *header) {
    if (header->ref_count == POISON && !header->mark) return;
    fprintf(stderr, "a count of the image was written: %x\n", header->ref_count);
    abort();
}

/*
 * Checks that both lists of objects are intact, and that the list for cycle collection contains no object of the image.
 */
static void require_lists(JSContext *context) {
    struct list_head *start[] = {&JS_GetRuntime(context)->gc_obj_list, &JS_VALUE_GET_OBJ(context->global_obj)->header.link};
    for (int which = 0; which < 2; which++) {
        long members = 0;
        for (struct list_head *at = start[which]->next; at != start[which]; at = at->next, members++)
            if (at->next->prev != at || in_room(at) != which) abort();
        if (which && members < 10) abort();
    }
}

static JSValue compile(JSContext *context, const char *path) {
    static char text[1 << 20];
    FILE *file = fopen(path, "rb");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (!file || fclose(file)) abort();
    text[length] = 0;
    return JS_Eval(context, text, length, path, JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_STRICT | JS_EVAL_FLAG_COMPILE_ONLY);
}

static JSValue collect(JSContext *context, JSValueConst self, int count, JSValueConst *arguments) {
    (void)self, (void)count, (void)arguments;
    JS_RunGC(JS_GetRuntime(context));
    return JS_UNDEFINED;
}

static int say(JSContext *context, JSValue value) {
    bool failed = JS_IsException(value);
    if (failed) value = JS_GetException(context);
    const char *text = JS_ToCString(context, value);
    printf("%s%s\n", failed ? "throws " : "", text ? text : "(no words)");
    JS_FreeCString(context, text);
    JS_FreeValue(context, value);
    return failed;
}

int main(int count, char **arguments) {
    static const JSMallocFunctions memory = {allocate_zeros, allocate, give, reallocate, usable_size};
    if (count != 5) return 2;
    int rounds = atoi(arguments[3]);
    long fail = atol(arguments[4]);
    if (rounds > 0) {
        room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED) return 2;
        position = room;
        JS_BeginImage();
    }
    JSRuntime *runtime = JS_NewRuntime2(&memory, NULL);
    JSContext *context = JS_NewContext(runtime);
    JSValue global = JS_GetGlobalObject(context);
    JS_SetPropertyStr(context, global, "collect", JS_NewCFunction(context, collect, "collect", 0));
    JS_FreeValue(context, global);
    JSValue made = JS_EvalFunction(context, compile(context, arguments[1]));
    if (JS_IsException(made)) return say(context, made), 2;
    JS_FreeValue(context, made);
    JS_RunGC(runtime);
    if (room) {
        if (JS_SealImage(runtime)) abort();
        sealed = true;
        JS_SetImage(room, (size_t)(position - room));
        each_header(runtime, poison);
        if (blocks < 1000) abort(); /* the walk has found the blocks */
    }
    for (int round = 0; round < (rounds > 0 ? rounds : 2); round++) {
        JSValue used = compile(context, arguments[2]); /* the engine's parser does without no allocation */
        left_until_failure = fail > 0 ? fail : -1;
        JSValue said = JS_EvalFunction(context, used);
        bool happened = left_until_failure == 0;
        left_until_failure = -1;
        int failed = say(context, said);
        JSContext *in;
        while (JS_ExecutePendingJob(runtime, &in) > 0) continue;
        JS_RunGC(runtime);
        if (room) each_header(runtime, require_poison), require_lists(context);
        if (failed) return happened ? 9 : 1;
        printf("%zu blocks\n", runtime->malloc_state.malloc_count);
    }
    return 0;
}
