/*
 * Makes a heap image: BYTECODE NAMES on the command line, the image on stdout. It is made twice. The first time, the rehearsal, shows which
 * blocks are free in the end, and which of the others calls use: those go to the image's beginning, close together. The kernel maps
 * a file's pages sixteen at a time, so that every page near one that is used counts as memory of the process.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image.h"

#define ROOM ((size_t)64 << 20)
#define STACK ((size_t)8 << 20)
#define BLOCKS ((size_t)1 << 20) /* more than there are */
#define NAMES 8192

struct making {
    struct blob bytecode, names;
    char *heap;
    size_t count;         /* of the blocks that were made in the rehearsal, 0 before it */
    struct place *places; /* in the rehearsal: what was made; after it: where each is to be */
    struct place *made;   /* what the second making has made */
};

/* The names of functions and properties that calls use, sorted; the blocks of the rehearsal, and where they are to be. */
struct layout {
    struct blob names[NAMES];
    size_t name_count, count;
    const struct place *blocks;
    char **where, *next;
};

/* Names that differ only in a number at their end are one: the bundler adds them. */
static size_t without_number(const char *name, size_t length) {
    while (length > 0 && name[length - 1] >= '0' && name[length - 1] <= '9') length--;
    return length;
}

static int compare(const void *one, const void *other) {
    const struct blob *a = one, *b = other;
    size_t left = (size_t)(a->end - a->start), right = (size_t)(b->end - b->start);
    int order = memcmp(a->start, b->start, left < right ? left : right);
    return order ? order : (left > right) - (left < right);
}

static bool is_used(void *opaque, const char *name, size_t length) {
    const struct layout *layout = opaque;
    const uint8_t *start = (const uint8_t *)name;
    struct blob key = {start, start + without_number(name, length)};
    return bsearch(&key, layout->names, layout->name_count, sizeof key, compare);
}

static struct layout *new_layout(struct blob names) {
    struct layout *layout = calloc(1, sizeof *layout);
    for (const uint8_t *at = names.start, *end; layout && at < names.end; at = end + 1) {
        end = memchr(at, '\n', (size_t)(names.end - at));
        if (!end) end = names.end;
        if (layout->name_count < NAMES) layout->names[layout->name_count++] = (struct blob){at, end};
    }
    if (layout) qsort(layout->names, layout->name_count, sizeof *layout->names, compare);
    return layout;
}

/* Gives a block the next place, unless it has one. */
static void put(struct layout *layout, size_t block) {
    if (layout->where[block]) return;
    layout->where[block] = layout->next + sizeof(size_t);
    layout->next += layout->blocks[block].size + sizeof(size_t);
}

static void put_used(void *opaque, const void *inside) {
    struct layout *layout = opaque;
    size_t low = 0, high = layout->count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (layout->blocks[middle].block <= (const char *)inside) low = middle;
        else high = middle;
    }
    put(layout, low);
}

/* Where each block of the rehearsal is to be: what calls use, then the others, and far from them what is freed. */
static bool lay_out(struct layout *layout, struct making *making, JSRuntime *runtime) {
    layout->count = making->count = memory_made();
    layout->blocks = making->places;
    layout->where = calloc(layout->count, sizeof *layout->where);
    layout->next = making->heap;
    if (!layout->where) return false;
    JS_EachUsed(runtime, is_used, put_used, layout);
    for (size_t block = 0; block < layout->count; block++)
        if (!layout->blocks[block].is_free) put(layout, block);
    layout->next = making->heap + ROOM;
    for (size_t block = 0; block < layout->count; block++) put(layout, block);
    for (size_t block = 0; block < layout->count; block++) making->places[block].block = layout->where[block];
    return true;
}

/* Whether the second making has made what the rehearsal has, and the end of what is in the image. */
static char *end_of_image(const struct making *making) {
    char *end = making->heap;
    if (memory_made() != making->count) return NULL;
    for (size_t block = 0; block < making->count; block++) {
        const struct place *planned = &making->places[block], *made = &making->made[block];
        if (made->block != planned->block || made->size != planned->size || made->is_free != planned->is_free) return NULL;
        if (!made->is_free && made->block + made->size > end) end = made->block + made->size;
    }
    return end;
}

/* Evaluates everything; writes the image to stdout unless it is the rehearsal. Returns the process's status. */
static int make_image(void *argument) {
    struct making *making = argument;
    struct layout *layout = new_layout(making->names);
    bool rehearsal = making->count == 0;
    if (!layout) return 1;
    if (rehearsal) memory_make(making->heap, making->places, NULL, 0);
    else memory_make(making->heap + ROOM, making->made, making->places, making->count);
    JS_BeginImage();
    JSRuntime *runtime = new_runtime();
    JSContext *context = runtime ? new_context(runtime) : NULL;
    if (!context) return 1;
    JSValue plugins = load(context, making->bytecode.start, (size_t)(making->bytecode.end - making->bytecode.start));
    if (JS_IsException(plugins)) return report(context);
    JS_RunGC(runtime);
    JS_SealImage(runtime);
    JS_SortAtoms(runtime, is_used, layout);
    if (rehearsal) return lay_out(layout, making, runtime) ? 0 : 1;
    char *end = end_of_image(making);
    if (!end) return fputs("The image was made in another way than in its rehearsal\n", stderr), 1;
    *image = (struct image){.context = context, .plugins = plugins, .end = end};
    size_t length = ((size_t)(end - image_section) + 4095) & ~(size_t)4095;
    if (fwrite(image_section, 1, length, stdout) != length || fflush(stdout)) return perror("write"), 1;
    return 0;
}

/* A file at an address, or at any when that is NULL. */
static bool map_file(const char *path, char *address, struct blob *blob) {
    int fd = path ? open(path, O_RDONLY) : -1;
    off_t length = lseek(fd, 0, SEEK_END);
    if (length <= 0) return false;
    char *text = mmap(address, (size_t)length, PROT_READ, MAP_PRIVATE | (address ? MAP_FIXED : 0), fd, 0);
    *blob = (struct blob){(const uint8_t *)text, (const uint8_t *)text + length};
    return text != MAP_FAILED;
}

/*
 * The heap knows addresses of the stack, which would make two builds differ: so both lie where they always do, and the bytecode,
 * too. Processes of their own, since clone(2) takes the stack that they shall run on.
 */
JSContext *run_maker(void) {
    char *heap = image_section + 4096, *stack = heap + 2 * ROOM, *text = stack + STACK; /* the build leaves this room free */
    char **paths = program_arguments[0] ? program_arguments + 1 : program_arguments;
    int own = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, shared = MAP_SHARED | MAP_ANONYMOUS, status = 0;
    size_t places = 2 * BLOCKS * sizeof(struct place);
    if (mmap(heap, 2 * ROOM + STACK, PROT_READ | PROT_WRITE, own, -1, 0) != heap) return perror("mmap"), NULL;
    struct making *making = mmap(NULL, sizeof *making + places, PROT_READ | PROT_WRITE, shared, -1, 0);
    if (making == MAP_FAILED) return perror("mmap"), NULL;
    *making = (struct making){.heap = heap, .places = (struct place *)(making + 1)};
    making->made = making->places + BLOCKS;
    if (!map_file(paths[0], text, &making->bytecode)) return perror("the file of the bytecode"), NULL;
    if (!map_file(paths[1], NULL, &making->names)) return perror("the file of the names"), NULL;
    for (int times = 0; times < 2 && status == 0; times++)
        if (clone(make_image, stack + STACK, SIGCHLD, making) == -1 || wait(&status) == -1) return perror("clone"), NULL;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}
