/* The allowed keys of each row, by mask and causal. Any thread. */

#include "analysis/scored_rows.h"

#include "base/size.h"

#include <string.h>

size_t allowed_key_limit(const struct forward_input *input, size_t row)
{
    if (!input->causal)
        return input->key_length;
    const size_t end = row + 1 + input->key_length;
    return end <= input->query_length ? 0 : size_min(end - input->query_length, input->key_length);
}

const uint8_t *allowed_keys(const struct forward_input *input, size_t sequence, size_t row)
{
    switch (input->mask_kind) {
    case FORWARD_MASK_KEYS:
        return input->mask + sequence * input->key_length;
    case FORWARD_MASK_PAIRS:
        return input->mask + (sequence * input->query_length + row) * input->key_length;
    case FORWARD_MASK_NONE:
        break;
    }
    return NULL;
}

static bool is_scored(const struct forward_input *input, size_t sequence, size_t row)
{
    const size_t limit = allowed_key_limit(input, row);
    const uint8_t *allowed = allowed_keys(input, sequence, row);
    if (input->self_attention && input->mask_kind == FORWARD_MASK_KEYS && !allowed[row])
        return false;
    return allowed ? limit > 0 && memchr(allowed, 1, limit) : limit > 0;
}

size_t scored_rows(const struct forward_input *input, uint8_t *scored)
{
    size_t count = 0;
    for (size_t sequence = 0; sequence < input->batch; sequence++)
        for (size_t row = 0; row < input->query_length; row++)
            count += *scored++ = is_scored(input, sequence, row);
    return count;
}
