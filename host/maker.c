/*
 * Makes a heap image: the file of a bytecode on the command line, the image on stdout. It is made twice. The first time, the rehearsal, shows
 * which blocks are free in the end; the second time they lie beside the image.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image.h"

#define PAGE ((size_t)4096)
#define ROOM ((size_t)64 << 20)
#define STACK ((size_t)8 << 20)

/* What the processes that make an image have in common. */
struct work {
    struct blob code;
    struct making making;
};

/* Evaluates the bytecode; writes the image to stdout unless it is the rehearsal. Returns the process's status. */
static int make_image(void *argument) {
    struct work *work = argument;
    bool is_rehearsal = work->making.count == 0;
    char *heap = image_section + PAGE, *beside = heap + ROOM;
    work->making.rooms[0] = (struct room){heap, heap, beside};
    work->making.rooms[1] = (struct room){beside, beside, beside + ROOM};
    memory_begin(&work->making);
    JS_BeginImage();
    JSRuntime *runtime = new_runtime();
    JSContext *context = runtime ? new_context(runtime) : NULL;
    if (!context) return 1;
    JSValue plugins = load(context, work->code.start, (size_t)(work->code.end - work->code.start));
    if (JS_IsException(plugins)) return report(context);
    JS_RunGC(runtime);
    if (JS_SealImage(runtime)) return report(context);
    bool is_as_rehearsed = memory_end();
    if (is_rehearsal) return 0;
    if (!is_as_rehearsed) return fputs("The image was made in another way than in its rehearsal\n", stderr), 1;
    *image = (struct image){.context = context, .plugins = plugins, .end = work->making.rooms[0].position};
    size_t length = ((size_t)(image->end - image_section) + PAGE - 1) & ~(PAGE - 1);
    if (fwrite(image_section, 1, length, stdout) != length || fflush(stdout)) return perror("write"), 1;
    return 0;
}

/*
 * The heap knows addresses of the stack and of the bytecode, which would make two builds differ: so both lie where they always do. Processes
 * of their own, since clone(2) takes the stack that they shall run on.
 */
JSContext *run_maker(void) {
    char *heap = image_section + PAGE, *stack = heap + 2 * ROOM, *text = stack + STACK; /* the build leaves this room free */
    const char *path = program_arguments[0] ? program_arguments[1] : NULL;
    int own = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, shared = MAP_SHARED | MAP_ANONYMOUS, status = 0;
    if (mmap(heap, 2 * ROOM + STACK, PROT_READ | PROT_WRITE, own, -1, 0) != heap) return perror("mmap"), NULL;
    int fd = path ? open(path, O_RDONLY) : -1;
    off_t length = lseek(fd, 0, SEEK_END);
    if (length <= 0 || mmap(text, (size_t)length, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) != text)
        return perror("the file of the bytecode"), NULL;
    struct work *work = mmap(NULL, sizeof *work, PROT_READ | PROT_WRITE, shared, -1, 0);
    if (work == MAP_FAILED) return perror("mmap"), NULL;
    work->code = (struct blob){(const uint8_t *)text, (const uint8_t *)text + length};
    for (int times = 0; times < 2 && status == 0; times++)
        if (clone(make_image, stack + STACK, SIGCHLD, work) == -1 || wait(&status) == -1) return perror("clone"), NULL;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}
