/*
 * Starting from a heap image: the heap of a process that has evaluated all plugins is a section of the executable, at an
 * address that never changes. The kernel maps it copy-on-write; nothing is read, parsed or evaluated.
 *
 * The executable is linked twice. The first one's image is empty: it evaluates the bundle and writes its heap, which the
 * second one then has. Whatever the heap points to (code, tables) must lie at the same addresses in both; the build compares.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "host.h"

#define ROOM ((size_t)64 << 20)

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

/* Functions of the language's own objects are made when they are first looked at: now, not in every process. */
static void make_lazy(JSContext *context, JSValueConst object, int depth) {
    JSPropertyEnum *names;
    uint32_t count;
    if (depth == 0 || !JS_IsObject(object)) return;
    if (JS_GetOwnPropertyNames(context, &names, &count, object, JS_GPN_STRING_MASK | JS_GPN_SYMBOL_MASK)) return;
    for (uint32_t i = 0; i < count; i++) {
        JSPropertyDescriptor property;
        int found = JS_GetOwnProperty(context, &property, object, names[i].atom);
        if (found < 0) JS_FreeValue(context, JS_GetException(context));
        if (found <= 0) continue;
        make_lazy(context, property.value, depth - 1);
        JS_FreeValue(context, property.value);
        JS_FreeValue(context, property.getter);
        JS_FreeValue(context, property.setter);
    }
    JS_FreePropertyEnum(context, names, count);
}

/* Evaluates everything, writes the image to stdout and ends; returns NULL when it could not. */
static JSContext *make_image(void) {
    char *heap = image_section + 4096;
    if (mmap(heap, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != heap) return perror("mmap"), NULL;
    memory_use(heap, heap + ROOM);
    JSRuntime *runtime = new_runtime();
    JSContext *context = runtime ? new_context(runtime) : NULL;
    if (!context) return NULL;
    JSValue plugins = load(context, bundles->start, (size_t)(bundles->end - bundles->start));
    if (JS_IsException(plugins)) return report(context), NULL;
    JSValue global = JS_GetGlobalObject(context);
    make_lazy(context, global, 4);
    JS_FreeValue(context, global);
    JS_RunGC(runtime);
    *image = (struct image){.context = context, .plugins = plugins, .end = memory_position()};
    size_t length = ((size_t)(image->end - image_section) + 4095) & ~(size_t)4095;
    if (fwrite(image_section, 1, length, stdout) != length || fflush(stdout)) return perror("write"), NULL;
    _exit(0);
}

JSContext *start(const char *name, JSValue *plugin) {
    if (!image->context) return make_image();
    *plugin = JS_GetPropertyStr(image->context, image->plugins, name);
    if (JS_IsUndefined(*plugin)) *plugin = JS_GetPropertyStr(image->context, image->plugins, "unknown");
    return image->context;
}
