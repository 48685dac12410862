/* A request of the Open Inference Protocol while it is read. For the files of this folder. */
#ifndef ATTND_CODEC_OIP_DECODING_H
#define ATTND_CODEC_OIP_DECODING_H

#include "codec/forward_members.h"
#include "codec/oip_request.h"
#include "json/reader.h"

/* An output as it was asked for. */
struct oip_wanted {
    enum oip_output_kind kind;
    bool decided; /* `binary` was said; else binary_data_output decides */
    bool binary;
};

struct oip_decoding {
    struct forward_decoding forward; /* the context of the members' readers */
    struct oip_request *request;
    struct request_members members; /* of the request; those that were inputs are noted in `seen` */
    size_t n_inputs;
    bool has_binary;             /* the JSON's length was said, so that bytes may follow it */
    const unsigned char *binary; /* [n_binary]: the bytes that no input has taken yet */
    size_t n_binary;
    struct oip_wanted wanted[OIP_OUTPUT_COUNT];
    size_t n_wanted;
    bool has_return; /* outputs were named by the parameter `return` */
};

/* Readers for struct json_member; their context is a struct oip_decoding. */
bool oip_read_inputs(struct json_reader *r, void *context, struct error *error);  /* oip_input.c */
bool oip_read_outputs(struct json_reader *r, void *context, struct error *error); /* oip_output.c */

/* Once all has been read: fills the outputs of the request. */
bool oip_settle_outputs(struct oip_decoding *decoding, struct error *error);

/* For the `parameters` of an input and of an output: ERROR_INVALID for a name that speaks of shared memory. */
bool oip_refuse_shared_memory(const struct json_reader *r, const struct json_key *name, struct error *error);

#endif
