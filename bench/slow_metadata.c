/* Preload library: add CCLTUI_SLOW_US microseconds to each call on the metadata of a file whose path
 * begins with CCLTUI_SLOW_BELOW, as a network file system does. Calls on open descriptors count too.
 *
 *   gcc -O2 -shared -fPIC -o slow_metadata.so bench/slow_metadata.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void wait_for(const char *path) {
    const char *below = getenv("CCLTUI_SLOW_BELOW");
    const char *us = getenv("CCLTUI_SLOW_US");
    if (!us || !below || (path && strncmp(path, below, strlen(below)) != 0)) return;
    long n = atol(us);
    struct timespec t = {n / 1000000, n % 1000000 * 1000};
    nanosleep(&t, NULL);
}

/* fstat of a descriptor: only those of files below the folder. */
static void wait_for_descriptor(int fd) {
    char link[64], path[4096];
    ssize_t n;
    strcpy(link, "/proc/self/fd/");
    char *at = link + strlen(link);
    char digits[16];
    int count = 0, value = fd;
    do digits[count++] = '0' + value % 10; while (value /= 10);
    while (count) *at++ = digits[--count];
    *at = 0;
    n = readlink(link, path, sizeof path - 1);
    if (n < 0) return;
    path[n] = 0;
    wait_for(path);
}

#define MODE_OF(flags)                          \
    mode_t mode = 0;                            \
    if ((flags) & (O_CREAT | O_TMPFILE)) {      \
        va_list more;                           \
        va_start(more, flags);                  \
        mode = va_arg(more, mode_t);            \
        va_end(more);                           \
    }

int open(const char *path, int flags, ...) { MODE_OF(flags) wait_for(path); return REAL(open)(path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE_OF(flags) wait_for(path); return REAL(open64)(path, flags, mode); }
int openat(int dir, const char *path, int flags, ...) { MODE_OF(flags) wait_for(path); return REAL(openat)(dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { MODE_OF(flags) wait_for(path); return REAL(openat64)(dir, path, flags, mode); }
int stat(const char *path, struct stat *s) { wait_for(path); return REAL(stat)(path, s); }
int stat64(const char *path, struct stat64 *s) { wait_for(path); return REAL(stat64)(path, s); }
int lstat(const char *path, struct stat *s) { wait_for(path); return REAL(lstat)(path, s); }
int lstat64(const char *path, struct stat64 *s) { wait_for(path); return REAL(lstat64)(path, s); }
int fstat(int fd, struct stat *s) { wait_for_descriptor(fd); return REAL(fstat)(fd, s); }
int fstat64(int fd, struct stat64 *s) { wait_for_descriptor(fd); return REAL(fstat64)(fd, s); }
int fstatat(int dir, const char *path, struct stat *s, int flags) { wait_for(path); return REAL(fstatat)(dir, path, s, flags); }
int fstatat64(int dir, const char *path, struct stat64 *s, int flags) { wait_for(path); return REAL(fstatat64)(dir, path, s, flags); }
int access(const char *path, int mode) { wait_for(path); return REAL(access)(path, mode); }
ssize_t readlink(const char *path, char *to, size_t size) { if (strncmp(path, "/proc/", 6)) wait_for(path); return REAL(readlink)(path, to, size); }
