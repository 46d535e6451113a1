/* Errors of the operating system when files are opened, read or written, for a program with
 * LD_PRELOAD.
 *
 * FAULT_PATH   end of the path of the file
 * FAULT_ERRNO  number of the error
 * FAULT_AFTER  bytes that are read before the error; -1: opening fails
 * FULL_FOLDER  part of the paths of files that a full disk holds
 * FULL_AFTER   bytes that can be written to each of them
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#define MOST 65536

static long left[MOST]; /* bytes that a descriptor may read, and one; 0: another file */

static long room[MOST]; /* bytes that may be written to a descriptor, and one; 0: any number */

static long after(void) {
    const char *stated = getenv("FAULT_AFTER");
    return stated ? atol(stated) : 0;
}

static int fail(void) {
    const char *stated = getenv("FAULT_ERRNO");
    errno = stated ? atoi(stated) : EIO;
    return -1;
}

static int is_chosen(const char *path) {
    const char *end = getenv("FAULT_PATH");
    if (!end || !path) return 0;
    size_t long_ = strlen(path), short_ = strlen(end);
    return long_ >= short_ && strcmp(path + long_ - short_, end) == 0;
}

static long room_of(const char *path) {
    const char *folder = getenv("FULL_FOLDER"), *bytes = getenv("FULL_AFTER");
    return folder && path && strstr(path, folder) ? 1 + (bytes ? atol(bytes) : 0) : 0;
}

static int note(int descriptor, int chosen, const char *path) {
    if (descriptor >= 0 && descriptor < MOST) {
        left[descriptor] = chosen ? after() + 1 : 0;
        room[descriptor] = room_of(path);
    }
    return descriptor;
}

static int is_noted(int descriptor) {
    return descriptor >= 0 && descriptor < MOST && left[descriptor] > 0;
}

#define OPEN(name)                                                          \
    int name(const char *path, int flags, ...) {                            \
        static int (*next)(const char *, int, ...);                         \
        if (!next) next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name); \
        va_list more;                                                       \
        va_start(more, flags);                                              \
        int mode = va_arg(more, int);                                       \
        va_end(more);                                                       \
        int chosen = is_chosen(path);                                       \
        if (chosen && after() < 0) return fail();                           \
        return note(next(path, flags, mode), chosen, path);                       \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                        \
    int name(int folder, const char *path, int flags, ...) {                \
        static int (*next)(int, const char *, int, ...);                    \
        if (!next) next = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, #name); \
        va_list more;                                                       \
        va_start(more, flags);                                              \
        int mode = va_arg(more, int);                                       \
        va_end(more);                                                       \
        int chosen = is_chosen(path);                                       \
        if (chosen && after() < 0) return fail();                           \
        return note(next(folder, path, flags, mode), chosen, path);               \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t read(int descriptor, void *to, size_t count) {
    static ssize_t (*next)(int, void *, size_t);
    if (!next) next = (ssize_t (*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    if (!is_noted(descriptor)) return next(descriptor, to, count);
    size_t most = (size_t)left[descriptor] - 1;
    if (most == 0 && count > 0) return fail();
    ssize_t found = next(descriptor, to, count < most ? count : most);
    if (found > 0) left[descriptor] -= found;
    return found;
}

ssize_t write(int descriptor, const void *from, size_t count) {
    static ssize_t (*next)(int, const void *, size_t);
    if (!next) next = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    if (descriptor < 0 || descriptor >= MOST || !room[descriptor])
        return next(descriptor, from, count);
    size_t most = (size_t)room[descriptor] - 1;
    if (most == 0 && count > 0) {
        errno = ENOSPC;
        return -1;
    }
    ssize_t written = next(descriptor, from, count < most ? count : most);
    if (written > 0) room[descriptor] -= written;
    return written;
}

#define PREAD(name, offset_t)                                               \
    ssize_t name(int descriptor, void *to, size_t count, offset_t offset) { \
        static ssize_t (*next)(int, void *, size_t, offset_t);              \
        if (!next) next = (ssize_t (*)(int, void *, size_t, offset_t))dlsym(RTLD_NEXT, #name); \
        if (!is_noted(descriptor)) return next(descriptor, to, count, offset); \
        if (offset + (offset_t)count > after()) return fail();              \
        return next(descriptor, to, count, offset);                         \
    }
PREAD(pread, off_t)
PREAD(pread64, off64_t)

#define MAP(name, offset_t)                                                 \
    void *name(void *at, size_t size, int access, int flags, int descriptor, offset_t offset) { \
        static void *(*next)(void *, size_t, int, int, int, offset_t);      \
        if (!next) next = (void *(*)(void *, size_t, int, int, int, offset_t))dlsym(RTLD_NEXT, #name); \
        if (!(flags & MAP_ANONYMOUS) && is_noted(descriptor)) {             \
            fail();                                                         \
            return MAP_FAILED;                                              \
        }                                                                   \
        return next(at, size, access, flags, descriptor, offset);           \
    }
MAP(mmap, off_t)
MAP(mmap64, off64_t)

int close(int descriptor) {
    static int (*next)(int);
    if (!next) next = (int (*)(int))dlsym(RTLD_NEXT, "close");
    if (descriptor >= 0 && descriptor < MOST) left[descriptor] = room[descriptor] = 0;
    return next(descriptor);
}
