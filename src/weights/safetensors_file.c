/* Owns the descriptor and the header's memory of one file while it is loaded. One thread.
 *
 * A file that somebody cuts short while it is mapped raises SIGBUS at the next touch, which would end a server that
 * reloads. So the mapping here is only a range of addresses as long as the file, into which the header alone is read;
 * tensors go by pread straight to where they are converted, and a file that has become shorter is an error. */
#include "weights/safetensors_file.h"

#include "base/clock.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH_BYTES 8 /* the header's length stands before it */

/* 0, or errno; EIO stands for an end of the file before `bytes`. */
static int read_at(int descriptor, size_t offset, void *to, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(descriptor, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            return EIO;
        done += (size_t)n;
    }
    return 0;
}

/* A file's time goes by the kernel's ticks, of 10 ms at most: of two writes in one tick the second does not show. */
#define TICKS_NS   (20 * (int64_t)CLOCK_MILLISECOND)
#define MOST_WAITS 10

/* How long ago the file was written to; -1 where its clock is another one, and ahead. */
static int64_t age_ns(const struct timespec *modified)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t seconds = (int64_t)now.tv_sec - (int64_t)modified->tv_sec;
    if (seconds < 0 || seconds > 1)
        return seconds < 0 ? -1 : INT64_MAX;
    return seconds * (int64_t)CLOCK_SECOND + now.tv_nsec - modified->tv_nsec;
}

/* Waits until a write from now on would give the file another time. False: it is written to all the while. */
static bool settle(int descriptor, struct stat *status)
{
    for (int waits = 0; waits < MOST_WAITS; waits++) {
        const int64_t age = age_ns(&status->st_mtim);
        if (age < 0 || age >= TICKS_NS)
            return true;
        const struct timespec rest = {.tv_nsec = TICKS_NS - age};
        nanosleep(&rest, NULL);
        if (fstat(descriptor, status) != 0)
            return true; /* what is read next says why */
    }
    return false;
}

/* The bytes in front that safetensors_open may look at: it refuses a length beyond the file or the cap before it goes
 * on. */
static int read_header(struct safetensors_file *file)
{
    unsigned char raw[LENGTH_BYTES];
    size_t bytes = size_min(file->size, LENGTH_BYTES);
    int failed = read_at(file->descriptor, 0, raw, bytes);
    if (failed)
        return failed;
    if (bytes == LENGTH_BYTES) {
        uint64_t length = 0;
        for (unsigned i = 0; i < LENGTH_BYTES; i++)
            length |= (uint64_t)raw[i] << 8 * i;
        if (length <= file->size - LENGTH_BYTES && length <= SAFETENSORS_MAX_HEADER)
            bytes += (size_t)length;
    }
    if (bytes == 0)
        return 0;
    if (mprotect(file->addresses, bytes, PROT_READ | PROT_WRITE) != 0)
        return errno;
    return read_at(file->descriptor, 0, file->addresses, bytes);
}

bool safetensors_file_open(const char *path, struct safetensors_file *file, struct error *error)
{
    struct safetensors_file opened = {.descriptor = -1};
    struct stat status;
    int failed;

    /* O_NONBLOCK: a pipe without a writer would be waited for. It changes nothing for a regular file. */
    opened.descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened.descriptor < 0 || fstat(opened.descriptor, &status) != 0) {
        error_set_at(error, ERROR_IO, "/path", "it cannot be opened: %s", strerror(errno));
        goto fail;
    }
    if (!S_ISREG(status.st_mode)) {
        error_set_at(error, ERROR_IO, "/path", "expected a safetensors file, found %s",
                     S_ISDIR(status.st_mode) ? "a folder" : "something that is not a regular file");
        goto fail;
    }
    if (!settle(opened.descriptor, &status)) {
        error_set_at(error, ERROR_IO, "/path",
                     "it is being written to; put a new version in its place by renaming, and load it again");
        goto fail;
    }
    opened.size = (size_t)status.st_size;
    opened.modified = status.st_mtim;
    void *addresses =
        mmap(NULL, size_max(opened.size, 1), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addresses == MAP_FAILED) {
        error_set_at(error, ERROR_OUT_OF_MEMORY, "/path", "a range of its %zu bytes cannot be mapped: %s", opened.size,
                     strerror(errno));
        goto fail;
    }
    opened.addresses = addresses;
    failed = read_header(&opened);
    if (failed) {
        error_set_at(error, ERROR_IO, "/path", "its header cannot be read: %s", strerror(failed));
        goto fail;
    }
    if (!safetensors_open(opened.addresses, opened.size, &opened.header, error)) {
        if (error->code == ERROR_BAD_ENCODING) {
            error->has_pointer = true;
            strcpy(error->pointer, "/path");
        }
        goto fail;
    }
    *file = opened;
    return true;
fail:
    safetensors_file_close(&opened);
    return false;
}

bool safetensors_file_read(const struct safetensors_file *file, const struct safetensors_entry *entry, size_t offset,
                           void *to, size_t bytes, struct error *error)
{
    size_t at = (size_t)(entry->data - (const unsigned char *)file->addresses) + offset;
    int failed = read_at(file->descriptor, at, to, bytes);
    if (failed)
        return error_set_at(error, ERROR_IO, "/path", "%zu bytes of tensor \"%s\" cannot be read from byte %zu: %s",
                            bytes, entry->name, at, strerror(failed));
    return true;
}

bool safetensors_file_unchanged(const struct safetensors_file *file, struct error *error)
{
    struct stat status;
    if (fstat(file->descriptor, &status) != 0)
        return error_set_at(error, ERROR_IO, "/path", "its state cannot be read: %s", strerror(errno));
    if ((size_t)status.st_size != file->size || status.st_mtim.tv_sec != file->modified.tv_sec ||
        status.st_mtim.tv_nsec != file->modified.tv_nsec)
        return error_set_at(
            error, ERROR_IO, "/path",
            "it was written to while it was read; put a new version in its place by renaming, and load it again");
    return true;
}

void safetensors_file_close(struct safetensors_file *file)
{
    safetensors_close(&file->header);
    if (file->addresses)
        munmap(file->addresses, size_max(file->size, 1));
    if (file->descriptor >= 0)
        close(file->descriptor);
    *file = (struct safetensors_file){.descriptor = -1};
}
