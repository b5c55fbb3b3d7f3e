/* Makes a heap image: the file of a bytecode on the command line, the image on stdout. */
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

/* Evaluates the bytecode and writes the image to stdout. Returns the process's status. */
static int make_image(void *argument) {
    const struct blob *code = argument;
    memory_begin(image_section + PAGE, ROOM);
    JS_BeginImage();
    JSRuntime *runtime = new_runtime();
    JSContext *context = runtime ? new_context(runtime) : NULL;
    if (!context) return 1;
    JSValue plugins = load(context, code->start, (size_t)(code->end - code->start));
    if (JS_IsException(plugins)) return report(context);
    JS_RunGC(runtime);
    if (JS_SealImage(runtime)) return report(context);
    *image = (struct image){.context = context, .plugins = plugins, .end = memory_end()};
    size_t length = ((size_t)(image->end - image_section) + PAGE - 1) & ~(PAGE - 1);
    if (fwrite(image_section, 1, length, stdout) != length || fflush(stdout)) return perror("write"), 1;
    return 0;
}

/*
 * The heap knows addresses of the stack and of the bytecode, which would make two builds differ: so both lie where they always do. A
 * process of its own, since clone(2) takes the stack that it shall run on.
 */
JSContext *run_maker(void) {
    char *heap = image_section + PAGE, *stack = heap + ROOM, *text = stack + STACK; /* the build leaves this room free */
    const char *path = program_arguments[0] ? program_arguments[1] : NULL;
    int own = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, status;
    if (mmap(heap, ROOM + STACK, PROT_READ | PROT_WRITE, own, -1, 0) != heap) return perror("mmap"), NULL;
    int fd = path ? open(path, O_RDONLY) : -1;
    off_t length = lseek(fd, 0, SEEK_END);
    if (length <= 0 || mmap(text, (size_t)length, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) != text)
        return perror("the file of the bytecode"), NULL;
    struct blob code = {(const uint8_t *)text, (const uint8_t *)text + length};
    if (clone(make_image, stack + STACK, SIGCHLD, &code) == -1 || wait(&status) == -1) return perror("clone"), NULL;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}
