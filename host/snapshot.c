/*
 * Starting from a heap image: the heap of a process that has evaluated all plugins is a section of the executable, at an
 * address that never changes. The kernel maps it copy-on-write; nothing is read, parsed or evaluated.
 *
 * Two executables are linked. The first one's image is empty: it evaluates the bytecode of a file and writes its heap (maker.c), which
 * the second one then has; all plugins have the first one in common. What the heap points to, code and tables, must lie at the same
 * addresses in both; the build compares.
 */
#include <sys/time.h>

#include "image.h"

/* The engine seeds with the time of day, and two builds would differ; the seed is of the image, known to everybody. */
int __real_gettimeofday(struct timeval *now, void *zone);
int __wrap_gettimeofday(struct timeval *now, void *zone) {
    if (image->context) return __real_gettimeofday(now, zone);
    *now = (struct timeval){.tv_sec = 1};
    return 0;
}

JSContext *start(JSValue *plugins) {
    if (!image->context) return run_maker();
    JS_SetImage(image, (size_t)(image->end - (char *)image));
    *plugins = image->plugins;
    return image->context;
}
