/*
 * Memory for a process that lives for milliseconds: a block of one of 8 sizes for each power of two is taken from the list
 * of freed ones, else from the end of a chunk. Nothing goes back to the kernel. With musl's allocator an ADD takes a sixth
 * more CPU time; one that never reuses anything touches twice the pages.
 *
 * The size of a block lies in the 8 bytes before it. Blocks lie at multiples of 16, those of an image at multiples of 8.
 *
 * Without memory the process ends, with an error object: the engine has places where it goes on with half an object instead, and
 * a message to the kernel with another index in it was one. What had been made goes with the next DEL, as after a kill.
 */
#include <string.h>
#include <sys/mman.h>

#include "host.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* <linux/mman.h>, newer than musl's headers */
#endif

#define CHUNK ((size_t)1 << 20)
#define HEADER sizeof(size_t)
#define MOST ((size_t)1 << 30) /* more than any call needs */

struct freed {
    struct freed *next;
};

#define AHEAD ((size_t)32 << 10) /* so much is asked of the kernel at a time: one fault for 8 pages */

static char *position, *limit, *populated;
static size_t mapped;
static struct freed *lists[8 * 64];

#ifndef FAILS /* a build for tests has allocations that fail */
#define FAILS() false
#endif

/* While an image is made nothing is handed out twice, and each block goes to the place that is known for it, or to the next one. */
static char *making;
static struct place *places;
static const struct place *known;
static size_t made, known_count;
#define FREED ((size_t)1) /* in the header of a block that was given back */

static void grow(size_t size) {
    size_t length = size > CHUNK - HEADER ? (size + HEADER + 4095) & ~(size_t)4095 : CHUNK;
    if (length > MOST - mapped) out_of_memory();
    char *chunk = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk == MAP_FAILED) out_of_memory();
    if (chunk != limit) position = chunk + HEADER; /* the rest of the chunk before is lost */
    limit = chunk + length;
    mapped += length;
    populated = chunk;
}

/* Before the kernel knows this (Linux 5.14), each page is a fault of its own, as it is where memory is short. */
static void populate(char *up_to) {
    size_t length = (size_t)(up_to - populated + (ptrdiff_t)AHEAD - 1) & ~(AHEAD - 1);
    if (length > (size_t)(limit - populated)) length = (size_t)(limit - populated);
    madvise(populated, length, MADV_POPULATE_WRITE);
    populated += length;
}

/* A block with its header: `*size` rounded up, and which list such blocks are in once they are freed. */
static size_t list_of(size_t *size) {
    size_t whole = *size + HEADER;
    if (whole <= 128) {
        *size = (whole + 15) & ~(size_t)15;
        return *size / 16;
    }
    unsigned half = 63u - (unsigned)__builtin_clzl(whole - 1); /* 2^half < whole <= 2^(half + 1) */
    size_t unit = (size_t)1 << (half - 3);
    *size = (whole + unit - 1) & ~(unit - 1);
    return 8 * (half - 6) + (*size >> (half - 3)) - 8;
}

static size_t *header_of(const void *block) { return (size_t *)(uintptr_t)block - 1; }

static void *make(size_t size) {
    size = (size + 7) & ~(size_t)7;
    char *block = made < known_count ? known[made].block : making + HEADER;
    if (made >= known_count) making = block + size;
    places[made++] = (struct place){.block = block, .size = size};
    *header_of(block) = size;
    return block;
}

static void *take(size_t size) {
    if (making) return make(size);
    if (size > MOST || FAILS()) out_of_memory();
    size_t list = list_of(&size);
    struct freed *freed = lists[list];
    if (freed) {
        lists[list] = freed->next;
        return freed;
    }
    if ((size_t)(limit - position) < size) grow(size);
    void *block = position;
    position += size;
    if (populated && position > populated) populate(position);
    *header_of(block) = size - HEADER;
    return block;
}

static size_t usable_size(const void *block) { return block ? *header_of(block) : 0; }

static void give(void *, void *block) {
    if (!block) return;
    if (making) {
        *header_of(block) |= FREED;
        return;
    }
    size_t size = usable_size(block), list = list_of(&size);
    struct freed *freed = block;
    freed->next = lists[list];
    lists[list] = freed;
}

void memory_make(char *start, struct place *record, const struct place *where, size_t count) {
    making = start;
    places = record;
    known = where;
    known_count = count;
}

size_t memory_made(void) {
    for (size_t at = 0; at < made; at++) places[at].is_free = *header_of(places[at].block) & FREED;
    return made;
}

static void *allocate(void *, size_t size) { return take(size); }

static void *allocate_zeros(void *, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    void *block = take(bytes);
    return memset(block, 0, bytes);
}

static void *reallocate(void *opaque, void *block, size_t size) {
    if (!block) return take(size);
    if (size == 0) {
        give(opaque, block);
        return NULL;
    }
    size_t had = usable_size(block);
    if (size <= had) return block;
    void *larger = take(size);
    memcpy(larger, block, had);
    give(opaque, block);
    return larger;
}

const JSMallocFunctions memory_functions = {allocate_zeros, allocate, give, reallocate, usable_size};
