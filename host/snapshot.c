/*
 * Starting from a heap image: the heap of a process that has evaluated all plugins is a section of the executable, at an
 * address that never changes. The kernel maps it copy-on-write; nothing is read, parsed or evaluated.
 *
 * Two executables are linked. The first one's image is empty: it evaluates the bytecode of a file and writes its heap, which the
 * second one then has; all plugins have the first one in common. What the heap points to, code and tables, must lie at the same
 * addresses in both; the build compares.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
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

#define BLOCKS ((size_t)1 << 20) /* more than there are */

struct making {
    struct blob bytecode;
    char *heap;
    uint8_t *fates; /* of all blocks of the heap: seen in the rehearsal, used after it */
    bool rehearsed;
};

/* Evaluates everything; writes the image to stdout unless it is the rehearsal. Returns the process's status. */
static int make_image(void *argument) {
    struct making *making = argument;
    memory_use(making->heap, making->heap + ROOM);
    if (making->rehearsed) memory_set_aside(making->fates, making->heap + ROOM);
    JSRuntime *runtime = new_runtime();
    JSContext *context = runtime ? new_context(runtime) : NULL;
    if (!context) return 1;
    JSValue plugins = load(context, making->bytecode.start, (size_t)(making->bytecode.end - making->bytecode.start));
    if (JS_IsException(plugins)) return report(context);
    JS_RunGC(runtime);
    JS_SealImage(runtime);
    if (!making->rehearsed) return memory_fates(making->heap, making->fates), 0;
    if (!memory_is_apart(making->heap)) return fputs("The image was made in another way than in its rehearsal\n", stderr), 1;
    *image = (struct image){.context = context, .plugins = plugins, .end = memory_position()};
    size_t length = ((size_t)(image->end - image_section) + 4095) & ~(size_t)4095;
    if (fwrite(image_section, 1, length, stdout) != length || fflush(stdout)) return perror("write"), 1;
    return 0;
}

/*
 * The heap knows addresses of the stack, which would make two builds differ: so both lie where they always do, and the bytecode,
 * too. Processes of their own, since clone(2) takes the stack that they shall run on. Returns only when it could not.
 */
static JSContext *run_maker(void) {
    char *heap = image_section + 4096, *stack = heap + 2 * ROOM, *text = stack + STACK; /* the build leaves this room free */
    const char *path = program_arguments[0] ? program_arguments[1] : NULL;
    int fd = path ? open(path, O_RDONLY) : -1, own = MAP_PRIVATE | MAP_FIXED, shared = MAP_SHARED | MAP_ANONYMOUS, status = 0;
    off_t length = lseek(fd, 0, SEEK_END);
    if (length <= 0) return perror("the file of the bytecode"), NULL;
    if (mmap(heap, 2 * ROOM + STACK, PROT_READ | PROT_WRITE, own | MAP_ANONYMOUS, -1, 0) != heap) return perror("mmap"), NULL;
    if (mmap(text, (size_t)length, PROT_READ, own, fd, 0) != text) return perror("mmap"), NULL;
    struct making making = {.bytecode = {(const uint8_t *)text, (const uint8_t *)text + length}, .heap = heap};
    making.fates = mmap(NULL, BLOCKS, PROT_READ | PROT_WRITE, shared, -1, 0);
    if (making.fates == MAP_FAILED) return perror("mmap"), NULL;
    for (int times = 0; times < 2 && status == 0; times++, making.rehearsed = true)
        if (clone(make_image, stack + STACK, SIGCHLD, &making) == -1 || wait(&status) == -1) return perror("clone"), NULL;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

JSContext *start(JSValue *plugins) {
    if (!image->context) return run_maker();
    JS_SetImage(image, (size_t)(image->end - (char *)image));
    *plugins = image->plugins;
    return image->context;
}
