/*
 * Memory for a process that lives for milliseconds: a block of some size (multiples of 8, beyond 2 KB 8 sizes for each power of two) is
 * taken from the list of freed ones, else from the end of a chunk. Nothing goes back to the kernel. With musl's allocator an ADD takes a sixth
 * more CPU time; one that never reuses anything touches twice the pages.
 *
 * The size of a block lies in the 8 bytes before it. Blocks lie at multiples of 8.
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
#define SMALL_BITS 11
#define SMALL ((size_t)1 << SMALL_BITS)

struct freed {
    struct freed *next;
};

#define AHEAD ((size_t)32 << 10) /* so much is asked of the kernel at a time: one fault for 8 pages */

static char *position, *limit, *populated;
static size_t mapped;
static struct freed *lists[SMALL / 8 + 8 * (31 - SMALL_BITS) + 1];

/* While an image is made nothing is handed out twice: blocks lie one after the other, in the image or beside it. */
static struct making *making;
static size_t made;
#define FREED ((size_t)1) /* in the header of a block that was given back */

#ifndef FAILS /* a build for tests has allocations that fail */
#define FAILS() false
#endif

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
    size_t whole = ((*size > sizeof(struct freed) ? *size : sizeof(struct freed)) + HEADER + 7) & ~(size_t)7;
    if (whole <= SMALL) {
        *size = whole;
        return whole / 8;
    }
    unsigned half = 63u - (unsigned)__builtin_clzl(whole - 1); /* 2^half < whole <= 2^(half + 1) */
    size_t unit = (size_t)1 << (half - 3);
    *size = (whole + unit - 1) & ~(unit - 1);
    return SMALL / 8 + 8 * (half - SMALL_BITS) + (*size >> (half - 3)) - 8;
}

static size_t *header_of(const void *block) { return (size_t *)(uintptr_t)block - 1; }

static void *make(size_t size) {
    if (made == MOST_BLOCKS) out_of_memory();
    struct room *room = &making->rooms[making->is_free[made++]];
    size = (size + 7) & ~(size_t)7;
    if ((size_t)(room->limit - room->position) < size + HEADER) out_of_memory();
    void *block = room->position + HEADER;
    room->position += size + HEADER;
    *header_of(block) = size;
    return block;
}

static void *take(size_t size) {
    if (size > MOST || FAILS()) out_of_memory();
    if (making) return make(size);
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

void memory_begin(struct making *of) { making = of; }

bool memory_end(void) {
    const char *at[] = {making->rooms[0].start, making->rooms[1].start};
    bool is_as_known = made == making->count;
    for (size_t number = 0; number < made; number++) {
        bool *is_free = &making->is_free[number];
        const char *block = at[*is_free] + HEADER;
        size_t header = *header_of(block);
        at[*is_free] = block + (header & ~FREED);
        if (*is_free != (header & FREED)) is_as_known = false;
        *is_free = header & FREED;
    }
    making->count = made;
    return is_as_known;
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
