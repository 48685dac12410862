/* The outputs that an infer request asks for, and what the answer then holds. Entered by whichever thread decodes. */
#include "codec/oip_decoding.h"

#include "json/names.h"

#include <stdio.h>

static const char *const NAMES[OIP_OUTPUT_COUNT] = {
#define OUTPUT_NAME_RETURN(bit, name) [OIP_##bit] = name,
#define OUTPUT_NAME(kind, name)       [kind] = name,
    OIP_OUTPUTS(OUTPUT_NAME)
#undef OUTPUT_NAME_RETURN
#undef OUTPUT_NAME
};

const char *oip_output_name(enum oip_output_kind kind)
{
    return NAMES[kind];
}

bool oip_refuse_shared_memory(const struct json_reader *r, const struct json_key *name, struct error *error)
{
    if (json_key_is(name, "shared_memory_region"))
        return json_error(r, error, ERROR_INVALID,
                          "shared memory is not offered: send and receive tensors in the body, as JSON or as bytes");
    return true;
}

struct output {
    struct oip_decoding *decoding;
    struct oip_wanted wanted;
    bool has_name;
};

static bool read_name(struct json_reader *r, void *context, struct error *error)
{
    struct output *output = context;
    const struct oip_decoding *decoding = output->decoding;
    struct json_key name;
    int kind = 0;
    if (!json_read_in_place(r, &name, error))
        return false;
    while (kind < OIP_OUTPUT_COUNT && !json_key_is(&name, NAMES[kind]))
        kind++;
    if (kind == OIP_OUTPUT_COUNT) {
        char shown[NAMES_SHOWN_BYTES], text[sizeof error->message];
        names_show(&name, shown);
        names_unknown("output", shown, NAMES, OIP_OUTPUT_COUNT, text, sizeof text);
        return json_error(r, error, ERROR_UNKNOWN_MEMBER, "%s", text);
    }
    for (size_t i = 0; i < decoding->n_wanted; i++)
        if (decoding->wanted[i].kind == (enum oip_output_kind)kind)
            return json_error(r, error, ERROR_INVALID, "the output \"%s\" is there twice; name each once", NAMES[kind]);
    output->wanted.kind = (enum oip_output_kind)kind;
    output->has_name = true;
    return true;
}

static bool read_classification(struct json_reader *r, struct error *error)
{
    int64_t classes;
    if (!json_read_integer(r, 0, INT64_MAX, &classes, error))
        return false;
    return classes == 0 ||
           json_error(r, error, ERROR_INVALID,
                      "classification is not offered: ask for the tensor, or for attention with the parameter top_k");
}

static bool read_parameters(struct json_reader *r, void *context, struct error *error)
{
    struct oip_wanted *wanted = &((struct output *)context)->wanted;
    struct json_key name;
    enum json_step step;
    bool right;
    if (json_peek(r) == JSON_NULL)
        return json_read_null(r, error);
    if (!json_enter_object(r, error))
        return false;
    while ((step = json_next_member(r, &name, error)) == JSON_ITEM) {
        if (json_key_is(&name, "binary_data"))
            right = wanted->decided = json_read_bool(r, &wanted->binary, error);
        else if (json_key_is(&name, "classification"))
            right = read_classification(r, error);
        else
            right = oip_refuse_shared_memory(r, &name, error) && json_skip(r, NULL, NULL, error);
        if (!right)
            return false;
    }
    return step != JSON_FAILED;
}

static const struct json_member MEMBERS[] = {
    {"name", read_name},
    {"parameters", read_parameters},
};

bool oip_read_outputs(struct json_reader *r, void *context, struct error *error)
{
    struct oip_decoding *decoding = context;
    enum json_step step;
    if (json_peek(r) == JSON_NULL)
        return json_read_null(r, error);
    if (!json_enter_array(r, error))
        return false;
    while ((step = json_next_element(r, error)) == JSON_ITEM) {
        struct output output = {.decoding = decoding};
        if (!json_read_object(r, MEMBERS, sizeof MEMBERS / sizeof *MEMBERS, &output, NULL, error))
            return false;
        if (!output.has_name)
            return json_error(r, error, ERROR_INVALID, "the output has no name");
        decoding->wanted[decoding->n_wanted++] = output.wanted; /* each kind once */
    }
    return step != JSON_FAILED;
}

/* Adds an output of the answer; `at`: its index in `outputs`. */
static bool add(struct oip_decoding *decoding, size_t at, enum oip_output_kind kind, bool binary, struct error *error)
{
    static const unsigned returned[] = {[OIP_KEYS] = RETURN_ATTENTION,
                                        [OIP_WEIGHTS] = RETURN_ATTENTION,
                                        [OIP_OUTPUT_STD] = RETURN_OUTPUT,
                                        [OIP_HEADS_USED] = 0};
    struct oip_request *request = decoding->request;
    char place[40];
    for (size_t i = 0; i < request->n_outputs; i++)
        if (request->outputs[i].kind == kind) {
            snprintf(place, sizeof place, "/outputs/%zu/name", at);
            return error_set_at(error, ERROR_INVALID, place,
                                "the output \"%s\" is there twice: with top_k, attention is attention_keys and "
                                "attention_weights",
                                NAMES[kind]);
        }
    request->output_at[request->n_outputs] = (uint8_t)at;
    request->outputs[request->n_outputs++] = (struct oip_output){kind, binary};
    request->forward.returned |= kind < OIP_KEYS ? 1u << kind : returned[kind];
    return true;
}

bool oip_settle_outputs(struct oip_decoding *decoding, struct error *error)
{
    const bool top_k = decoding->request->forward.top_k > 0;
    char place[40];
    decoding->request->named_outputs = decoding->n_wanted > 0;
    if (decoding->n_wanted > 0 && decoding->has_return)
        return error_set_at(error, ERROR_INVALID, "/parameters/return",
                            "outputs say what to return; leave the parameter return out");
    if (decoding->n_wanted == 0)
        for (int kind = 0; kind < FORWARD_RETURN_COUNT; kind++)
            if (decoding->request->forward.returned >> kind & 1)
                decoding->wanted[decoding->n_wanted++] = (struct oip_wanted){.kind = (enum oip_output_kind)kind};
    decoding->request->forward.returned = 0;
    for (size_t i = 0; i < decoding->n_wanted; i++) {
        const struct oip_wanted *wanted = &decoding->wanted[i];
        const bool binary = wanted->decided ? wanted->binary : decoding->request->binary_data_output;
        if (wanted->kind == OIP_RETURN_ATTENTION && top_k) {
            if (!add(decoding, i, OIP_KEYS, binary, error) || !add(decoding, i, OIP_WEIGHTS, binary, error))
                return false;
            continue;
        }
        if ((wanted->kind == OIP_KEYS || wanted->kind == OIP_WEIGHTS) && !top_k) {
            snprintf(place, sizeof place, "/outputs/%zu/name", i);
            return error_set_at(error, ERROR_INVALID, place,
                                "the output \"%s\" needs the parameter top_k, the number of keys to keep of each row",
                                NAMES[wanted->kind]);
        }
        if (!add(decoding, i, wanted->kind, binary, error))
            return false;
    }
    return true;
}

static bool has_output(const struct oip_request *request, enum oip_output_kind kind, size_t *index)
{
    size_t i = 0;
    while (i < request->n_outputs && request->outputs[i].kind != kind)
        i++;
    *index = i;
    return i < request->n_outputs;
}

bool oip_request_settle(struct oip_request *request, const struct forward_input *problem, struct error *error)
{
    const struct attention_rules *rules = problem->rules;
    const struct {
        enum oip_output_kind kind;
        bool there;
        const char *rule;
    } made[] = {{OIP_OUTPUT_STD, rules && rules->dropout.samples, "dropout"},
                {OIP_HEADS_USED, rules && rules->keep_heads.kind != KEEP_ALL_HEADS, "keep_heads"}};
    char place[40];
    size_t index;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        if (has_output(request, made[i].kind, &index) && !made[i].there) {
            snprintf(place, sizeof place, "/outputs/%u/name", (unsigned)request->output_at[index]);
            return error_set_at(error, ERROR_INVALID, place, "the output \"%s\" needs %s, which there is none of",
                                NAMES[made[i].kind], made[i].rule);
        }
        if (request->named_outputs || !made[i].there ||
            (made[i].kind == OIP_OUTPUT_STD && !(request->forward.returned & RETURN_OUTPUT)))
            continue;
        request->outputs[request->n_outputs++] =
            (struct oip_output){.kind = made[i].kind, .binary = request->binary_data_output};
    }
    return true;
}
