/* Owns the defaults and the checks of a weight set's numbers, so that every source has the same ones. No state. */
#include "weights/layer_shape.h"

#include "base/size.h"

#include <math.h>
#include <stdint.h>

/* True when every matrix, and all numbers of the layer together, fit in PTRDIFF_MAX bytes of float64, the widest format
 * of a file. */
static bool fits_in_memory(const struct attention_shape *shape)
{
    size_t columns, part, total, bytes;
    /* W_Q, W_K, W_V side by side, W_O turned, and b_O as one more row; their biases too: (rows + 1) * columns in all,
     * about. */
    if (!size_multiply(shape->num_heads, shape->d_k, &columns) ||
        !size_multiply(shape->num_kv_heads, shape->d_k, &part) || !size_add(columns, part, &columns) ||
        !size_multiply(shape->num_kv_heads, shape->d_v, &part) || !size_add(columns, part, &columns) ||
        !size_multiply(shape->num_heads, shape->d_v, &part) || !size_add(columns, part, &columns) ||
        !size_add(columns, 1, &columns) || !size_add(shape->d_model, 1, &total))
        return false;
    return tensor_bytes((const size_t[]){columns, total}, 2, sizeof(double), &bytes);
}

static bool check_identity(const struct weights_config *config, const struct attention_shape *shape,
                           struct error *error)
{
    if (shape->num_kv_heads != shape->num_heads)
        return error_set_at(error, ERROR_INVALID, "/num_kv_heads",
                            "source identity has a key and value head for each of its %zu heads, not num_kv_heads %zu",
                            shape->num_heads, shape->num_kv_heads);
    size_t d = shape->d_model / shape->num_heads;
    if (shape->d_model % shape->num_heads != 0)
        return error_set_at(error, ERROR_INVALID, "/num_heads", "d_model %zu is not a multiple of num_heads %zu",
                            shape->d_model, shape->num_heads);
    if (config->d_k && config->d_k != d)
        return error_set_at(error, ERROR_INVALID, "/d_k",
                            "d_k is d_model / num_heads, %zu, in source identity, not %zu", d, config->d_k);
    if (config->d_v && config->d_v != d)
        return error_set_at(error, ERROR_INVALID, "/d_v",
                            "d_v is d_model / num_heads, %zu, in source identity, not %zu", d, config->d_v);
    return true;
}

bool layer_shape_make(const struct weights_config *config, size_t d_model, struct attention_shape *shape,
                      struct error *error)
{
    struct attention_shape made = {
        .d_model = d_model,
        .num_heads = config->num_heads,
        .num_kv_heads = config->num_kv_heads ? config->num_kv_heads : config->num_heads,
        .d_k = config->d_k,
        .projected = config->source != WEIGHTS_IDENTITY,
    };
    if (made.d_model == 0)
        return error_set_at(error, ERROR_INVALID, "/d_model", "d_model is 0, expected at least 1");
    if (made.num_heads == 0)
        return error_set_at(error, ERROR_INVALID, "/num_heads", "num_heads is 0, expected at least 1");
    if (made.num_heads % made.num_kv_heads != 0)
        return error_set_at(error, ERROR_INVALID, "/num_kv_heads",
                            "num_heads %zu is not a multiple of num_kv_heads %zu", made.num_heads, made.num_kv_heads);
    if (!made.projected && !check_identity(config, &made, error))
        return false;
    if (made.d_k == 0) {
        if (made.d_model % made.num_heads != 0)
            return error_set_at(error, ERROR_INVALID, "/num_heads",
                                "d_model %zu is not a multiple of num_heads %zu, and no d_k is given", made.d_model,
                                made.num_heads);
        made.d_k = made.d_model / made.num_heads;
    }
    made.d_v = config->d_v ? config->d_v : made.d_k;
    if (!fits_in_memory(&made))
        return error_set_at(
            error, ERROR_INVALID, NULL,
            "d_model %zu, num_heads %zu, num_kv_heads %zu, d_k %zu and d_v %zu make matrices larger than any memory",
            made.d_model, made.num_heads, made.num_kv_heads, made.d_k, made.d_v);

    /* In source numpy `scale` multiplies the draws, so its scores have the usual one. */
    bool has_own = config->has_scale && config->source != WEIGHTS_NUMPY;
    made.scale = (float)(has_own ? config->scale : 1 / sqrt((double)made.d_k));
    if (!isfinite(made.scale))
        return error_set_at(error, ERROR_INVALID, "/scale", "scale %g is not a finite float32", config->scale);
    *shape = made;
    return true;
}
