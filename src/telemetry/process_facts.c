/* From /proc/self; what cannot be read is 0. It opens files: out of descriptors, those facts are not known. */
#include "telemetry/process_facts.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct stat_line {
    unsigned long long started, virtual_bytes; /* ticks since the system started */
    long long resident_pages;
};

/* /proc/self/stat: behind the name, which may hold anything but ends with the last ')', field 3 and those after it. */
static bool read_stat(struct stat_line *found)
{
    char line[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    if (!file)
        return false;
    const size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = '\0';
    const char *rest = strrchr(line, ')');
    return rest && sscanf(rest + 1,
                          " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu %llu %lld",
                          &found->started, &found->virtual_bytes, &found->resident_pages) == 3;
}

double process_started_s(void)
{
    struct stat_line found;
    struct timespec now, since_boot;
    if (!read_stat(&found))
        return 0;
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_BOOTTIME, &since_boot);
    return (double)(now.tv_sec - since_boot.tv_sec) + (double)(now.tv_nsec - since_boot.tv_nsec) / 1e9 +
           (double)found.started / (double)sysconf(_SC_CLK_TCK);
}

/* Since Linux 6.2 the directory's size is the number; before, it is 0 and they are counted. */
static uint64_t open_descriptors(void)
{
    struct stat directory;
    uint64_t count = 0;
    if (stat("/proc/self/fd", &directory) == 0 && directory.st_size > 0)
        return (uint64_t)directory.st_size;
    DIR *list = opendir("/proc/self/fd");
    if (!list)
        return 0;
    for (const struct dirent *entry; (entry = readdir(list));)
        count += entry->d_name[0] != '.';
    closedir(list);
    return count - 1; /* less the list's own */
}

void process_facts_read(struct process_facts *facts)
{
    struct stat_line found;
    struct timespec used;
    struct rlimit limit;
    *facts = (struct process_facts){.open_descriptors = open_descriptors()};
    if (read_stat(&found)) {
        facts->virtual_bytes = found.virtual_bytes;
        facts->resident_bytes = (uint64_t)found.resident_pages * (uint64_t)sysconf(_SC_PAGESIZE);
    }
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0)
        facts->cpu_s = (double)used.tv_sec + (double)used.tv_nsec / 1e9;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        facts->max_descriptors = limit.rlim_cur;
}
