/* Owns which members a block has and which of them go together. Pure functions: any thread. */
#include "weights/blocks_members.h"

#include "json/names.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define DEFAULT_EPS 1e-5
#define PER_HEAD    "{head}"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool read_name(struct json_reader *r, struct block_name *name, struct error *error)
{
    json_peek(r);
    const char *before = r->at;
    if (!json_read_in_place(r, &name->name, error))
        return false;
    if (name->name.length == 0) {
        r->at = before;
        return json_error(r, error, ERROR_INVALID, "expected the name of a tensor in the file, got \"\"");
    }
    json_pointer(r, name->pointer, sizeof name->pointer);
    return true;
}

/* The index of the name at the reader among `names` [count]; `what` it is in words. */
static bool read_choice(struct json_reader *r, const char *what, const char *const *names, size_t count, size_t *index,
                        struct error *error)
{
    struct json_key word;
    char shown[NAMES_SHOWN_BYTES], text[sizeof error->message];
    json_peek(r);
    const char *before = r->at;
    if (!json_read_in_place(r, &word, error))
        return false;
    for (*index = 0; *index < count; ++*index)
        if (json_key_is(&word, names[*index]))
            return true;
    names_show(&word, shown);
    names_unknown(what, shown, names, count, text, sizeof text);
    r->at = before;
    return json_error(r, error, ERROR_INVALID, "%s", text);
}

/* A number that float32 holds, above 0 unless `any`. */
static bool read_number(struct json_reader *r, bool any, double *number, struct error *error)
{
    double value;
    json_peek(r);
    const char *before = r->at;
    if (!json_read_double(r, &value, error))
        return false;
    if (fabs(value) > (double)FLT_MAX || !(any || value > 0)) {
        r->at = before;
        return json_error(r, error, ERROR_INVALID, "expected a number%s that float32 holds, got %g",
                          any ? "" : " above 0", value);
    }
    *number = value;
    return true;
}

/* True, and passed, where null stands. */
static bool is_null(struct json_reader *r)
{
    struct error ignored;
    return json_peek(r) == JSON_NULL && json_read_null(r, &ignored);
}

static bool missing(const struct json_reader *r, const char *member, struct error *error)
{
    return json_error(r, error, ERROR_INVALID, "missing \"%s\"", member);
}

/* ---- norms */

static bool norm_kind(struct json_reader *r, void *context, struct error *error)
{
    static const char *const names[] = {[NORM_NONE] = "none", [NORM_LAYER] = "layer_norm", [NORM_RMS] = "rms_norm"};
    size_t kind;
    if (!read_choice(r, "norm", names, COUNT(names), &kind, error))
        return false;
    ((struct block_norm *)context)->kind = (enum norm_kind)kind;
    return true;
}

static bool norm_gain(struct json_reader *r, void *context, struct error *error)
{
    return read_name(r, &((struct block_norm *)context)->gain, error);
}

static bool norm_bias(struct json_reader *r, void *context, struct error *error)
{
    return is_null(r) || read_name(r, &((struct block_norm *)context)->bias, error);
}

static bool norm_eps(struct json_reader *r, void *context, struct error *error)
{
    return read_number(r, false, &((struct block_norm *)context)->eps, error);
}

bool block_norm_read(struct json_reader *r, struct block_norm *norm, struct error *error)
{
    static const struct json_member members[] = {
        {"kind", norm_kind}, {"gain", norm_gain}, {"bias", norm_bias}, {"eps", norm_eps}};
    struct block_norm read = {.eps = DEFAULT_EPS};
    uint64_t seen = 0;
    if (is_null(r)) {
        *norm = read;
        return true;
    }
    if (!json_read_object(r, members, COUNT(members), &read, &seen, error))
        return false;
    if (!(seen & 1))
        return missing(r, "kind", error);
    if (read.kind != NORM_NONE && !read.gain.name.raw)
        return missing(r, "gain", error);
    if (read.kind == NORM_NONE && seen != 1)
        return json_error(r, error, ERROR_INVALID, "kind none has no other member");
    *norm = read;
    return true;
}

/* ---- ffn */

static bool ffn_kind(struct json_reader *r, void *context, struct error *error)
{
    static const char *const names[] = {
#define FFN_NAME(code, name, activation, gated) [code] = name,
        FFN_KINDS(FFN_NAME)
#undef FFN_NAME
    };
    size_t kind;
    if (!read_choice(r, "ffn", names, COUNT(names), &kind, error))
        return false;
    ((struct block_ffn *)context)->kind = (enum ffn_kind)kind;
    return true;
}

#define FFN_MEMBER(member)                                                                \
    static bool ffn_##member(struct json_reader *r, void *context, struct error *error)   \
    {                                                                                     \
        return is_null(r) || read_name(r, &((struct block_ffn *)context)->member, error); \
    }
FFN_MEMBER(w_1)
FFN_MEMBER(b_1)
FFN_MEMBER(w_gate)
FFN_MEMBER(b_gate)
FFN_MEMBER(w_2)
FFN_MEMBER(b_2)

static bool read_ffn(struct json_reader *r, void *context, struct error *error)
{
    static const struct json_member members[] = {{"kind", ffn_kind},     {"W_1", ffn_w_1},       {"b_1", ffn_b_1},
                                                 {"W_gate", ffn_w_gate}, {"b_gate", ffn_b_gate}, {"W_2", ffn_w_2},
                                                 {"b_2", ffn_b_2}};
    struct block_ffn read = {0}, *ffn = &((struct block_layer *)context)->ffn;
    uint64_t seen = 0;
    if (is_null(r)) {
        *ffn = read;
        return true;
    }
    if (!json_read_object(r, members, COUNT(members), &read, &seen, error))
        return false;
    if (!(seen & 1))
        return missing(r, "kind", error);
    if (read.kind == FFN_NONE && seen != 1)
        return json_error(r, error, ERROR_INVALID, "kind none has no other member");
    if (read.kind != FFN_NONE && !read.w_1.name.raw)
        return missing(r, "W_1", error);
    if (read.kind != FFN_NONE && !read.w_2.name.raw)
        return missing(r, "W_2", error);
    if (ffn_is_gated(read.kind) && !read.w_gate.name.raw)
        return missing(r, "W_gate", error);
    if (!ffn_is_gated(read.kind) && (read.w_gate.name.raw || read.b_gate.name.raw))
        return json_error(r, error, ERROR_INVALID, "\"%s\" belongs to a gated kind: geglu, geglu_tanh or swiglu",
                          read.w_gate.name.raw ? "W_gate" : "b_gate");
    *ffn = read;
    return true;
}

/* ---- tensors of the attention */

#define TENSOR_MEMBER(code, name)                                                      \
    static bool read_##code(struct json_reader *r, void *context, struct error *error) \
    {                                                                                  \
        return read_name(r, &((struct block_name *)context)[code], error);             \
    }
WEIGHT_TENSORS(TENSOR_MEMBER)
#undef TENSOR_MEMBER

static bool holds(const struct block_name *name, const char *mark)
{
    return name->name.raw && memmem(name->name.raw, name->name.length, mark, strlen(mark)) != NULL;
}

static bool read_tensors(struct json_reader *r, void *context, struct error *error)
{
    static const struct json_member members[] = {
#define TENSOR_ROW(code, name) {name, read_##code},
        WEIGHT_TENSORS(TENSOR_ROW)
#undef TENSOR_ROW
    };
    static const enum weight_tensor whole[] = {TENSOR_W_QKV, TENSOR_W_O, TENSOR_B_QKV, TENSOR_B_O};
    static const enum weight_tensor fused[] = {TENSOR_W_QKV, TENSOR_B_QKV},
                                    apart[][3] = {{TENSOR_W_Q, TENSOR_W_K, TENSOR_W_V},
                                                  {TENSOR_B_Q, TENSOR_B_K, TENSOR_B_V}};
    struct block_name read[WEIGHT_TENSOR_COUNT] = {0};
    if (!json_read_object(r, members, COUNT(members), read, NULL, error))
        return false;
    for (size_t i = 0; i < COUNT(whole); i++)
        if (holds(&read[whole[i]], PER_HEAD))
            return json_error(r, error, ERROR_INVALID,
                              "\"%s\" is one tensor for all heads: its name may not hold {head}",
                              members[whole[i]].name);
    for (size_t g = 0; g < COUNT(fused); g++)
        for (size_t i = 0; i < 3; i++)
            if (read[fused[g]].name.raw && read[apart[g][i]].name.raw)
                return json_error(r, error, ERROR_INVALID,
                                  "\"%s\" stands for queries, keys and values: \"%s\" may not be beside it",
                                  members[fused[g]].name, members[apart[g][i]].name);
    for (size_t i = 0; i < 3 && !read[TENSOR_W_QKV].name.raw; i++)
        if (!read[apart[0][i]].name.raw)
            return missing(r, members[apart[0][i]].name, error);
    if (!read[TENSOR_W_O].name.raw)
        return missing(r, "W_O", error);
    memcpy(((struct block_layer *)context)->tensors, read, sizeof read);
    return true;
}

/* ---- layers */

static bool read_placement(struct json_reader *r, void *context, struct error *error)
{
    static const char *const names[] = {[PLACEMENT_PRE] = "pre", [PLACEMENT_POST] = "post"};
    size_t placement;
    if (!read_choice(r, "placement", names, COUNT(names), &placement, error))
        return false;
    ((struct block_layer *)context)->placement = (enum placement)placement;
    return true;
}

static bool read_residual(struct json_reader *r, void *context, struct error *error)
{
    return json_read_bool(r, &((struct block_layer *)context)->residual, error);
}

static bool read_norm1(struct json_reader *r, void *context, struct error *error)
{
    return block_norm_read(r, &((struct block_layer *)context)->norm1, error);
}

static bool read_norm2(struct json_reader *r, void *context, struct error *error)
{
    return block_norm_read(r, &((struct block_layer *)context)->norm2, error);
}

static bool put_by(struct json_reader *r, struct block_rule *rule, struct error *error)
{
    json_peek(r);
    *rule = (struct block_rule){.at = *r, .given = true};
    return json_skip(r, NULL, NULL, error);
}

static bool read_position(struct json_reader *r, void *context, struct error *error)
{
    return put_by(r, &((struct block_layer *)context)->position, error);
}

static bool read_pattern(struct json_reader *r, void *context, struct error *error)
{
    return put_by(r, &((struct block_layer *)context)->pattern, error);
}

static bool read_causal(struct json_reader *r, void *context, struct error *error)
{
    struct block_layer *layer = context;
    layer->has_causal = true;
    layer->causal = false;
    return is_null(r) || json_read_bool(r, &layer->causal, error);
}

static bool read_scale(struct json_reader *r, void *context, struct error *error)
{
    struct block_layer *layer = context;
    layer->has_scale = !is_null(r);
    return !layer->has_scale || read_number(r, true, &layer->scale, error);
}

struct block_layer block_layer_default(void)
{
    return (struct block_layer){.placement = PLACEMENT_PRE, .residual = true};
}

bool block_layer_read(struct json_reader *r, struct block_layer *layer, struct error *error)
{
    static const struct json_member members[] = {
        {"tensors", read_tensors},   {"placement", read_placement}, {"residual", read_residual},
        {"norm1", read_norm1},       {"norm2", read_norm2},         {"ffn", read_ffn},
        {"position", read_position}, {"pattern", read_pattern},     {"causal", read_causal},
        {"scale", read_scale},
    };
    return json_read_object(r, members, COUNT(members), layer, NULL, error);
}

bool block_layer_check(const struct json_reader *r, const struct block_layer *layer, struct error *error)
{
    return layer->tensors[TENSOR_W_O].name.raw || missing(r, "tensors", error);
}

/* ---- embeddings */

#define EMBEDDING_MEMBER(member)                                                              \
    static bool embedding_##member(struct json_reader *r, void *context, struct error *error) \
    {                                                                                         \
        return read_name(r, &((struct block_embeddings *)context)->member, error);            \
    }
EMBEDDING_MEMBER(token)
EMBEDDING_MEMBER(position)
EMBEDDING_MEMBER(type)
EMBEDDING_MEMBER(projection_w)
EMBEDDING_MEMBER(projection_b)

static bool embedding_scale(struct json_reader *r, void *context, struct error *error)
{
    return read_number(r, false, &((struct block_embeddings *)context)->scale, error);
}

static bool embedding_offset(struct json_reader *r, void *context, struct error *error)
{
    int64_t offset;
    if (!json_read_integer(r, 0, INT32_MAX, &offset, error))
        return false;
    ((struct block_embeddings *)context)->position_offset = (size_t)offset;
    return true;
}

static bool embedding_norm(struct json_reader *r, void *context, struct error *error)
{
    return block_norm_read(r, &((struct block_embeddings *)context)->norm, error);
}

static bool embedding_projection(struct json_reader *r, void *context, struct error *error)
{
    static const struct json_member members[] = {{"W", embedding_projection_w}, {"b", embedding_projection_b}};
    uint64_t seen = 0;
    if (is_null(r))
        return true;
    if (!json_read_object(r, members, COUNT(members), context, &seen, error))
        return false;
    return (seen & 1) || missing(r, "W", error);
}

bool block_embeddings_read(struct json_reader *r, struct block_embeddings *embeddings, struct error *error)
{
    static const struct json_member members[] = {
        {"token", embedding_token},          {"position", embedding_position},      {"type", embedding_type},
        {"scale", embedding_scale},          {"position_offset", embedding_offset}, {"norm", embedding_norm},
        {"projection", embedding_projection}};
    struct block_embeddings read = {.scale = 1};
    if (!json_read_object(r, members, COUNT(members), &read, NULL, error))
        return false;
    if (!read.token.name.raw)
        return missing(r, "token", error);
    if (read.position_offset && !read.position.name.raw)
        return json_error(r, error, ERROR_INVALID, "\"position_offset\" goes with \"position\", which is not there");
    *embeddings = read;
    return true;
}
