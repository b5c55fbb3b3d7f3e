/*
 * The system interface of TypeScript: `globalThis.host`, an object of functions, described in pkg/engine/engine.ts.
 * System calls are a table; the kernel's answer is handed on as it is, the negative number of an error included. No
 * address ever reaches TypeScript, and no call gets a buffer longer than the array that it was given.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host.h"

extern char **environ;

#define ARGUMENTS_MAX 6
#define TEXTS_MAX 2

/*
 * A system call: what it is called in TypeScript, its arguments, its number.
 *
 *   i      an integer of 32 bits, signed or not        @      AT_FDCWD, not given by the caller
 *   l      an integer of up to 53 bits                 0      0, likewise
 *   s      a text without NUL                          R      AT_REMOVEDIR, likewise
 *   b      an array and, as the argument after it, its length in bytes
 *   [N]    an array of at least N bytes
 *   n      the length of the [N] before, where the kernel finds how much it may write there; not given by the caller
 *
 * Where x86-64 has a call of its own and arm64 only the one with a directory, each uses what it has.
 */
struct call {
    const char *name, *arguments;
    int number;
};

#define CALL(name, arguments) {#name, arguments, SYS_##name}
static const struct call calls[] = {
    /* descriptors */
    {"open", "@sii", SYS_openat}, CALL(close, "i"), CALL(read, "ib"), CALL(write, "ib"), CALL(fsync, "i"), CALL(flock, "ii"),
    {"pread", "ibl", SYS_pread64}, {"pwrite", "ibl", SYS_pwrite64}, CALL(ftruncate, "il"), CALL(fcntl, "iil"), CALL(ioctl, "iil"),
    {"ioctlIfreq", "ii[40]", SYS_ioctl}, {"ioctlWinsize", "ii[8]", SYS_ioctl}, CALL(fsetxattr, "isbi"),
    /* names of files */
    CALL(statx, "isii[256]"), CALL(statfs, "s[120]"), CALL(getdents64, "ib"), CALL(linkat, "@s@s0"), CALL(readlinkat, "@sb"),
    CALL(mkdirat, "@si"), CALL(utimensat, "@s[32]i"), CALL(inotify_init1, "i"), CALL(inotify_add_watch, "isi"),
    CALL(fchmodat, "@si"), CALL(lgetxattr, "ssb"),
#ifdef SYS_rename
    CALL(rename, "ss"), CALL(unlink, "s"), CALL(rmdir, "s"),
#else
    {"rename", "@s@s0", SYS_renameat2}, {"unlink", "@s0", SYS_unlinkat}, {"rmdir", "@sR", SYS_unlinkat},
#endif
    /* sockets and namespaces */
    CALL(socket, "iii"), CALL(bind, "ib"), CALL(setsockopt, "iiib"), CALL(sendto, "ibi00"), CALL(recvfrom, "ibi[12]n"),
    CALL(socketpair, "iii[8]"), CALL(setns, "ii"), CALL(listen, "ii"), CALL(accept4, "i00i"), CALL(connect, "ib"),
    CALL(getsockopt, "iii[4]n"), CALL(unshare, "i"),
    /* processes, and chance */
    CALL(pipe2, "[8]i"), CALL(pidfd_open, "ii"), CALL(wait4, "i[4]i0"), CALL(kill, "ii"), CALL(getrandom, "bi"),
    CALL(rt_sigprocmask, "i[8]0i"), CALL(signalfd4, "i[8]ii"), CALL(prlimit64, "ii[16]0"),
    /* clocks */
    CALL(clock_gettime, "i[16]"), CALL(timerfd_create, "ii"), CALL(timerfd_settime, "ii[32]0"),
};
#define CALLS (int)(sizeof calls / sizeof *calls)

/* An integer between the bounds, given as a number. */
static bool get_integer(JSContext *context, JSValueConst value, int64_t least, int64_t most, int64_t *integer) {
    double number;
    if (!JS_IsNumber(value)) {
        JS_ThrowTypeError(context, "expected an integer");
        return false;
    }
    if (JS_ToFloat64(context, &number, value)) return false;
    if (number >= (double)least && number <= (double)most && (double)(int64_t)number == number) {
        *integer = (int64_t)number;
        return true;
    }
    JS_ThrowRangeError(context, "expected an integer from %lld to %lld", (long long)least, (long long)most);
    return false;
}

/* The bytes of a typed array. The array owns them: no JavaScript may run while they are in use. */
static bool get_bytes(JSContext *context, JSValueConst value, uint8_t **bytes, size_t *length) {
    size_t offset, size;
    if (JS_GetTypedArrayType(value) < 0) {
        JS_ThrowTypeError(context, "expected a typed array");
        return false;
    }
    JSValue buffer = JS_GetTypedArrayBuffer(context, value, &offset, length, NULL);
    if (JS_IsException(buffer)) return false;
    uint8_t *start = JS_GetArrayBuffer(context, &size, buffer);
    JS_FreeValue(context, buffer);
    if (!start && JS_HasException(context)) return false;
    if (offset > size || *length > size - offset) {
        JS_ThrowRangeError(context, "expected an array inside of its buffer"); /* which has shrunk */
        return false;
    }
    *bytes = start ? start + offset : NULL;
    return true;
}

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD in UTF-8 */

/* Whether the three bytes are a lone surrogate, as the engine writes one. */
static bool is_surrogate(const char *at) { return (uint8_t)at[0] == 0xed && (uint8_t)at[1] >= 0xa0; }

/* A text with U+FFFD for each lone surrogate, as everywhere in UTF-8. */
static JSValue replace_surrogates(JSContext *context, const char *text, size_t length) {
    char *copy = js_malloc(context, length);
    if (!copy) return JS_EXCEPTION;
    memcpy(copy, text, length);
    for (size_t i = 0; i + 2 < length; i++)
        if (is_surrogate(copy + i)) memcpy(copy + i, REPLACEMENT, 3);
    JSValue replaced = JS_NewStringLen(context, copy, length);
    js_free(context, copy);
    return replaced;
}

/* A text as UTF-8, to be freed with JS_FreeCString. NULL with an exception. */
static const char *get_text(JSContext *context, JSValueConst value, size_t *length) {
    if (!JS_IsString(value)) {
        JS_ThrowTypeError(context, "expected a text");
        return NULL;
    }
    const char *text = JS_ToCStringLen(context, length, value);
    for (size_t i = 0; text && i + 2 < *length; i++) {
        if (!is_surrogate(text + i)) continue;
        JSValue replaced = replace_surrogates(context, text, *length);
        JS_FreeCString(context, text);
        text = JS_IsException(replaced) ? NULL : JS_ToCStringLen(context, length, replaced);
        JS_FreeValue(context, replaced);
        return text;
    }
    return text;
}

bool answered;

struct arguments {
    long values[ARGUMENTS_MAX];
    int count;
};

static void add(struct arguments *arguments, long value) {
    assert(arguments->count < ARGUMENTS_MAX);
    arguments->values[arguments->count++] = value;
}

static JSValue system_call(JSContext *context, JSValueConst this_value, int count, JSValueConst *values, int magic) {
    (void)this_value;
    const struct call *call = &calls[magic];
    struct arguments arguments = {0};
    const char *texts[TEXTS_MAX];
    long answer = 0;
    size_t length;
    socklen_t room = 0;
    int given = 0, text_count = 0;
    bool complete = true;
    for (const char *at = call->arguments; *at && complete; at++) {
        int64_t integer = 0;
        uint8_t *bytes;
        if (*at == '@' || *at == '0' || *at == 'R') {
            add(&arguments, *at == '@' ? AT_FDCWD : *at == 'R' ? AT_REMOVEDIR : 0);
            continue;
        }
        if (*at == 'n') {
            add(&arguments, (long)&room);
            continue;
        }
        JSValueConst value = given < count ? values[given] : JS_UNDEFINED;
        given++;
        switch (*at) {
        case 'i':
            complete = get_integer(context, value, INT32_MIN, UINT32_MAX, &integer);
            add(&arguments, (int32_t)integer);
            break;
        case 'l':
            complete = get_integer(context, value, -(1LL << 53), 1LL << 53, &integer);
            add(&arguments, integer);
            break;
        case 's': {
            const char *text = get_text(context, value, &length);
            complete = text != NULL;
            if (!complete) break;
            assert(text_count < TEXTS_MAX);
            texts[text_count++] = text;
            if (strlen(text) != length) answer = -EINVAL; /* the kernel would see the beginning only */
            add(&arguments, (long)text);
            break;
        }
        case 'b':
            complete = get_bytes(context, value, &bytes, &length);
            if (!complete) break;
            add(&arguments, (long)bytes);
            add(&arguments, (long)length);
            break;
        case '[': {
            size_t least = strtoul(at + 1, NULL, 10);
            complete = get_bytes(context, value, &bytes, &length);
            if (complete && length < least) {
                JS_ThrowRangeError(context, "expected an array of %zu bytes", least);
                complete = false;
            }
            if (complete) add(&arguments, (long)bytes);
            room = (socklen_t)least;
            at = strchr(at, ']');
            assert(at);
            break;
        }
        }
    }
    if (complete && answer == 0) {
        const long *a = arguments.values;
        answer = syscall(call->number, a[0], a[1], a[2], a[3], a[4], a[5]);
        if (answer == -1) answer = -errno;
        if (call->number == SYS_write && a[0] == STDOUT_FILENO && answer > 0) answered = true;
    }
    while (text_count > 0) JS_FreeCString(context, texts[--text_count]);
    return complete ? JS_NewInt64(context, answer) : JS_EXCEPTION;
}

#define UNUSED __attribute__((unused))
/* A function that TypeScript calls; values that it does not give are undefined. */
#define FUNCTION(name) \
    static JSValue name(JSContext *context, UNUSED JSValueConst this_value, UNUSED int count, UNUSED JSValueConst *values)

/* poll(requests: struct pollfd[], timeout ms) */
FUNCTION(host_poll) {
    uint8_t *bytes;
    size_t length;
    int64_t timeout;
    if (!get_bytes(context, values[0], &bytes, &length)) return JS_EXCEPTION;
    if (!get_integer(context, values[1], -1, INT32_MAX, &timeout)) return JS_EXCEPTION;
    int ready = poll((struct pollfd *)(void *)bytes, length / sizeof(struct pollfd), (int)timeout);
    return JS_NewInt32(context, ready == -1 ? -errno : ready);
}

/* sendDescriptors(socket, descriptors: Int32Array): a message of SCM_RIGHTS and nothing else, unix(7) */
FUNCTION(send_descriptors) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {0};
    uint8_t *bytes;
    size_t length;
    int64_t socket;
    if (!get_integer(context, values[0], INT32_MIN, UINT32_MAX, &socket)) return JS_EXCEPTION;
    if (!get_bytes(context, values[1], &bytes, &length)) return JS_EXCEPTION;
    if (length > 8 * sizeof(int)) return JS_ThrowRangeError(context, "expected 8 descriptors at most");
    struct msghdr message = {.msg_control = control};
    message.msg_controllen = (typeof(message.msg_controllen))CMSG_SPACE(length); /* C libraries differ in the type */
    struct cmsghdr *header = (struct cmsghdr *)(void *)control;
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = (typeof(header->cmsg_len))CMSG_LEN(length);
    if (length > 0) memcpy(CMSG_DATA(header), bytes, length);
    ssize_t sent = sendmsg((int)socket, &message, 0);
    return JS_NewInt64(context, sent == -1 ? -errno : sent);
}

#define FILTER_MAX (4096 * 8) /* BPF_MAXINSNS of struct sock_filter, <linux/filter.h> */
/* attachFilter(socket, instructions: struct sock_filter[]): SO_ATTACH_FILTER, socket(7) */
FUNCTION(attach_filter) {
    uint8_t *bytes;
    size_t length;
    int64_t socket;
    if (!get_integer(context, values[0], INT32_MIN, UINT32_MAX, &socket)) return JS_EXCEPTION;
    if (!get_bytes(context, values[1], &bytes, &length)) return JS_EXCEPTION;
    if (length > FILTER_MAX) return JS_ThrowRangeError(context, "expected 4096 instructions at most");
    struct { unsigned short count; void *instructions; } program = {(unsigned short)(length / 8), bytes}; /* struct sock_fprog */
    int failed = setsockopt((int)socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
    return JS_NewInt32(context, failed ? -errno : 0);
}

/* collectGarbage(): frees what only refers to itself, which a process of milliseconds leaves alone */
FUNCTION(collect_garbage) {
    JS_RunGC(JS_GetRuntime(context));
    return JS_UNDEFINED;
}

static void free_texts(JSContext *context, char **texts) {
    for (char **text = texts; text && *text; text++) js_free(context, *text);
    js_free(context, texts);
}

/* An array of texts as execve(2) takes it. NULL with an exception; `*broken` when one of them has a NUL inside. */
static char **get_texts(JSContext *context, JSValueConst array, bool *broken) {
    int64_t count;
    if (!JS_IsArray(array)) return JS_ThrowTypeError(context, "expected an array of strings"), NULL;
    if (JS_GetLength(context, array, &count)) return NULL;
    char **texts = js_calloc(context, (size_t)count + 1, sizeof *texts);
    for (uint32_t i = 0; texts && i < count; i++) {
        size_t length;
        JSValue value = JS_GetPropertyUint32(context, array, i);
        const char *text = JS_IsException(value) ? NULL : get_text(context, value, &length);
        if (text) {
            *broken |= strlen(text) != length;
            texts[i] = js_strdup(context, text);
            JS_FreeCString(context, text);
        }
        JS_FreeValue(context, value);
        if (!texts[i]) return free_texts(context, texts), NULL;
    }
    return texts;
}

struct program {
    const char *path, *directory;
    char **arguments, **environment;
    int descriptors[3];
    bool own_session;
    pid_t caller;
};

/* In the child, which shares our memory until it runs the program: only system calls. Returns the number of an error. */
static int become(const struct program *program) {
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;
    /* What works for us ends with us: no orphan may change what a DEL has cleaned up since. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL)) return errno;
    if (getppid() != program->caller) return ESRCH; /* we were killed before that */
    for (int signal = 1; signal < NSIG; signal++) sigaction(signal, &standard, NULL); /* our caller may ignore some */
    for (int fd = 0; fd < 3; fd++)
        if (dup2(program->descriptors[fd], fd) == -1) return errno;
    syscall(SYS_close_range, 3u, ~0u, 0u); /* what our caller has left open; before Linux 5.9 the program has it too */
    if (program->directory && chdir(program->directory)) return errno;
    if (program->own_session) setsid();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(program->path, program->arguments, program->environment);
    return errno;
}

/* Returns the id of the process, or the negative number of an error, the child's included. */
static pid_t start_program(struct program *program) {
    volatile int failure = 0;
    sigset_t all, mask;
    program->caller = getpid();
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &mask); /* no handler may run in the child on our stack */
    pid_t child = vfork();
    if (child == 0) {
        failure = become(program);
        _exit(127);
    }
    int error = child == -1 ? errno : failure;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (error && child > 0) waitpid(child, NULL, 0);
    return error ? -error : child;
}

/* startProcess(path, arguments, environment, directory | null, descriptors above 2 for 0 to 2: Int32Array, own session: 0, 1): its id */
FUNCTION(start_process) {
    uint8_t *bytes;
    size_t path_length, directory_length = 0, length;
    int64_t own_session;
    bool broken = false;
    struct program program = {0};
    JSValue answer = JS_EXCEPTION;
    if (!(program.path = get_text(context, values[0], &path_length))) goto end;
    if (!(program.arguments = get_texts(context, values[1], &broken))) goto end;
    if (!(program.environment = get_texts(context, values[2], &broken))) goto end;
    if (!JS_IsNull(values[3]) && !(program.directory = get_text(context, values[3], &directory_length))) goto end;
    if (!get_bytes(context, values[4], &bytes, &length)) goto end;
    if (!get_integer(context, values[5], 0, 1, &own_session)) goto end;
    program.own_session = own_session;
    if (length == sizeof program.descriptors) {
        memcpy(program.descriptors, bytes, length);
        for (int i = 0; i < 3; i++) broken |= program.descriptors[i] >= 0 && program.descriptors[i] < 3; /* one would replace another */
        broken |= strlen(program.path) != path_length || (program.directory && strlen(program.directory) != directory_length);
        answer = JS_NewInt32(context, broken ? -EINVAL : start_program(&program));
    } else {
        JS_ThrowRangeError(context, "expected three descriptors");
    }
end:
    free_texts(context, program.arguments);
    free_texts(context, program.environment);
    JS_FreeCString(context, program.directory);
    JS_FreeCString(context, program.path);
    return answer;
}

/* encodeUtf8(text): Uint8Array */
FUNCTION(encode_utf8) {
    size_t length;
    const char *text = get_text(context, values[0], &length);
    if (!text) return JS_EXCEPTION;
    JSValue bytes = JS_NewUint8ArrayCopy(context, (const uint8_t *)text, length);
    JS_FreeCString(context, text);
    return bytes;
}

/* The length of the character at the start; 0 when the bytes are no character, and then `*skip` is the number of bytes that one U+FFFD replaces. */
static size_t character(const uint8_t *at, size_t left, size_t *skip) {
    static const uint8_t least[] = {0xe0, 0xa0, 0xf0, 0x90}, most[] = {0xed, 0x9f, 0xf4, 0x8f}; /* of the second byte */
    uint8_t lead = at[0], low = 0x80, high = 0xbf;
    size_t length = lead < 0x80 ? 1 : lead < 0xc2 || lead > 0xf4 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    for (size_t i = 0; i < sizeof least; i += 2) {
        if (lead == least[i]) low = least[i + 1];
        if (lead == most[i]) high = most[i + 1];
    }
    size_t good = 1;
    while (good < length && good < left && at[good] >= low && at[good] <= high) low = 0x80, high = 0xbf, good++;
    *skip = good;
    return length > 0 && good == length ? length : 0;
}

/* The text of bytes. What is no UTF-8 becomes U+FFFD as the Encoding Standard has it; the engine's own way differs. */
static JSValue decode(JSContext *context, const uint8_t *bytes, size_t length) {
    size_t at = 0, skip;
    while (at < length && (bytes[at] < 0x80 || character(bytes + at, length - at, &skip))) at += bytes[at] < 0x80 ? 1 : skip;
    if (at == length) return JS_NewStringLen(context, (const char *)bytes, length);
    uint8_t *whole = js_malloc(context, at + 3 * (length - at)), *end = whole;
    if (!whole) return JS_EXCEPTION;
    memcpy(whole, bytes, at);
    for (end += at; at < length; at += skip) {
        size_t good = character(bytes + at, length - at, &skip);
        memcpy(end, good ? bytes + at : (const uint8_t *)REPLACEMENT, good ? good : 3);
        end += good ? good : 3;
    }
    JSValue text = JS_NewStringLen(context, (const char *)whole, (size_t)(end - whole));
    js_free(context, whole);
    return text;
}

/* decodeUtf8(bytes): text */
FUNCTION(decode_utf8) {
    uint8_t *bytes;
    size_t length;
    return get_bytes(context, values[0], &bytes, &length) ? decode(context, bytes, length) : JS_EXCEPTION;
}

/* decodeLatin1(bytes): text, a character for each byte */
FUNCTION(decode_latin1) {
    uint8_t *bytes;
    size_t length;
    if (!get_bytes(context, values[0], &bytes, &length)) return JS_EXCEPTION;
    uint16_t *wide = js_malloc(context, length * sizeof *wide + 1);
    if (!wide) return JS_EXCEPTION;
    for (size_t i = 0; i < length; i++) wide[i] = bytes[i];
    JSValue text = JS_NewStringUTF16(context, wide, length);
    js_free(context, wide);
    return text;
}

/* crc32(bytes): IEEE 802.3, four bits at a time */
FUNCTION(crc32) {
    static const uint32_t of_nibble[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    uint8_t *bytes;
    size_t length;
    if (!get_bytes(context, values[0], &bytes, &length)) return JS_EXCEPTION;
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ of_nibble[crc & 15];
        crc = crc >> 4 ^ of_nibble[crc & 15];
    }
    return JS_NewUint32(context, ~crc);
}

/* A word of SHA-256: the first 32 bits behind the point of a root, FIPS 180-4, 4.2.2 */
static const uint32_t sha256_words[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

#define ROTATE(word, by) ((word) >> (by) | (word) << (32 - (by)))
/* One block of 64 bytes into the state of eight words, FIPS 180-4, 6.2.2 */
static void sha256_block(uint32_t state[8], const uint8_t *block) {
    uint32_t schedule[64], a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 16; i++, block += 4)
        schedule[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
    for (int i = 16; i < 64; i++) {
        uint32_t early = schedule[i - 15], late = schedule[i - 2];
        schedule[i] = schedule[i - 16] + (ROTATE(early, 7) ^ ROTATE(early, 18) ^ early >> 3) + schedule[i - 7] +
                      (ROTATE(late, 17) ^ ROTATE(late, 19) ^ late >> 10);
    }
    for (int i = 0; i < 64; i++) {
        uint32_t first = h + (ROTATE(e, 6) ^ ROTATE(e, 11) ^ ROTATE(e, 25)) + ((e & f) ^ (~e & g)) + sha256_words[i] + schedule[i];
        uint32_t second = (ROTATE(a, 2) ^ ROTATE(a, 13) ^ ROTATE(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

/* sha256(fd, into: 32 bytes): of a whole file, FIPS 180-4 */
FUNCTION(sha256_of_file) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    static uint8_t buffer[1 << 16];
    uint8_t *into;
    size_t length, kept = 0;
    int64_t fd, total = 0;
    if (!get_integer(context, values[0], INT32_MIN, UINT32_MAX, &fd)) return JS_EXCEPTION;
    if (!get_bytes(context, values[1], &into, &length)) return JS_EXCEPTION;
    if (length < 32) return JS_ThrowRangeError(context, "expected an array of 32 bytes");
    for (ssize_t got; (got = pread((int)fd, buffer + kept, sizeof buffer - 128 - kept, total)) != 0;) {
        if (got == -1) return JS_NewInt32(context, -errno);
        total += got;
        size_t there = kept + (size_t)got, at = 0;
        for (; there - at >= 64; at += 64) sha256_block(state, buffer + at);
        memmove(buffer, buffer + at, kept = there - at);
    }
    size_t end = kept < 56 ? 64 : 128;
    memset(buffer + kept, 0, end - kept);
    buffer[kept] = 0x80;
    for (int i = 0; i < 8; i++) buffer[end - 1 - (size_t)i] = (uint8_t)((uint64_t)total * 8 >> 8 * i);
    for (size_t at = 0; at < end; at += 64) sha256_block(state, buffer + at);
    for (int i = 0; i < 32; i++) into[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
    return JS_NewInt32(context, 0);
}

/* findBytes(bytes, sought, from): where the sought bytes begin, at `from` or behind it; -1 where they are not */
FUNCTION(find_bytes) {
    uint8_t *bytes, *sought;
    size_t length, sought_length;
    int64_t from;
    if (!get_bytes(context, values[0], &bytes, &length)) return JS_EXCEPTION;
    if (!get_bytes(context, values[1], &sought, &sought_length)) return JS_EXCEPTION;
    if (!get_integer(context, values[2], 0, INT32_MAX, &from)) return JS_EXCEPTION;
    if ((size_t)from > length || length - (size_t)from < sought_length) return JS_NewInt32(context, -1);
    if (sought_length == 0) return JS_NewInt64(context, from);
    const uint8_t *found = memmem(bytes + from, length - (size_t)from, sought, sought_length);
    return JS_NewInt64(context, found ? found - bytes : -1);
}

/* monotonicMs(): CLOCK_MONOTONIC in milliseconds */
FUNCTION(monotonic_ms) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return JS_NewFloat64(context, (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6);
}

static JSValue array_of(JSContext *context, char **texts) {
    JSValue array = JS_NewArray(context);
    for (uint32_t i = 0; !JS_IsException(array) && texts && texts[i]; i++) {
        JSValue text = decode(context, (uint8_t *)texts[i], strlen(texts[i]));
        if (!JS_IsException(text) && JS_SetPropertyUint32(context, array, i, text) >= 0) continue;
        JS_FreeValue(context, array);
        return JS_EXCEPTION;
    }
    return array;
}

/* environment(): texts "NAME=value", execve(2) */
FUNCTION(host_environment) {
    return array_of(context, environ);
}

char **program_arguments;

/* arguments(): the command line, the name that the program was called by first */
FUNCTION(host_arguments) {
    return array_of(context, program_arguments);
}

/* positions(): the table that pkg/engine/positions.ts reads */
FUNCTION(source_positions) {
    return JS_NewStringLen(context, (const char *)positions.start, (size_t)(positions.end - positions.start));
}

#ifdef TOOL
/* A promise that was rejected while nothing listened to it. */
struct rejection {
    struct rejection *next;
    JSValue promise, reason;
};
static struct rejection *rejections;

static void forget_rejection(JSContext *context, struct rejection **at) {
    struct rejection *rejection = *at;
    *at = rejection->next;
    JS_FreeValue(context, rejection->promise);
    JS_FreeValue(context, rejection->reason);
    js_free(context, rejection);
}

/* The engine tells of each promise that is rejected unheard, and of each of those that is listened to later. */
static void track_rejection(JSContext *context, JSValueConst promise, JSValueConst reason, bool heard, UNUSED void *opaque) {
    struct rejection **at = &rejections;
    while (*at && JS_VALUE_GET_PTR((*at)->promise) != JS_VALUE_GET_PTR(promise)) at = &(*at)->next;
    if (heard && *at) forget_rejection(context, at);
    if (heard || *at) return;
    if (!(*at = js_malloc(context, sizeof **at))) return; /* not seen: out of memory ends the process */
    **at = (struct rejection){.promise = JS_DupValue(context, promise), .reason = JS_DupValue(context, reason)};
}

/* runJobs(): what waits for promises that are settled, until nothing does; throws what one was rejected with that nothing listens to */
FUNCTION(run_jobs) {
    int more;
    JSContext *where;
    while ((more = JS_ExecutePendingJob(JS_GetRuntime(context), &where)) > 0) continue;
    if (more < 0) return JS_EXCEPTION;
    if (!rejections) return JS_UNDEFINED;
    JSValue reason = JS_DupValue(context, rejections->reason);
    while (rejections) forget_rejection(context, &rejections);
    return JS_Throw(context, reason);
}
#endif

/* exit(status): at once; nothing is flushed, there is nothing to flush */
FUNCTION(host_exit) {
    int64_t status;
    if (!get_integer(context, values[0], 0, 255, &status)) return JS_EXCEPTION;
    _exit((int)status);
}

static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("poll", 2, host_poll),
    JS_CFUNC_DEF("sendDescriptors", 2, send_descriptors),
    JS_CFUNC_DEF("attachFilter", 2, attach_filter),
    JS_CFUNC_DEF("collectGarbage", 0, collect_garbage),
    JS_CFUNC_DEF("startProcess", 6, start_process),
    JS_CFUNC_DEF("encodeUtf8", 1, encode_utf8),
    JS_CFUNC_DEF("decodeUtf8", 1, decode_utf8),
    JS_CFUNC_DEF("decodeLatin1", 1, decode_latin1),
    JS_CFUNC_DEF("crc32", 1, crc32),
    JS_CFUNC_DEF("sha256", 2, sha256_of_file),
    JS_CFUNC_DEF("findBytes", 3, find_bytes),
    JS_CFUNC_DEF("monotonicMs", 0, monotonic_ms),
    JS_CFUNC_DEF("environment", 0, host_environment),
    JS_CFUNC_DEF("arguments", 0, host_arguments),
    JS_CFUNC_DEF("positions", 0, source_positions),
    JS_CFUNC_DEF("exit", 1, host_exit),
#ifdef TOOL
    JS_CFUNC_DEF("runJobs", 0, run_jobs),
#endif
};

/* What the language has, without eval, Proxy and weak references. Promises are for the tool alone: no plugin waits for two things. */
static bool add_language(JSContext *context) {
#ifdef TOOL
    JS_SetHostPromiseRejectionTracker(JS_GetRuntime(context), track_rejection, NULL);
    if (JS_AddIntrinsicBaseObjects(context) || JS_AddIntrinsicPromise(context)) return false;
#else
    if (JS_AddIntrinsicBaseObjects(context)) return false;
#endif
    return !JS_AddIntrinsicDate(context) && !JS_AddIntrinsicRegExp(context) &&
           !JS_AddIntrinsicJSON(context) && !JS_AddIntrinsicMapSet(context) && !JS_AddIntrinsicTypedArrays(context);
}

static bool add_host(JSContext *context) {
    JSValue global = JS_GetGlobalObject(context), host = JS_NewObject(context);
    JSValue math = JS_GetPropertyStr(context, global, "Math");
    JSAtom random = JS_NewAtom(context, "random");
    /* Its state would be part of the heap image: every process would draw the same numbers. */
    bool added = random != JS_ATOM_NULL && JS_DeleteProperty(context, math, random, 0) > 0;
    JS_FreeAtom(context, random);
    JS_FreeValue(context, math);
    added = added && !JS_IsException(host) &&
            JS_SetPropertyFunctionList(context, host, functions, sizeof functions / sizeof *functions) == 0;
    for (int i = 0; added && i < CALLS; i++) {
        JSValue function = JS_NewCFunctionMagic(context, system_call, calls[i].name, 0, JS_CFUNC_generic_magic, i);
        added = !JS_IsException(function) && JS_DefinePropertyValueStr(context, host, calls[i].name, function, JS_PROP_C_W_E) >= 0;
    }
    added = added && JS_DefinePropertyValueStr(context, global, "host", host, 0) >= 0;
    JS_FreeValue(context, global);
    return added;
}

JSContext *new_context(JSRuntime *runtime) {
    JSContext *context = JS_NewContextRaw(runtime);
    return context && add_language(context) && add_host(context) ? context : NULL;
}
