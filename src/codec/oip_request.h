/* What a model's infer route is asked, in the Open Inference Protocol with the binary tensor extension: a JSON object,
 * and behind it the bytes of those tensors that are not in it. */
#ifndef ATTND_CODEC_OIP_REQUEST_H
#define ATTND_CODEC_OIP_REQUEST_H

#include "codec/forward_request.h"
#include "codec/request_members.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(kind, name): what may be asked for; those of FORWARD_RETURNS first, in its order. top_k makes two tensors of
 * `attention`. Where no outputs are named, the last two come with what the rules do. */
#define OIP_OUTPUTS(X)                                 \
    FORWARD_RETURNS(X##_RETURN)                        \
    X(OIP_KEYS, "attention_keys")                      \
    X(OIP_WEIGHTS, "attention_weights")                \
    X(OIP_OUTPUT_STD, "output_std") /* with dropout */ \
    X(OIP_HEADS_USED, "heads_used") /* with keep_heads */

#define OIP_OUTPUT_KIND_RETURN(bit, name) OIP_##bit,
#define OIP_OUTPUT_KIND(kind, name)       kind,
enum oip_output_kind { OIP_OUTPUTS(OIP_OUTPUT_KIND) OIP_OUTPUT_COUNT };
#undef OIP_OUTPUT_KIND_RETURN
#undef OIP_OUTPUT_KIND

_Static_assert((int)OIP_RETURN_HIDDEN_STATES == (int)RETURN_HIDDEN_STATES_INDEX,
               "the outputs begin as what /v1/forward returns");

struct oip_output {
    enum oip_output_kind kind;
    bool binary; /* its bytes stand behind the JSON */
};

struct oip_request {
    struct forward_request forward; /* `returned` has the outputs' bits; `weights` is not set: the path names them */
    struct oip_output outputs[OIP_OUTPUT_COUNT]; /* each kind once, in the order of the answer */
    uint8_t output_at[OIP_OUTPUT_COUNT];         /* of each of them: its index in what was sent */
    size_t n_outputs;
    bool named_outputs;                    /* `outputs` said which */
    bool binary_data_output;               /* the parameter */
    uint8_t input_at[REQUEST_MAX_MEMBERS]; /* of each of forward_request_members: its index in `inputs` */
};

/* The name of an output. */
const char *oip_output_name(enum oip_output_kind kind);

/* Decodes a body whose first `json_length` bytes are JSON (SIZE_MAX: all of it, and no tensor's bytes follow); memory
 * and failure as forward_request_decode has it. Members of an input may come in any order. Unknown members of the
 * `parameters` objects are passed over. Errors: ERROR_INVALID also for a json_length beyond the body, sizes that do not
 * fit shapes, and bytes that no input takes. */
bool oip_request_decode(const char *body, size_t length, size_t json_length, struct arena *arena,
                        struct oip_request *request, struct error *error);

/* Once forward_request_check has found the rules: adds the outputs that come with them, or refuses those that were
 * named and that they do not make. */
bool oip_request_settle(struct oip_request *request, const struct forward_input *problem, struct error *error);

/* An error of forward_request_check, whose place is a member of /v1/forward: its place in this request. */
void oip_request_place(const struct oip_request *request, struct error *error);

#endif
