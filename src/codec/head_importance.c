/* Nothing is held; any thread. */
#include "codec/head_importance.h"

#include "json/reader.h"

static bool read_layer(struct json_reader *r, size_t num_heads, double *values, struct error *error)
{
    enum json_step step;
    size_t count = 0;
    double value;
    if (!json_enter_array(r, error))
        return false;
    while ((step = json_next_element(r, error)) == JSON_ITEM) {
        if (!json_read_double(r, &value, error))
            return false;
        if (value < 0)
            return json_error(r, error, ERROR_INVALID, "the importance is %g, expected a number of at least 0", value);
        if (count < num_heads)
            values[count] = value;
        count++;
    }
    if (step == JSON_FAILED)
        return false;
    return count == num_heads ||
           json_error(r, error, ERROR_INVALID, "%zu numbers, expected %zu, one for each head", count, num_heads);
}

static bool read_layers(struct json_reader *r, size_t num_layers, size_t num_heads, double *values, struct error *error)
{
    enum json_step step;
    size_t count = 0;
    if (num_layers == 1 && !json_peek_nested(r))
        return read_layer(r, num_heads, values, error);
    if (!json_enter_array(r, error))
        return false;
    while ((step = json_next_element(r, error)) == JSON_ITEM) {
        if (count == num_layers)
            return json_error(r, error, ERROR_INVALID, "more lists than layers, of which there are %zu", num_layers);
        if (!read_layer(r, num_heads, values + count * num_heads, error))
            return false;
        count++;
    }
    if (step == JSON_FAILED)
        return false;
    return count == num_layers ||
           json_error(r, error, ERROR_INVALID, "%zu lists, expected %zu, one for each layer", count, num_layers);
}

bool head_importance_read(const char *name, const char *text, size_t length, size_t num_layers, size_t num_heads,
                          double *values, struct error *error)
{
    struct json_reader r;
    if (name)
        json_reader_init_member(&r, name, text, length);
    else
        json_reader_init(&r, text, length);
    return read_layers(&r, num_layers, num_heads, values, error) && json_finish(&r, error);
}
