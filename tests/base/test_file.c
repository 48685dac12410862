#include "base/file.h"
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A name in a folder of its own. */
struct place {
    char folder[32], path[48];
};

static void place_init(struct place *place)
{
    strcpy(place->folder, "/tmp/attnd-file-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(place->folder));
    snprintf(place->path, sizeof place->path, "%s/file", place->folder);
}

static void place_remove(const struct place *place)
{
    unlink(place->path);
    ck_assert_int_eq(rmdir(place->folder), 0);
}

START_TEST(reads_all_up_to_the_most)
{
    enum { BYTES = 100000 };
    struct place place;
    place_init(&place);
    FILE *file = fopen(place.path, "w");
    for (int i = 0; i < BYTES; i++)
        fputc('a' + i % 23, file);
    fclose(file);
    for (size_t most = BYTES - 1; most <= BYTES + 1; most++) {
        struct text text = {0};
        text_append_string(&text, "before");
        ck_assert_int_eq(file_read(place.path, most, &text), most < BYTES ? EFBIG : 0);
        ck_assert_int_eq(memcmp(text.data, "before", 6), 0);
        if (most >= BYTES) {
            ck_assert_uint_eq(text.length, 6 + BYTES);
            for (int i = 0; i < BYTES; i++)
                ck_assert_int_eq(text.data[6 + i], 'a' + i % 23);
        }
        text_free(&text);
    }
    place_remove(&place);
}
END_TEST

START_TEST(says_why_it_cannot)
{
    struct place place;
    struct text text = {0};
    place_init(&place);
    ck_assert_int_eq(file_read(place.path, 100, &text), ENOENT);
    ck_assert_int_eq(file_read(place.folder, 100, &text), EISDIR);
    ck_assert_int_eq(file_read("/dev/zero", 100000, &text), EFBIG);
    text_free(&text);
    place_remove(&place);
}
END_TEST

START_TEST(a_pipe_without_a_writer_is_empty)
{
    struct place place;
    struct text text = {0};
    place_init(&place);
    ck_assert_int_eq(mkfifo(place.path, 0600), 0);
    ck_assert_int_eq(file_read(place.path, 100, &text), 0);
    ck_assert_uint_eq(text.length, 0);
    text_free(&text);
    place_remove(&place);
}
END_TEST

static void *write_late(void *argument)
{
    const int descriptor = *(const int *)argument;
    usleep(50000);
    ck_assert_int_eq(write(descriptor, "late", 4), 4);
    close(descriptor);
    return NULL;
}

START_TEST(a_late_writer_is_waited_for)
{
    int ends[2];
    char path[32];
    struct text text = {0};
    pthread_t thread;
    ck_assert_int_eq(pipe(ends), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    ck_assert_int_eq(pthread_create(&thread, NULL, write_late, &ends[1]), 0);
    ck_assert_int_eq(file_read(path, 100, &text), 0);
    ck_assert_uint_eq(text.length, 4);
    ck_assert_int_eq(memcmp(text.data, "late", 4), 0);
    pthread_join(thread, NULL);
    close(ends[0]);
    text_free(&text);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("file");
    TCase *c = tcase_create("file");
    tcase_add_test(c, reads_all_up_to_the_most);
    tcase_add_test(c, says_why_it_cannot);
    tcase_add_test(c, a_pipe_without_a_writer_is_empty);
    tcase_add_test(c, a_late_writer_is_waited_for);
    suite_add_tcase(s, c);
    return s;
}
