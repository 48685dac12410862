/* Owns what a digest is made of. Clients compare digests between servers and over years, so it changes only with the
 * version in its first bytes.
 *
 *     "attnd-weights/1" and a NUL, 16 bytes
 *     num_layers (1), projected (0 or 1), d_model, num_heads, num_kv_heads, d_k, d_v, the bits of scale as float32: 8
 * bytes each for W_Q, W_K, W_V, W_O, b_Q, b_K, b_V, b_O: rows (0 where absent), columns, 8 bytes each; then the float32
 * numbers, row-major, `x @ W` All little-endian. The source, the name, the file and its dtype are no part of it. */
#include "weights/digest.h"

#include <nettle/sha2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the numbers are hashed as they lie in memory");

static void add_number(struct sha256_ctx *hash, uint64_t number)
{
    sha256_update(hash, sizeof number, (const uint8_t *)&number);
}

void digest_write(const struct attention_shape *shape, const struct layer_tensors *tensors,
                  char text[DIGEST_TEXT_BYTES])
{
    static const char version[16] = "attnd-weights/1";
    uint32_t scale_bits;
    memcpy(&scale_bits, &shape->scale, sizeof scale_bits);
    const uint64_t numbers[] = {1,          shape->projected, shape->d_model, shape->num_heads, shape->num_kv_heads,
                                shape->d_k, shape->d_v,       scale_bits};
    struct sha256_ctx hash;
    sha256_init(&hash);
    sha256_update(&hash, sizeof version, (const uint8_t *)version);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        add_number(&hash, numbers[i]);
    for (unsigned i = 0; i < LAYER_TENSOR_COUNT; i++) {
        const struct layer_tensor *tensor = &tensors->items[i];
        add_number(&hash, tensor->rows);
        add_number(&hash, tensor->columns);
        if (tensor->rows)
            sha256_update(&hash, tensor->rows * tensor->columns * sizeof(float), (const uint8_t *)tensor->data);
    }
    uint8_t bytes[SHA256_DIGEST_SIZE];
    sha256_digest(&hash, sizeof bytes, bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}
