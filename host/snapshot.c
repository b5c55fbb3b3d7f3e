/*
 * Starting from a heap image: the heap of a process that has evaluated all plugins is a section of the executable, at an
 * address that never changes. The kernel maps it copy-on-write; nothing is read, parsed or evaluated.
 *
 * The executable is linked twice. The first one's image is empty: it evaluates the bundle and writes its heap, which the
 * second one then has. What the heap points to, code and tables, must lie at the same addresses in both; the build compares.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

#define ROOM ((size_t)64 << 20)
#define STACK ((size_t)8 << 20)

struct image {
    JSContext *context; /* NULL: there is none yet */
    JSValue plugins;
    char *end;
};
extern char image_section[]; /* linked in by the build */
static struct image *const image = (struct image *)(void *)image_section;

/* The engine seeds with the time of day, and two builds would differ; the seed is of the image, known to everybody. */
int __real_gettimeofday(struct timeval *now, void *zone);
int __wrap_gettimeofday(struct timeval *now, void *zone) {
    if (image->context) return __real_gettimeofday(now, zone);
    *now = (struct timeval){.tv_sec = 1};
    return 0;
}

/* Evaluates everything and writes the image to stdout. Returns the process's status. */
static int make_image(void *heap) {
    memory_use(heap, (char *)heap + ROOM);
    JSRuntime *runtime = new_runtime();
    JSContext *context = runtime ? new_context(runtime) : NULL;
    if (!context) return 1;
    JSValue plugins = load(context, bundles->start, (size_t)(bundles->end - bundles->start));
    if (JS_IsException(plugins)) return report(context);
    JS_RunGC(runtime);
    JS_SealImage(runtime);
    *image = (struct image){.context = context, .plugins = plugins, .end = memory_position()};
    size_t length = ((size_t)(image->end - image_section) + 4095) & ~(size_t)4095;
    if (fwrite(image_section, 1, length, stdout) != length || fflush(stdout)) return perror("write"), 1;
    return 0;
}

/*
 * The heap knows addresses of the stack, which would make two builds differ: so both lie where they always do. A process of
 * its own, since clone(2) takes the stack that it shall run on. Returns only when it could not.
 */
static JSContext *run_maker(void) {
    char *heap = image_section + 4096, *stack = heap + ROOM;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, status = 0; /* the build leaves this room free */
    if (mmap(heap, ROOM + STACK, PROT_READ | PROT_WRITE, flags, -1, 0) != heap) return perror("mmap"), NULL;
    if (clone(make_image, stack + STACK, SIGCHLD, heap) == -1 || wait(&status) == -1) return perror("clone"), NULL;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

JSContext *start(const char *name, JSValue *plugin) {
    if (!image->context) return run_maker();
    JS_SetImage(image, (size_t)(image->end - (char *)image));
    *plugin = JS_GetPropertyStr(image->context, image->plugins, name);
    if (JS_IsUndefined(*plugin)) *plugin = JS_GetPropertyStr(image->context, image->plugins, "unknown");
    return image->context;
}
