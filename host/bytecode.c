/* Starting from bytecode: the bundle is read and evaluated in each process. No fixed addresses. */
#include <elf.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "host.h"

extern const char __ehdr_start[]; /* the file's first byte, by the linker */

/* Tables of addresses, which have been relocated by now, can be read only from here on (RELRO): musl's static start leaves it undone. */
static bool protect_tables(void) {
    const Elf64_Ehdr *file = (const void *)__ehdr_start;
    const Elf64_Phdr *segments = (const void *)(__ehdr_start + file->e_phoff);
    uintptr_t base = (uintptr_t)__ehdr_start, page = getauxval(AT_PAGESZ);
    for (int i = 0; i < file->e_phnum; i++) {
        if (segments[i].p_type != PT_GNU_RELRO) continue;
        uintptr_t start = (base + segments[i].p_vaddr) & -page, end = (base + segments[i].p_vaddr + segments[i].p_memsz) & -page;
        if (mprotect((void *)start, end - start, PROT_READ)) return false;
    }
    return true;
}

JSContext *start(JSValue *plugins) {
    if (!protect_tables()) return NULL;
    JSRuntime *runtime = new_runtime();
    JSContext *context = runtime ? new_context(runtime) : NULL;
    if (!context) return NULL;
    *plugins = load(context, bytecode.start, (size_t)(bytecode.end - bytecode.start));
    return context;
}
