/* Text of a safetensors header. Owns nothing. */
#include "codec/safetensors_write.h"

#include "codec/tensor_write.h"

#include <stdint.h>

#define LENGTH_BYTES 8

/* The header ends, and the data begin, at a multiple of this. */
#define DATA_ALIGNMENT 8

void safetensors_write_begin(struct text *text)
{
    static const char no_length[LENGTH_BYTES];
    text_append(text, no_length, sizeof no_length);
    text_append_string(text, "{\"__metadata__\":{");
}

void safetensors_write_member(struct text *text, const char *name, const struct text *value)
{
    text_append_string(text, name);
    text_append_json(text, value->data, value->length);
    text->failed |= value->failed;
}

void safetensors_write_members_end(struct text *text)
{
    text_append(text, "}", 1);
}

void safetensors_write_entry(struct text *text, const char *name, enum dtype dtype, const size_t *shape, unsigned rank,
                             size_t offset, size_t bytes)
{
    text_append_format(text, ",\"%s\":{\"dtype\":\"%s\",\"shape\":", name, dtype_safetensors_name(dtype));
    tensor_write_shape(text, shape, rank);
    text_append_format(text, ",\"data_offsets\":[%zu,%zu]}", offset, offset + bytes);
}

void safetensors_write_end(struct text *text)
{
    text_append(text, "}", 1);
    while (text->length % DATA_ALIGNMENT && !text->failed)
        text_append(text, " ", 1);
    if (text->failed)
        return;
    const uint64_t length = text->length - LENGTH_BYTES;
    for (int i = 0; i < LENGTH_BYTES; i++)
        text->data[i] = (char)(length >> 8 * i);
}
