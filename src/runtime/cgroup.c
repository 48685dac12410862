/* Reads /proc/self/cgroup, /proc/self/mountinfo and the control groups' own files: see cgroup.h. Any thread; called at
 * start only.
 *
 * In a container the group's path and the mount's root may be the host's (no cgroup namespace) or "/" (with one): what
 * is left of the path below the mount's root, under the mount point, is the folder in both. */
#include "runtime/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mount {
    const char *root, *point; /* the part of the hierarchy that is mounted, and where */
    bool v2;
};

/* What a folder says, if anything, is folded into `result`. */
typedef void see_group(const char *folder, bool v2, void *result);

static FILE *open_at(const char *folder, const char *name)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length >= 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;
}

/* Whether `item` is one of the items of `list`, which commas separate. */
static bool listed(const char *list, const char *item)
{
    size_t length = strlen(item);
    for (const char *at = list;; at++) {
        size_t here = strcspn(at, ",");
        if (here == length && memcmp(at, item, length) == 0)
            return true;
        at += here;
        if (*at == '\0')
            return false;
    }
}

/* mountinfo writes a space in a path as \040. In place. */
static void unescape(char *path)
{
    char *to = path;
    for (const char *from = path; *from; to++) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' && from[3] >= '0' &&
            from[3] <= '7') {
            *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* "36 35 98:0 ROOT POINT OPTIONS [optional fields] - TYPE DEVICE SUPEROPTIONS" (proc_pid_mountinfo(5)). The mount
 * points into `line`. */
static bool parse_mount(char *line, const char *controller, struct mount *mount)
{
    char *fields[6], *rest = line, *position = NULL;
    for (size_t i = 0; i < 6; i++, rest = NULL)
        if (!(fields[i] = strtok_r(rest, " \n", &position)))
            return false;
    char *field = strtok_r(NULL, " \n", &position);
    while (field && strcmp(field, "-") != 0)
        field = strtok_r(NULL, " \n", &position);
    const char *type = strtok_r(NULL, " \n", &position);
    const char *device = strtok_r(NULL, " \n", &position);
    const char *options = strtok_r(NULL, " \n", &position);
    if (!field || !type || !device || !options)
        return false;
    bool v2 = strcmp(type, "cgroup2") == 0;
    if (!v2 && (strcmp(type, "cgroup") != 0 || !listed(options, controller)))
        return false;
    unescape(fields[3]);
    unescape(fields[4]);
    *mount = (struct mount){.root = fields[3], .point = fields[4], .v2 = v2};
    return true;
}

/* The path of this process's group in the hierarchy of `controller` (NULL: version 2), from "ID:CONTROLLERS:PATH"
 * lines. */
static bool find_path(const char *root, const char *controller, char *path /* [PATH_MAX] */)
{
    FILE *file = open_at(root, "proc/self/cgroup");
    if (!file)
        return false;
    char *line = NULL;
    size_t capacity = 0;
    bool found = false;
    while (!found && getline(&line, &capacity, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *here = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!here)
            continue;
        *here++ = '\0';
        controllers++;
        found = (controller ? listed(controllers, controller) : *controllers == '\0') && strlen(here) < PATH_MAX;
        if (found)
            strcpy(path, here);
    }
    free(line);
    fclose(file);
    return found;
}

/* `path` below the mount's root; "" for the root itself, and for a group outside of what is mounted. */
static const char *below(const char *path, const char *mount_root)
{
    size_t length = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
    bool inside = strncmp(path, mount_root, length) == 0 && path[length] == '/';
    return inside && path[length + 1] != '\0' && !strstr(path, "/..") ? path + length : "";
}

/* The group's folder and each one above it, up to the mount point. */
static void see_ancestry(const char *root, const struct mount *mount, const char *controller, see_group *see,
                         void *result)
{
    char path[PATH_MAX] = "", folder[PATH_MAX];
    if (!find_path(root, mount->v2 ? NULL : controller, path))
        path[0] = '\0';
    int top = snprintf(folder, sizeof folder, "%s%s", root, mount->point);
    if (top < 0 || (size_t)top >= sizeof folder)
        return;
    int added = snprintf(folder + top, sizeof folder - (size_t)top, "%s", below(path, mount->root));
    if (added < 0 || (size_t)added >= sizeof folder - (size_t)top)
        folder[top] = '\0';
    for (;;) {
        see(folder, mount->v2, result);
        if (strlen(folder) <= (size_t)top)
            return;
        *strrchr(folder, '/') = '\0';
    }
}

static void see_all(const char *root, const char *controller, see_group *see, void *result)
{
    FILE *file = open_at(root, "proc/self/mountinfo");
    if (!file)
        return;
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) > 0) {
        struct mount mount;
        if (parse_mount(line, controller, &mount))
            see_ancestry(root, &mount, controller, see, result);
    }
    free(line);
    fclose(file);
}

/* The number in `text`, up to white space; false for "max", "-1" and whatever else is not a limit. */
static bool parse_number(const char *text, uint64_t *number)
{
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long value = strtoull(text, NULL, 10);
    if (errno)
        return false;
    *number = value;
    return true;
}

/* The first line of a group's file; false when there is none. */
static bool read_file(const char *folder, const char *name, char line[64])
{
    FILE *file = open_at(folder, name);
    if (!file)
        return false;
    bool read = fgets(line, 64, file) != NULL;
    fclose(file);
    return read;
}

static void see_memory(const char *folder, bool v2, void *result)
{
    uint64_t *least = result, bytes;
    char line[64];
    if (read_file(folder, v2 ? "memory.max" : "memory.limit_in_bytes", line) && parse_number(line, &bytes) &&
        bytes < *least)
        *least = bytes;
}

bool cgroup_memory_limit(const char *root, uint64_t *bytes)
{
    /* Version 1 says "no limit" with the largest multiple of the page size that fits in 63 bits. */
    const uint64_t none = (uint64_t)INT64_MAX / 65536 * 65536;
    uint64_t least = none;
    see_all(root, "memory", see_memory, &least);
    if (least == none)
        return false;
    *bytes = least;
    return true;
}

static void see_cpu(const char *folder, bool v2, void *result)
{
    double *least = result;
    uint64_t quota, period;
    char line[64], period_line[64];
    const char *period_text = period_line;
    if (v2) { /* "QUOTA PERIOD" */
        if (!read_file(folder, "cpu.max", line) || !(period_text = strchr(line, ' ')))
            return;
        period_text++;
    } else if (!read_file(folder, "cpu.cfs_quota_us", line) || !read_file(folder, "cpu.cfs_period_us", period_line)) {
        return;
    }
    if (!parse_number(line, &quota) || !parse_number(period_text, &period) || quota == 0 || period == 0)
        return;
    double cpus = (double)quota / (double)period;
    if (*least == 0 || cpus < *least)
        *least = cpus;
}

bool cgroup_cpu_quota(const char *root, double *cpus)
{
    double least = 0;
    see_all(root, "cpu", see_cpu, &least);
    if (least == 0)
        return false;
    *cpus = least;
    return true;
}
