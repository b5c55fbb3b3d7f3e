/*
 * Replaces host/memory.c in the build with sanitizers: malloc(3) allocates each block, so that AddressSanitizer watches
 * it. It also contains the options of the sanitizers, because plugins run with few environment variables. The build
 * defines REPORTS and SUPPRESSIONS.
 */
#include <malloc.h>
#include <stdlib.h>

#include "host.h"

/* Memory that is never freed is no error, because the process ends after milliseconds. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "abort_on_error=1:detect_leaks=0:detect_stack_use_after_return=0:allocator_may_return_null=1:log_path=" REPORTS;
}

const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void) {
    return "halt_on_error=1:abort_on_error=1:print_stacktrace=1:log_path=" REPORTS ":suppressions=" SUPPRESSIONS;
}

static void *allocate(void *, size_t size) { return malloc(size); }
static void *allocate_zeros(void *, size_t count, size_t size) { return calloc(count, size); }
static void give(void *, void *block) { free(block); }
static size_t usable_size(const void *block) { return malloc_usable_size((void *)(uintptr_t)block); }

static void *reallocate(void *, void *block, size_t size) {
    if (size > 0) return realloc(block, size);
    free(block);
    return NULL;
}

const JSMallocFunctions memory_functions = {allocate_zeros, allocate, give, reallocate, usable_size};
