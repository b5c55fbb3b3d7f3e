/* The heap image, which snapshot.c starts from and maker.c makes. */
#pragma once
#include "host.h"

struct image {
    JSContext *context; /* NULL: there is none yet */
    JSValue plugins;
    char *end;
};
extern char image_section[]; /* linked in by the build */
static struct image *const image = (struct image *)(void *)image_section;

/* Makes an image and ends the process. Returns only when it could not. */
JSContext *run_maker(void);
