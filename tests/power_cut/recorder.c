/* Records the file operations of a process below one folder: LD_PRELOAD of this library, POWER_CUT_FOLDER and
 * POWER_CUT_LOG. Lines of the standard output are recorded between them.
 *
 * A record: type, two lengths of paths, the length of the data, identity, position, then the paths and the data.
 * An operation and its record are one step for all threads, except for a sync: its beginning and its end are recorded,
 * because only what was written before the beginning is on disk at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DESCRIPTORS 4096

struct __attribute__((packed)) record {
    char type;
    uint16_t first, second;
    uint32_t size;
    uint64_t identity, position;
};

static char folder[PATH_MAX];
static size_t folder_length;
static int recording = -1;
static uint64_t identities[DESCRIPTORS]; /* the inode of a recorded file; 0: not recorded */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_open)(const char *, int, ...);
static int (*real_openat)(int, const char *, int, ...);
static int (*real_close)(int);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_ftruncate)(int, off_t);
static int (*real_rename)(const char *, const char *);
static int (*real_link)(const char *, const char *);
static int (*real_unlink)(const char *);
static int (*real_mkdir)(const char *, mode_t);
static int (*real_rmdir)(const char *);

__attribute__((constructor)) static void start(void) {
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_open = dlsym(RTLD_NEXT, "open64");
    real_openat = dlsym(RTLD_NEXT, "openat64");
    real_close = dlsym(RTLD_NEXT, "close");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_rename = dlsym(RTLD_NEXT, "rename");
    real_link = dlsym(RTLD_NEXT, "link");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
    real_mkdir = dlsym(RTLD_NEXT, "mkdir");
    real_rmdir = dlsym(RTLD_NEXT, "rmdir");
    const char *watched = getenv("POWER_CUT_FOLDER"), *log = getenv("POWER_CUT_LOG");
    if (watched && log && strlen(watched) < sizeof folder) {
        strcpy(folder, watched);
        folder_length = strlen(folder);
        recording = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
}

static int watched(const char *path) {
    return recording >= 0 && strncmp(path, folder, folder_length) == 0 &&
           (path[folder_length] == '/' || path[folder_length] == '\0');
}

static uint64_t identity(int descriptor) {
    return descriptor >= 0 && descriptor < DESCRIPTORS ? identities[descriptor] : 0;
}

static void put(const void *bytes, size_t size) {
    const char *next = bytes;
    while (size) {
        long done = syscall(SYS_write, recording, next, size);
        if (done < 0) {
            if (errno == EINTR) continue;
            abort(); /* an incomplete recording must not look like a result */
        }
        next += done;
        size -= (size_t)done;
    }
}

static void record(char type, const char *first, const char *second, uint64_t inode, uint64_t position,
                   const void *data, size_t size) {
    int saved = errno;
    struct record head = {type, (uint16_t)strlen(first), (uint16_t)strlen(second), (uint32_t)size, inode, position};
    put(&head, sizeof head);
    put(first, head.first);
    put(second, head.second);
    put(data, size);
    errno = saved;
}

static int opened(int descriptor, const char *path, int flags, int existed) {
    struct stat found;
    if (descriptor < 0 || descriptor >= DESCRIPTORS || fstat(descriptor, &found)) return descriptor;
    identities[descriptor] = found.st_ino;
    if (S_ISDIR(found.st_mode)) record('O', path, "", found.st_ino, 0, "", 0);
    else if (!existed) record('C', path, "", found.st_ino, 0, "", 0);
    else if (flags & O_TRUNC) record('T', "", "", found.st_ino, 0, "", 0);
    return descriptor;
}

static int opening(int directory, const char *path, int flags, mode_t mode) {
    if (!watched(path)) return real_openat(directory, path, flags, mode);
    pthread_mutex_lock(&mutex);
    struct stat found;
    int existed = fstatat(directory, path, &found, 0) == 0;
    int descriptor = opened(real_openat(directory, path, flags, mode), path, flags, existed);
    pthread_mutex_unlock(&mutex);
    return descriptor;
}

#define MODE(flags)                                  \
    mode_t mode = 0;                                 \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {         \
        va_list more;                                \
        va_start(more, flags);                       \
        mode = va_arg(more, mode_t);                 \
        va_end(more);                                \
    }

int open(const char *path, int flags, ...) { MODE(flags) return opening(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opening(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return opening(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return opening(at, path, flags, mode); }
int __open_2(const char *path, int flags) { return opening(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return opening(AT_FDCWD, path, flags, 0); }

int close(int descriptor) {
    if (identity(descriptor)) identities[descriptor] = 0;
    return real_close(descriptor);
}

ssize_t write(int descriptor, const void *data, size_t size) {
    uint64_t inode = identity(descriptor);
    if (recording < 0 || (!inode && descriptor != 1)) return real_write(descriptor, data, size);
    pthread_mutex_lock(&mutex);
    ssize_t done = real_write(descriptor, data, size);
    if (done > 0 && inode)
        record('W', "", "", inode, (uint64_t)(lseek(descriptor, 0, SEEK_CUR) - done), data, (size_t)done);
    else if (done > 0) record('P', "", "", 0, 0, data, (size_t)done);
    pthread_mutex_unlock(&mutex);
    return done;
}

ssize_t pwrite64(int descriptor, const void *data, size_t size, off_t position) {
    uint64_t inode = identity(descriptor);
    if (!inode) return real_pwrite(descriptor, data, size, position);
    pthread_mutex_lock(&mutex);
    ssize_t done = real_pwrite(descriptor, data, size, position);
    if (done > 0) record('W', "", "", inode, (uint64_t)position, data, (size_t)done);
    pthread_mutex_unlock(&mutex);
    return done;
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t position) {
    return pwrite64(descriptor, data, size, position);
}

int ftruncate64(int descriptor, off_t size) {
    uint64_t inode = identity(descriptor);
    if (!inode) return real_ftruncate(descriptor, size);
    pthread_mutex_lock(&mutex);
    int failed = real_ftruncate(descriptor, size);
    if (!failed) record('T', "", "", inode, (uint64_t)size, "", 0);
    pthread_mutex_unlock(&mutex);
    return failed;
}

int ftruncate(int descriptor, off_t size) { return ftruncate64(descriptor, size); }

static int syncing(int (*real)(int), int descriptor) {
    uint64_t inode = identity(descriptor), thread = (uint64_t)syscall(SYS_gettid);
    if (!inode) return real(descriptor);
    pthread_mutex_lock(&mutex);
    record('B', "", "", inode, thread, "", 0);
    pthread_mutex_unlock(&mutex);
    int failed = real(descriptor);
    pthread_mutex_lock(&mutex);
    if (!failed) record('S', "", "", inode, thread, "", 0);
    pthread_mutex_unlock(&mutex);
    return failed;
}

int fsync(int descriptor) { return syncing(real_fsync, descriptor); }
int fdatasync(int descriptor) { return syncing(real_fdatasync, descriptor); }

#define ONE_STEP(paths, call, type, first, second)              \
    if (!(paths)) return call;                                  \
    pthread_mutex_lock(&mutex);                                 \
    int failed = call;                                          \
    if (!failed) record(type, first, second, 0, 0, "", 0);      \
    pthread_mutex_unlock(&mutex);                               \
    return failed;

int rename(const char *from, const char *to) { ONE_STEP(watched(to), real_rename(from, to), 'R', from, to) }
int renameat(int a, const char *from, int b, const char *to) {
    if (a != AT_FDCWD || b != AT_FDCWD) return (int)syscall(SYS_renameat2, a, from, b, to, 0);
    return rename(from, to);
}
int link(const char *from, const char *to) { ONE_STEP(watched(to), real_link(from, to), 'L', from, to) }
int linkat(int a, const char *from, int b, const char *to, int flags) {
    if (a != AT_FDCWD || b != AT_FDCWD) return (int)syscall(SYS_linkat, a, from, b, to, flags);
    return link(from, to);
}
int unlink(const char *path) { ONE_STEP(watched(path), real_unlink(path), 'U', path, "") }
int mkdir(const char *path, mode_t mode) { ONE_STEP(watched(path), real_mkdir(path, mode), 'M', path, "") }
int rmdir(const char *path) { ONE_STEP(watched(path), real_rmdir(path), 'D', path, "") }
