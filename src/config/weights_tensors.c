/* Owns the rules about tensor names: fused or apart, one a head or one for all. One thread. */
#include "config/weights_tensors.h"

#include "config/excerpt.h"
#include "config/weights_keys.h"

#include <stdlib.h>
#include <string.h>

static const char per_head[] = "{head}";

/* W_O and the fused ones are whole: their heads are not apart in any file. */
static bool may_be_per_head(size_t tensor)
{
    return tensor != TENSOR_W_QKV && tensor != TENSOR_W_O && tensor != TENSOR_B_QKV && tensor != TENSOR_B_O;
}

static bool read_name(struct document *document, const char *place, size_t tensor, char **name)
{
    char shown[EXCERPT_BYTES];
    if (!document_string(document, place, name))
        return false;
    if (!*name)
        return true;
    excerpt_write(shown, *name, strlen(*name));
    const char *found = strstr(*name, per_head);
    if (!**name)
        document_fault(document, place, NULL, "expected the name of a tensor in the file, got \"\"");
    else if (found && !may_be_per_head(tensor))
        document_fault(document, place, NULL, "%s is one tensor for all heads: \"%s\" may not hold {head}",
                       weight_tensor_names[tensor], shown);
    else if (found && strstr(found + strlen(per_head), per_head))
        document_fault(document, place, NULL, "expected {head} once, got \"%s\"", shown);
    return true;
}

/* Whether what is there makes a layer. `given`: bit t for enum weight_tensor t, right or wrong. */
static void check_together(struct document *document, const char *place, unsigned given)
{
    static const struct {
        size_t fused, apart[3];
    } groups[] = {{TENSOR_W_QKV, {TENSOR_W_Q, TENSOR_W_K, TENSOR_W_V}},
                  {TENSOR_B_QKV, {TENSOR_B_Q, TENSOR_B_K, TENSOR_B_V}}};

    for (size_t g = 0; g < 2; g++)
        for (size_t i = 0; i < 3; i++)
            if (given & 1U << groups[g].fused && given & 1U << groups[g].apart[i])
                document_fault(document, place, NULL, "\"%s\" stands for %s, %s and %s: \"%s\" may not be beside it",
                               weight_tensor_names[groups[g].fused], weight_tensor_names[groups[g].apart[0]],
                               weight_tensor_names[groups[g].apart[1]], weight_tensor_names[groups[g].apart[2]],
                               weight_tensor_names[groups[g].apart[i]]);
    for (size_t i = 0; i < 3 && !(given & 1U << TENSOR_W_QKV); i++)
        if (!(given & 1U << groups[0].apart[i]))
            document_fault(document, place, NULL, "missing \"%s\" (\"W_QKV\" alone may stand for W_Q, W_K and W_V)",
                           weight_tensor_names[groups[0].apart[i]]);
    if (!(given & 1U << TENSOR_W_O))
        document_fault(document, place, NULL, "missing \"W_O\"");
}

bool weights_tensors_read(struct document *document, const char *place, char *tensors[WEIGHT_TENSOR_COUNT])
{
    struct error error;
    struct json_key key;
    enum json_step step;
    bool stopped;
    unsigned given = 0;

    if (!document_expect(document, JSON_OBJECT, place, &stopped))
        return !stopped;
    if (!json_enter_object(&document->reader, &error))
        return document_stop(document, &error);
    while ((step = document_next_member(document, &key)) == JSON_ITEM) {
        size_t tensor = 0;
        while (tensor < WEIGHT_TENSOR_COUNT && !json_key_is(&key, weight_tensor_names[tensor]))
            tensor++;
        if (tensor == WEIGHT_TENSOR_COUNT) {
            const char *begin, *end;
            if (!document_unknown_key(document, &key, weight_tensor_names, WEIGHT_TENSOR_COUNT) ||
                !document_skip(document, &begin, &end))
                return false;
            continue;
        }
        given |= 1U << tensor;
        if (!read_name(document, key.raw, tensor, &tensors[tensor]))
            return false;
    }
    if (step == JSON_FAILED)
        return false;
    check_together(document, place, given);
    return true;
}
