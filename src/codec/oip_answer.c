/* Outputs in the order in which they were asked for, each as one flat array of numbers or as bytes behind the JSON.
 *
 * The length of the JSON is a header where bytes follow. Where all outputs are binary it is known at once, and the
 * results are sent from where they lie; where some are, the JSON is written while the answer is composed. Owns nothing;
 * entered by the thread that computed the result. */
#include "codec/oip_answer.h"

#include "base/size.h"
#include "codec/forward_answer.h"
#include "codec/forward_returned.h"

#include <string.h>

/* What stands around the outputs: the members' names and a number, and what compare has found, quoted. */
#define ENVELOPE_BYTES (256 + 2 * RETURNED_APPROXIMATION_BYTES)
/* What stands around one: its name, its shape, which has at most 40 characters because its product is a size, and
 * its bytes. */
#define OUTPUT_BYTES 256

/* A text and its numbers, or its bytes, for each output; what stands behind them; and the JSON as a whole where it is
 * written beforehand. */
#define MOST_PIECES (2 * OIP_OUTPUT_COUNT + 2)

/* An output as it will be written. */
struct part {
    const struct returned_tensor *tensor;
    struct tensor_rows rows;         /* rows.shape is `shape` */
    size_t shape[RETURNED_MAX_RANK]; /* the tensor's, or of what is kept of a map */
    bool binary;
};

/* A digit and its comma. */
#define FLAG_BYTES 2

/* Bytes of one key and its comma. */
static size_t key_bytes(const struct returned_tensor *map)
{
    return tensor_write_digits(map->shape[map->rank - 1] - 1) + 1;
}

/* The tensor of an output in the list of returned_list. */
static const struct returned_tensor *find(enum oip_output_kind kind, const struct returned_tensor *list)
{
    static const unsigned others[] = {[OIP_KEYS] = RETURN_ATTENTION_INDEX,
                                      [OIP_WEIGHTS] = RETURN_ATTENTION_INDEX,
                                      [OIP_OUTPUT_STD] = RETURNED_OUTPUT_STD,
                                      [OIP_HEADS_USED] = RETURNED_HEADS_USED};
    const unsigned index = kind < OIP_KEYS ? (unsigned)kind : others[kind];
    while (list->index != index) /* it is there: oip_request_settle has seen to it */
        list++;
    return list;
}

static bool is_of_top_k(enum oip_output_kind kind)
{
    return kind == OIP_KEYS || kind == OIP_WEIGHTS;
}

/* All outputs without their data. */
static void list_parts(const struct oip_request *request, const struct returned_tensor *list,
                       struct part parts[OIP_OUTPUT_COUNT])
{
    for (size_t i = 0; i < request->n_outputs; i++) {
        const struct oip_output *output = &request->outputs[i];
        struct part *part = &parts[i];
        *part = (struct part){.tensor = find(output->kind, list), .binary = output->binary};
        memcpy(part->shape, part->tensor->shape, sizeof part->shape);
        if (is_of_top_k(output->kind))
            returned_kept_shape(part->tensor, part->shape);
        part->rows = (struct tensor_rows){
            .shape = part->shape, .rank = part->tensor->rank, .decimals = request->forward.decimals, .flat = true};
        part->rows.number_bytes = output->kind == OIP_KEYS         ? key_bytes(part->tensor)
                                  : output->kind == OIP_HEADS_USED ? FLAG_BYTES
                                  : part->tensor->is_map ? tensor_write_weight_bytes(request->forward.decimals)
                                                         : tensor_write_number_bytes(request->forward.decimals);
    }
}

static bool part_bytes(const struct part *part, size_t *bytes)
{
    return part->binary ? tensor_bytes(part->shape, part->rows.rank, sizeof(float), bytes)
                        : tensor_rows_text_bytes(&part->rows, part->rows.number_bytes, bytes);
}

static size_t literal_bytes(const struct oip_request *request)
{
    return ENVELOPE_BYTES + FORWARD_ANSWER_NAME_BYTES + (request->forward.id ? strlen(request->forward.id) : 0) +
           request->n_outputs * OUTPUT_BYTES;
}

/* The outputs that are binary. */
static size_t count_binary(const struct oip_request *request)
{
    size_t count = 0;
    for (size_t i = 0; i < request->n_outputs; i++)
        count += request->outputs[i].binary;
    return count;
}

bool oip_answer_is_raw(const struct oip_request *request)
{
    return count_binary(request) == request->n_outputs;
}

static bool is_mixed(const struct oip_request *request)
{
    return count_binary(request) > 0 && !oip_answer_is_raw(request);
}

bool oip_answer_bytes(const struct oip_request *request, const struct attention_shape *shape,
                      const struct forward_input *problem, size_t *bytes, struct error *error)
{
    struct returned_tensor list[RETURNED_COUNT];
    struct part parts[OIP_OUTPUT_COUNT];
    size_t total = literal_bytes(request), one;
    returned_list(&request->forward, shape, problem, NULL, list);
    list_parts(request, list, parts);
    for (size_t i = 0; i < request->n_outputs; i++)
        if (!part_bytes(&parts[i], &one) || !size_add(total, one, &total))
            return error_set(error, ERROR_TOO_LARGE,
                             "the answer's %s would not fit in any memory; ask for less with outputs, include_layers, "
                             "include_heads or top_k",
                             oip_output_name(request->outputs[i].kind));
    *bytes = total;
    return true;
}

size_t oip_answer_memory(const struct oip_request *request, const struct attention_shape *shape,
                         const struct forward_input *problem)
{
    struct returned_tensor list[RETURNED_COUNT];
    struct part parts[OIP_OUTPUT_COUNT];
    const size_t count = returned_list(&request->forward, shape, problem, NULL, list);
    size_t total = 0, text = literal_bytes(request), one;
    if (!answer_pieces_need(&total, MOST_PIECES, literal_bytes(request)) || !returned_kept_need(list, count, &total))
        return SIZE_MAX;
    if (!is_mixed(request))
        return total;
    list_parts(request, list, parts);
    for (size_t i = 0; i < request->n_outputs; i++)
        if (!parts[i].binary && (!part_bytes(&parts[i], &one) || !size_add(text, one, &text)))
            return SIZE_MAX;
    return answer_pieces_need(&total, MOST_PIECES, ARENA_ALIGNMENT) && arena_need(&total, text) ? total : SIZE_MAX;
}

/* ---- composing */

/* Gives the parts their data; a map that top_k thins is thinned once. */
static bool fill_parts(const struct oip_request *request, struct part *parts, const struct parallel *parallel,
                       struct arena *arena, struct error *error)
{
    struct returned_kept kept = {.keys = NULL};
    for (size_t i = 0; i < request->n_outputs; i++) {
        const enum oip_output_kind kind = request->outputs[i].kind;
        struct part *part = &parts[i];
        if (!part->binary) {
            const struct number_extremes most = returned_extremes(part->tensor, parallel);
            if (most.magnitude >= NUMBER_INFINITY_BITS)
                return returned_not_finite(part->tensor, "the parameter binary_data, which carries it", error);
            if (part->tensor->is_map && kind != OIP_KEYS && most.bits >= NUMBER_TWO_BITS)
                part->rows.number_bytes = tensor_write_number_bytes(request->forward.decimals);
        }
        if (kind == OIP_HEADS_USED) {
            if (!returned_integers(part->tensor, arena, &part->rows.integers, error))
                return false;
            continue;
        }
        if (is_of_top_k(kind) && !kept.keys && !returned_keep(part->tensor, parallel, arena, &kept, error))
            return false;
        part->rows.data = kind == OIP_WEIGHTS ? kept.weights : part->tensor->data;
        part->rows.integers = kind == OIP_KEYS ? kept.keys : NULL;
    }
    return true;
}

static void write_beginning(struct text *text, const struct oip_request *request, const struct oip_model *model)
{
    text_append_string(text, "{\"model_name\":");
    text_append_json(text, model->name, strlen(model->name));
    text_append_string(text, ",\"model_version\":");
    text_append_json(text, model->version, strlen(model->version));
    if (request->forward.id) {
        text_append_string(text, ",\"id\":");
        text_append_string(text, request->forward.id);
    }
    text_append_string(text, ",\"outputs\":[");
}

/* The JSON object, of which the numbers of binary outputs are no part. */
static void add_json(struct answer_pieces *pieces, const struct oip_request *request, const struct oip_model *model,
                     const struct part *parts, const struct forward_result *result,
                     const struct approximation *approximation)
{
    struct text *text = &pieces->literal;
    write_beginning(text, request, model);
    for (size_t i = 0; i < request->n_outputs; i++) {
        const struct part *part = &parts[i];
        size_t bytes = 0;
        text_append_format(text, "%s{\"name\":\"%s\",\"datatype\":\"%s\",\"shape\":", i ? "," : "",
                           oip_output_name(request->outputs[i].kind),
                           dtype_oip_name(part->rows.integers ? DTYPE_I32 : DTYPE_F32));
        tensor_write_shape(text, part->shape, part->rows.rank);
        if (part->binary) {
            part_bytes(part, &bytes); /* of memory that is there */
            text_append_format(text, ",\"parameters\":{\"binary_data_size\":%zu}}", bytes);
        } else {
            text_append_string(text, ",\"data\":");
            answer_pieces_add_rows(pieces, &part->rows);
            text_append(text, "}", 1);
        }
    }
    text_append_string(text, "],\"parameters\":{\"digest\":");
    text_append_json(text, model->digest, strlen(model->digest));
    if (returned_approximate(&request->forward, result))
        text_append_string(text, ",\"approximate\":true");
    if (approximation) { /* parameters are no objects */
        char buffer[RETURNED_APPROXIMATION_BYTES];
        struct text value;
        text_init_fixed(&value, buffer, sizeof buffer);
        returned_write_approximation(&value, approximation);
        text_append_string(text, ",\"approximation\":");
        text_append_json(text, value.data, value.length);
    }
    text_append_format(text, ",\"fully_masked_rows\":%zu}}", result->fully_masked_rows);
}

static void add_binary(struct answer_pieces *pieces, const struct oip_request *request, const struct part *parts)
{
    for (size_t i = 0; i < request->n_outputs; i++) {
        const struct part *part = &parts[i];
        size_t bytes = 0;
        if (!part->binary)
            continue;
        part_bytes(part, &bytes);
        answer_pieces_add_bytes(
            pieces, part->rows.integers ? (const void *)part->rows.integers : (const void *)part->rows.data, bytes);
    }
}

/* The JSON that is in `json` as one piece of bytes, its length known. */
static bool write_beforehand(struct answer_pieces *json, struct arena *arena, struct answer_pieces *pieces,
                             size_t *json_length)
{
    if (!answer_pieces_end(json) || !answer_pieces_init(pieces, arena, MOST_PIECES, ARENA_ALIGNMENT))
        return false;
    char *text = arena_take(arena, json->most);
    if (!text)
        return false;
    *json_length = (size_t)(answer_pieces_write(json, answer_pieces_begin(), answer_pieces_behind(json), text) - text);
    arena_shorten(arena, text, *json_length);
    answer_pieces_add_bytes(pieces, text, *json_length);
    return true;
}

bool oip_answer_compose(const struct oip_request *request, const struct attention_shape *shape,
                        const struct forward_input *problem, const struct forward_result *result,
                        const struct approximation *approximation, const struct oip_model *model,
                        const struct parallel *parallel, struct arena *arena, struct answer_pieces *pieces,
                        size_t *json_length, struct error *error)
{
    struct returned_tensor list[RETURNED_COUNT];
    struct part parts[OIP_OUTPUT_COUNT];
    struct answer_pieces json;
    size_t length = 0;
    const bool mixed = is_mixed(request);
    returned_list(&request->forward, shape, problem, result, list);
    list_parts(request, list, parts);
    if (!fill_parts(request, parts, parallel, arena, error))
        return false;
    struct answer_pieces *first = mixed ? &json : pieces;
    if (!answer_pieces_init(first, arena, MOST_PIECES, literal_bytes(request)))
        return error_out_of_memory(error);
    add_json(first, request, model, parts, result, approximation);
    if (mixed && !write_beforehand(&json, arena, pieces, &length))
        return error_out_of_memory(error);
    if (!mixed && oip_answer_is_raw(request))
        length = pieces->literal.length;
    add_binary(pieces, request, parts);
    if (!answer_pieces_end(pieces))
        return error_out_of_memory(error);
    *json_length = length;
    return true;
}
