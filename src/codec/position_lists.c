/* Nested lists are read twice: to count what there is, and to keep it. Entered by whichever thread decodes. */
#include "codec/position_lists.h"

#include "json/reader.h"

#include <string.h>

/* What was counted, or, where there are places for it, kept. */
struct walk {
    uint32_t *entries; /* positions, or the ends of labels; NULL while counting */
    uint32_t *inner_ends, *outer_ends;
    char *labels;
    size_t n_entries, n_inner, n_outer, label_bytes;
};

static bool read_position(struct json_reader *r, struct walk *walk, struct error *error)
{
    int64_t position;
    if (!json_read_integer(r, 0, UINT32_MAX - 1, &position, error))
        return false;
    if (walk->entries)
        walk->entries[walk->n_entries] = (uint32_t)position;
    walk->n_entries++;
    return true;
}

static bool read_label(struct json_reader *r, struct walk *walk, struct error *error)
{
    struct json_key label;
    if (!json_read_in_place(r, &label, error))
        return false;
    if (walk->entries) {
        memcpy(walk->labels + walk->label_bytes, label.raw - 1, label.length + 2); /* with its quotes */
        walk->entries[walk->n_entries] = (uint32_t)(walk->label_bytes + label.length + 2);
    }
    walk->label_bytes += label.length + 2;
    walk->n_entries++;
    return true;
}

typedef bool entry_reader(struct json_reader *r, struct walk *walk, struct error *error);

static bool read_entries(struct json_reader *r, struct walk *walk, entry_reader *read, struct error *error)
{
    enum json_step step;
    if (!json_enter_array(r, error))
        return false;
    while ((step = json_next_element(r, error)) == JSON_ITEM)
        if (!read(r, walk, error))
            return false;
    return step == JSON_DONE;
}

/* A list of lists of positions. */
static bool read_words(struct json_reader *r, struct walk *walk, struct error *error)
{
    enum json_step step;
    if (!json_enter_array(r, error))
        return false;
    while ((step = json_next_element(r, error)) == JSON_ITEM) {
        if (!read_entries(r, walk, read_position, error))
            return false;
        if (walk->inner_ends)
            walk->inner_ends[walk->n_inner] = (uint32_t)walk->n_entries;
        walk->n_inner++;
    }
    return step == JSON_DONE;
}

enum contents { POSITIONS, WORDS, LABELS };

/* Lists, one for each sequence. */
static bool read_lists(struct json_reader *r, struct walk *walk, enum contents contents, struct error *error)
{
    enum json_step step;
    if (!json_enter_array(r, error))
        return false;
    while ((step = json_next_element(r, error)) == JSON_ITEM) {
        if (!(contents == WORDS ? read_words(r, walk, error)
                                : read_entries(r, walk, contents == LABELS ? read_label : read_position, error)))
            return false;
        if (walk->outer_ends)
            walk->outer_ends[walk->n_outer] = (uint32_t)(contents == WORDS ? walk->n_inner : walk->n_entries);
        walk->n_outer++;
    }
    return step == JSON_DONE;
}

static uint32_t *take_numbers(struct arena *arena, size_t count)
{
    return count <= UINT32_MAX ? arena_take(arena, count * sizeof(uint32_t)) : NULL;
}

/* Makes room for what the first walk has counted, and begins the second. */
static bool keep(struct walk *walk, enum contents contents, struct arena *arena, struct error *error)
{
    const struct walk counted = *walk;
    *walk = (struct walk){.entries = take_numbers(arena, counted.n_entries),
                          .outer_ends = take_numbers(arena, counted.n_outer)};
    if (contents == WORDS)
        walk->inner_ends = take_numbers(arena, counted.n_inner);
    if (contents == LABELS && counted.label_bytes <= UINT32_MAX)
        walk->labels = arena_take(arena, counted.label_bytes);
    if (!walk->entries || !walk->outer_ends || (contents == WORDS && !walk->inner_ends) ||
        (contents == LABELS && !walk->labels))
        return error_out_of_memory(error);
    return true;
}

bool position_lists_read(struct json_reader *r, struct arena *arena, struct position_lists *lists, struct error *error)
{
    const bool nested = json_peek_nested(r);
    struct json_reader again = *r;
    struct walk walk = {.n_outer = !nested};
    if (!(nested ? read_lists(r, &walk, POSITIONS, error) : read_entries(r, &walk, read_position, error)) ||
        !keep(&walk, POSITIONS, arena, error))
        return false;
    if (!(nested ? read_lists(&again, &walk, POSITIONS, error) : read_entries(&again, &walk, read_position, error)))
        return false;
    if (!nested)
        walk.outer_ends[walk.n_outer++] = (uint32_t)walk.n_entries;
    *lists = (struct position_lists){
        .n_lists = walk.n_outer, .nested = nested, .ends = walk.outer_ends, .positions = walk.entries};
    return true;
}

bool word_lists_read(struct json_reader *r, struct arena *arena, struct word_lists *lists, struct error *error)
{
    struct json_reader again = *r;
    struct walk walk = {0};
    if (!read_lists(r, &walk, WORDS, error) || !keep(&walk, WORDS, arena, error) ||
        !read_lists(&again, &walk, WORDS, error))
        return false;
    *lists = (struct word_lists){
        .n_lists = walk.n_outer, .list_ends = walk.outer_ends, .word_ends = walk.inner_ends, .positions = walk.entries};
    return true;
}

bool label_lists_read(struct json_reader *r, struct arena *arena, struct label_lists *lists, struct error *error)
{
    struct json_reader again = *r;
    struct walk walk = {0};
    if (!read_lists(r, &walk, LABELS, error) || !keep(&walk, LABELS, arena, error) ||
        !read_lists(&again, &walk, LABELS, error))
        return false;
    *lists = (struct label_lists){
        .n_lists = walk.n_outer, .list_ends = walk.outer_ends, .label_ends = walk.entries, .labels = walk.labels};
    return true;
}
