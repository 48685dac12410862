/* What the control groups of this process, and the groups above them, allow it: version 2, version 1, or both side by
 * side.
 *
 * `root` stands before every path, "" for the system's own: tests bring a tree. */
#ifndef ATTND_RUNTIME_CGROUP_H
#define ATTND_RUNTIME_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* The least of memory.max and memory.limit_in_bytes; false (and *bytes untouched) when there is no limit. */
bool cgroup_memory_limit(const char *root, uint64_t *bytes);

/* The least of cpu.max and cpu.cfs_quota_us / cpu.cfs_period_us, in CPUs; false (and *cpus untouched) when there is no
 * quota. */
bool cgroup_cpu_quota(const char *root, double *cpus);

#endif
