/* Shifts the clocks of a process while it runs: LD_PRELOAD of this library; CLOCK_OFFSETS is a file with two 64-bit
 * integers, the nanoseconds that are added to the wall clock and to the monotonic clock. Absolute deadlines of waits
 * are shifted back. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t none[2];
static const volatile int64_t *offsets = none;

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_clock_nanosleep)(clockid_t, int, const struct timespec *, struct timespec *);
static int (*real_sem_clockwait)(sem_t *, clockid_t, const struct timespec *);
static int (*real_cond_clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);

__attribute__((constructor)) static void start(void) {
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_clock_nanosleep = dlsym(RTLD_NEXT, "clock_nanosleep");
    real_sem_clockwait = dlsym(RTLD_NEXT, "sem_clockwait");
    real_cond_clockwait = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    const char *path = getenv("CLOCK_OFFSETS");
    int descriptor = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor < 0) return;
    void *shared = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, descriptor, 0);
    if (shared != MAP_FAILED) offsets = shared;
    close(descriptor);
}

static int64_t offset(clockid_t clock) {
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE: return offsets[0];
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_BOOTTIME: return offsets[1];
    default: return 0;
    }
}

static struct timespec shifted(struct timespec time, int64_t nanoseconds) {
    int64_t sum = time.tv_nsec + nanoseconds % 1000000000;
    time.tv_sec += nanoseconds / 1000000000;
    if (sum < 0) time.tv_sec--, sum += 1000000000;
    if (sum >= 1000000000) time.tv_sec++, sum -= 1000000000;
    time.tv_nsec = sum;
    return time;
}

int clock_gettime(clockid_t clock, struct timespec *result) {
    int failed = real_clock_gettime(clock, result);
    if (!failed) *result = shifted(*result, offset(clock));
    return failed;
}

int gettimeofday(struct timeval *restrict result, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    result->tv_sec = now.tv_sec;
    result->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
    struct timespec real = flags & TIMER_ABSTIME ? shifted(*until, -offset(clock)) : *until;
    return real_clock_nanosleep(clock, flags, &real, left);
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until) {
    struct timespec real = shifted(*until, -offset(clock));
    return real_sem_clockwait(semaphore, clock, &real);
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *until) {
    struct timespec real = shifted(*until, -offset(clock));
    return real_cond_clockwait(condition, mutex, clock, &real);
}
