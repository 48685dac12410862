/* Fuzzes the documents that POST /v1/heads/merge adds up: what is accepted gives a document that is accepted again,
 * with the same counts. */
#include "codec/live_state.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void read_again(const struct live_merge *merge)
{
    struct live_merge again;
    struct error error;
    struct text text = {0};
    size_t most;
    check(live_state_bytes(&merge->sum, &most));
    text_append_string(&text, "{\"states\":[");
    live_state_write(&merge->sum, &text);
    text_append_string(&text, "]}");
    check(!text.failed && text.length <= most + 13);
    /* Counts may have grown beyond what is whole, and sums beyond what is finite. */
    if (live_merge_read(text.data, text.length, NULL, &again, &error))
        check(again.documents == 1 && again.sum.sums.counts.rows == merge->sum.sums.counts.rows);
    live_merge_free(&again);
    text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct live_merge merge;
    struct error error;
    if (live_merge_read((const char *)data, size, NULL, &merge, &error))
        read_again(&merge);
    else
        check(error.code != ERROR_NONE && error.message[0]);
    live_merge_free(&merge);
    return 0;
}
