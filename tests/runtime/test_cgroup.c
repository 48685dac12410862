/* src/runtime/cgroup.c, on trees of files made here. */
#include "suite.h"

#include "runtime/cgroup.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/attnd-cgroup-XXXXXX"; /* each test is a process of its own */

static void make_root(void)
{
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

static void remove_root(void)
{
    nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void write_file(const char *name, const char *content)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    ck_assert_int_gt(length, 0);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(content, file), 0);
    fclose(file);
}

#define V2_MOUNT "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"

START_TEST(nothing_there)
{
    uint64_t bytes = 7;
    double cpus = 7;
    ck_assert(!cgroup_memory_limit(root, &bytes));
    ck_assert(!cgroup_cpu_quota(root, &cpus));
    write_file("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\nnonsense\n\n" V2_MOUNT);
    write_file("/proc/self/cgroup", "nonsense\n0::/\n");
    ck_assert(!cgroup_memory_limit(root, &bytes));
    ck_assert(!cgroup_cpu_quota(root, &cpus));
    ck_assert_uint_eq(bytes, 7);
    ck_assert(cpus == 7);
}
END_TEST

START_TEST(v2_own_group)
{
    uint64_t bytes;
    double cpus;
    write_file("/proc/self/mountinfo", V2_MOUNT);
    write_file("/proc/self/cgroup", "0::/a.slice/b.service\n");
    write_file("/sys/fs/cgroup/a.slice/memory.max", "max\n");
    write_file("/sys/fs/cgroup/a.slice/cpu.max", "max 100000\n");
    write_file("/sys/fs/cgroup/a.slice/b.service/memory.max", "1073741824\n");
    write_file("/sys/fs/cgroup/a.slice/b.service/cpu.max", "150000 100000\n");
    write_file("/sys/fs/cgroup/other/memory.max", "1\n");
    ck_assert(cgroup_memory_limit(root, &bytes));
    ck_assert_uint_eq(bytes, 1073741824);
    ck_assert(cgroup_cpu_quota(root, &cpus));
    ck_assert(cpus == 1.5);
}
END_TEST

START_TEST(v2_ancestor_is_tighter)
{
    uint64_t bytes;
    double cpus;
    write_file("/proc/self/mountinfo", V2_MOUNT);
    write_file("/proc/self/cgroup", "0::/a/b/c\n");
    write_file("/sys/fs/cgroup/a/memory.max", "500\n");
    write_file("/sys/fs/cgroup/a/b/memory.max", "400\n");
    write_file("/sys/fs/cgroup/a/b/c/memory.max", "600\n");
    write_file("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
    write_file("/sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n");
    ck_assert(cgroup_memory_limit(root, &bytes));
    ck_assert_uint_eq(bytes, 400);
    ck_assert(cgroup_cpu_quota(root, &cpus));
    ck_assert(cpus == 0.5);
}
END_TEST

/* In a container with a namespace of its own the files lie at the mount point. */
START_TEST(v2_at_the_mount_point)
{
    uint64_t bytes;
    double cpus;
    write_file("/proc/self/mountinfo", V2_MOUNT);
    write_file("/proc/self/cgroup", "0::/\n");
    write_file("/sys/fs/cgroup/memory.max", "12345\n");
    write_file("/sys/fs/cgroup/cpu.max", "300000 100000");
    ck_assert(cgroup_memory_limit(root, &bytes));
    ck_assert_uint_eq(bytes, 12345);
    ck_assert(cgroup_cpu_quota(root, &cpus));
    ck_assert(cpus == 3);
}
END_TEST

/* Without one the group's path is the host's, and so is the mount's root. */
START_TEST(path_below_the_mounts_root)
{
    uint64_t bytes;
    write_file("/proc/self/mountinfo", "29 23 0:26 /docker/abc /sys/fs/my\\040group ro - cgroup2 cgroup rw\n");
    write_file("/proc/self/cgroup", "0::/docker/abc/inner\n");
    write_file("/sys/fs/my group/inner/memory.max", "777\n");
    write_file("/sys/fs/my group/docker/abc/inner/memory.max", "1\n");
    ck_assert(cgroup_memory_limit(root, &bytes));
    ck_assert_uint_eq(bytes, 777);
    /* A name that only begins alike, and a path that leaves the namespace: the mount point is what there is. */
    write_file("/sys/fs/my group/memory.max", "888\n");
    write_file("/proc/self/cgroup", "0::/docker/abcd\n");
    ck_assert(cgroup_memory_limit(root, &bytes));
    ck_assert_uint_eq(bytes, 888);
    write_file("/proc/self/cgroup", "0::/docker/abc/../../inner\n");
    ck_assert(cgroup_memory_limit(root, &bytes));
    ck_assert_uint_eq(bytes, 888);
}
END_TEST

#define V1_MOUNTS                                                                                   \
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:1 master:2 - cgroup cgroup rw,cpu,cpuacct\n" \
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"                             \
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"                             \
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

START_TEST(v1)
{
    uint64_t bytes;
    double cpus;
    write_file("/proc/self/mountinfo", V1_MOUNTS);
    write_file("/proc/self/cgroup", "4:memory:/box/one\n3:cpuset:/set\n1:cpu,cpuacct:/box\n0::/\n");
    write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    write_file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    write_file("/sys/fs/cgroup/cpuset/set/cpu.cfs_quota_us", "1\n");
    write_file("/sys/fs/cgroup/cpuset/set/cpu.cfs_period_us", "100000\n");
    ck_assert(!cgroup_memory_limit(root, &bytes));
    ck_assert(!cgroup_cpu_quota(root, &cpus));
    write_file("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "4096000\n");
    write_file("/sys/fs/cgroup/memory/box/one/memory.limit_in_bytes", "8192000\n");
    write_file("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "25000\n");
    write_file("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "10000\n");
    ck_assert(cgroup_memory_limit(root, &bytes));
    ck_assert_uint_eq(bytes, 4096000);
    ck_assert(cgroup_cpu_quota(root, &cpus));
    ck_assert(cpus == 2.5);
}
END_TEST

START_TEST(both_versions_side_by_side)
{
    uint64_t bytes;
    write_file("/proc/self/mountinfo", V1_MOUNTS);
    write_file("/proc/self/cgroup", "4:memory:/box\n0::/box\n");
    write_file("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "5000\n");
    write_file("/sys/fs/cgroup/unified/box/memory.max", "4000\n");
    ck_assert(cgroup_memory_limit(root, &bytes));
    ck_assert_uint_eq(bytes, 4000);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("cgroup");
    TCase *t = tcase_create("cgroup");
    tcase_add_checked_fixture(t, make_root, remove_root);
    tcase_add_test(t, nothing_there);
    tcase_add_test(t, v2_own_group);
    tcase_add_test(t, v2_ancestor_is_tighter);
    tcase_add_test(t, v2_at_the_mount_point);
    tcase_add_test(t, path_below_the_mounts_root);
    tcase_add_test(t, v1);
    tcase_add_test(t, both_versions_side_by_side);
    suite_add_tcase(s, t);
    return s;
}
