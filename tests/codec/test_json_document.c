/* What a document takes while it is read is never more than was foreseen, for texts that make most of each byte. */
#include "codec/json_document.h"

#include "base/text.h"
#include "codec/expect.h"

#include <stdlib.h>
#include <string.h>

static size_t held, peak;

/* As glibc has it: a chunk is a multiple of 16 bytes, its own 8 among them, and at least 32. */
static size_t chunk_of(size_t bytes)
{
    const size_t chunk = (bytes + 8 + 15) / 16 * 16;
    return chunk < 32 ? 32 : chunk;
}

static void *allocate(size_t bytes)
{
    size_t *memory = malloc(bytes + 16);
    ck_assert_ptr_nonnull(memory);
    memory[0] = bytes;
    held += chunk_of(bytes);
    peak = held > peak ? held : peak;
    return memory + 2;
}

static void release(void *memory)
{
    if (!memory)
        return;
    held -= chunk_of(((size_t *)memory)[-2]);
    free((size_t *)memory - 2);
}

/* `open`, then `element` so many times with the number in the place of #, and `close`. */
static const struct {
    const char *open, *element, *close;
    size_t count;
} TEXTS[] = {
    {"[", "0", "]", 100000},
    {"[", "1.5", "]", 70000},
    {"[", "[]", "]", 70000},
    {"[", "[0]", "]", 70000},
    {"[", "{}", "]", 70000},
    {"[", "\"\"", "]", 70000},
    {"[", "\"abcdefghi\"", "]", 70000},
    {"{", "\"#\":0", "}", 70000},
    {"{", "\"#\":{}", "}", 40000},
    {"{", "\"#\":[]", "}", 40000},
    {"[", "{\"a\":\"\"}", "]", 50000},
    {"[[[[[[[[", "{\"a\":[[]]}", "]]]]]]]]", 30000},
    {"[", "0", "]", 1},
    {"[\"", "x", "\"]", 1},
};

START_TEST(memory_that_was_foreseen)
{
    struct text text = {0};
    json_error_t fault;
    bool out_of_memory;
    json_decref(json_document_read("[]", 2, NULL, &fault, &out_of_memory)); /* sets its own allocator */
    json_set_alloc_funcs(allocate, release);
    text_append_string(&text, TEXTS[_i].open);
    for (size_t i = 0; i < TEXTS[_i].count; i++) {
        const char *element = TEXTS[_i].element, *number = strchr(element, '#');
        text_append_string(&text, i ? "," : "");
        text_append(&text, element, number ? (size_t)(number - element) : strlen(element));
        if (number)
            text_append_format(&text, "%zu%s", i, number + 1);
    }
    text_append_string(&text, TEXTS[_i].close);
    ck_assert(!text.failed);
    json_t *document = json_document_read(text.data, text.length, NULL, &fault, &out_of_memory);
    ck_assert_msg(document != NULL, "%s", fault.text);
    json_decref(document);
    ck_assert_uint_le(peak, json_document_bytes(text.data, text.length));
    text_free(&text);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("codec/json_document");
    TCase *t = tcase_create("json_document");
    tcase_add_loop_test(t, memory_that_was_foreseen, 0, sizeof TEXTS / sizeof *TEXTS);
    suite_add_tcase(s, t);
    return s;
}
