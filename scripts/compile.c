/* compile IN.js OUT [NAME] compiles a script to bytecode at build time. NAME is the script's name in stack traces. */
#include <stdio.h>
#include <stdlib.h>

#include "quickjs.h"

static int fail(JSContext *context) {
    JSValue error = JS_GetException(context);
    fprintf(stderr, "%s\n%s\n", JS_ToCString(context, error), JS_ToCString(context, JS_GetPropertyStr(context, error, "stack")));
    return 1;
}

int main(int count, char **arguments) {
    if (count < 3) return fprintf(stderr, "compile IN.js OUT [NAME]\n"), 2;
    FILE *in = fopen(arguments[1], "rb");
    if (!in || fseek(in, 0, SEEK_END)) return perror(arguments[1]), 1;
    long length = ftell(in);
    rewind(in);
    char *text = length < 0 ? NULL : calloc((size_t)length + 1, 1);
    if (!text || fread(text, 1, (size_t)length, in) != (size_t)length) return perror(arguments[1]), 1;
    JSContext *context = JS_NewContext(JS_NewRuntime());
    const char *name = count > 3 ? arguments[3] : arguments[1];
    JSValue script = JS_Eval(context, text, (size_t)length, name, JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_STRICT | JS_EVAL_FLAG_COMPILE_ONLY);
    if (JS_IsException(script)) return fail(context);
    size_t size;
    uint8_t *bytecode = JS_WriteObject(context, &size, script, JS_WRITE_OBJ_BYTECODE | JS_WRITE_OBJ_STRIP_SOURCE);
    if (!bytecode) return fail(context);
    FILE *out = fopen(arguments[2], "wb");
    if (!out || fwrite(bytecode, 1, size, out) != size || fclose(out)) return perror(arguments[2]), 1;
    return 0;
}
