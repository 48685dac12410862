/* A byte buffer for building text, growable or over memory of the caller's. One thread at a time.
 *
 * A failed allocation, or an append beyond the caller's memory, sets `failed` and turns every later append into
 * nothing, so that a long piece of building is checked once, at its end. */
#ifndef ATTND_BASE_TEXT_H
#define ATTND_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct text {
    char *data; /* NULL until the first append; not NUL-terminated unless text_terminate was called */
    size_t length, capacity;
    bool failed;
    bool fixed; /* the data is the caller's: it is neither moved nor freed */
};

/* An empty text over `buffer` [capacity], which stays the caller's. It never allocates. */
void text_init_fixed(struct text *text, char *buffer, size_t capacity);

/* The same where the memory is not enough yet, or an append has failed. */
char *text_reserve_more(struct text *text, size_t more);

/* Room for `more` bytes behind the length: returns where they start, or NULL (and sets failed). Add to `length` what
 * was written. */
static inline char *text_reserve(struct text *text, size_t more)
{
    if (text->failed || more > text->capacity - text->length)
        return text_reserve_more(text, more);
    return text->data + text->length;
}

static inline void text_append(struct text *text, const char *data, size_t length)
{
    char *to = length ? text_reserve(text, length) : NULL;
    if (!to)
        return;
    memcpy(to, data, length);
    text->length += length;
}

static inline void text_append_string(struct text *text, const char *string)
{
    text_append(text, string, strlen(string));
}

/* In decimal. */
void text_append_size(struct text *text, size_t value);
/* Needs room for one byte more than it appends. */
void text_append_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends `string` (UTF-8, `length` bytes) as a JSON string with its quotes; what is not valid UTF-8 becomes U+FFFD. */
void text_append_json(struct text *text, const char *string, size_t length);

/* Writes a NUL behind the text (not counted in `length`) and returns the data, or NULL when any append had failed. */
const char *text_terminate(struct text *text);

/* The text is empty and growable afterwards. */
void text_free(struct text *text);

/* Fresh memory with `length` bytes of `from` and a NUL behind them; NULL when memory ran out. Unlike strndup it does not
 * look for a NUL in them, so that none need stand behind. */
char *text_copy(const char *from, size_t length);

#endif
