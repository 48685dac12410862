/* Owns what a model's digest is made of. Clients compare digests between servers and over years, so it changes only
 * with the version in its first bytes.
 *
 *     "attnd-weights/2" and a NUL, 16 bytes
 *     numbers of 8 bytes each, little-endian, reals as the bits of float32: those of add_shape, in its order
 *     for each tensor in the order of model_tensor: rows (0 where absent), columns; the hash of tensor_hash.h
 *
 * Names, files, their formats and layouts are no part of it. */
#include "weights/model_digest.h"

#include "weights/digest_hash.h"

#include <string.h>

static void add_real(struct sha256_ctx *hash, float real)
{
    uint32_t bits;
    memcpy(&bits, &real, sizeof bits);
    digest_add_number(hash, bits);
}

static void add_norm(struct sha256_ctx *hash, const struct norm_shape *norm)
{
    digest_add_number(hash, norm->kind);
    add_real(hash, norm->kind == NORM_NONE ? 0 : norm->eps);
}

static void add_shape(struct sha256_ctx *hash, const struct model_shape *shape)
{
    const struct attention_shape *a = &shape->attention;
    const struct embeddings_shape *e = &shape->embeddings;
    const uint64_t whole[] = {shape->num_layers, a->projected, a->d_model, a->num_heads,
                              a->num_kv_heads,   a->d_k,       a->d_v};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        digest_add_number(hash, whole[i]);
    for (size_t n = 0; n < shape->num_layers; n++) {
        const struct layer_shape *layer = &shape->layers[n];
        add_real(hash, layer->scale);
        digest_add_number(hash, layer->placement);
        digest_add_number(hash, layer->residual);
        add_norm(hash, &layer->norm1);
        add_norm(hash, &layer->norm2);
        digest_add_number(hash, layer->ffn.kind);
    }
    const uint64_t before[] = {e->present,    e->position_offset, e->count_padding_id, e->padding_id, e->token_dropout,
                               e->mask_token, e->zero_padding,    e->channels,         e->image_size, e->patch_size};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        digest_add_number(hash, before[i]);
    add_real(hash, e->scale);
    add_norm(hash, &e->norm);
    add_norm(hash, &shape->final_norm);
}

void model_digest_write(const struct model_shape *shape, const uint8_t (*hashes)[TENSOR_HASH_BYTES],
                        char text[DIGEST_TEXT_BYTES])
{
    static const char version[16] = "attnd-weights/2";
    struct sha256_ctx hash;
    sha256_init(&hash);
    sha256_update(&hash, sizeof version, (const uint8_t *)version);
    add_shape(&hash, shape);
    for (size_t i = 0; i < model_tensors(shape); i++) {
        const struct slot_extent extent = model_slot_extent(shape, model_tensor(shape, i));
        digest_add_number(&hash, extent.rows);
        digest_add_number(&hash, extent.columns);
        if (extent.rows)
            sha256_update(&hash, sizeof hashes[i], hashes[i]);
    }
    digest_finish(&hash, text);
}
