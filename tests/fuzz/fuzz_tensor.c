/* Fuzzes tensors in JSON, as a member of a request, against jansson for the structure and the C library's strtof for
 * the numbers, and in the generic instruction set against the best.
 *
 * The first byte chooses the member; the rest is its value. */
#include "base/isa.h"
#include "codec/forward_request.h"

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

enum { MEMBERS = 4 };
static const struct {
    const char *name, *before;
    unsigned max_rank;
} MEMBER[MEMBERS] = {{"input", "", 3},
                     {"attention_mask", "\"input\":[[0]],", 3},
                     {"bias", "\"input\":[[0]],", 4},
                     {"head_mask", "\"input\":[[0]],", 1}};

/* What was decoded: floats, or a mask's bytes. */
struct decoded {
    unsigned rank;
    const size_t *shape;
    size_t count;
    const float *floats;
    const uint8_t *bytes;
};

static double value_of(const struct decoded *d, size_t i)
{
    return d->floats ? (double)d->floats[i] : d->bytes[i];
}

static struct decoded member_of(const struct forward_request *request, unsigned member)
{
    const struct tensor *tensor = member == 0 ? &request->input : member == 2 ? &request->bias : &request->head_mask;
    if (member != 1)
        return (struct decoded){tensor->rank, tensor->shape, tensor->count, tensor->data, NULL};
    const struct mask *mask = &request->attention_mask;
    return (struct decoded){mask->rank, mask->shape, mask->count, NULL, mask->data};
}

/* The extents of nested arrays, from the first element of each; 0: not a tensor of this kind. */
static unsigned shape_of(const json_t *value, size_t *shape, unsigned max_rank)
{
    unsigned rank = 0;
    for (; json_is_array(value); value = json_array_get(value, 0)) {
        if (rank == max_rank || json_array_size(value) == 0)
            return 0;
        shape[rank++] = json_array_size(value);
    }
    return rank;
}

/* Whether these nested arrays have this shape, and numbers (or a mask's values) that can be read. */
static bool fits(const json_t *value, const size_t *shape, unsigned rank, bool mask)
{
    if (rank == 0 && mask) /* as doubles: what is near may round to either side */
        return json_is_boolean(value) ||
               (json_is_number(value) && (json_number_value(value) == 0 || json_number_value(value) == 1));
    if (rank == 0)
        return json_is_number(value) && fabs(json_number_value(value)) < 3.4e38;
    if (!json_is_array(value) || json_array_size(value) != shape[0])
        return false;
    for (size_t i = 0; i < shape[0]; i++)
        if (!fits(json_array_get(value, i), shape + 1, rank - 1, mask))
            return false;
    return true;
}

/* Jansson rounds to double first, so the float may be its neighbour. */
static bool near(double wide, double value)
{
    float rounded = (float)wide;
    return (float)value == rounded || (float)value == nextafterf(rounded, INFINITY) ||
           (float)value == nextafterf(rounded, -INFINITY);
}

static size_t compare(const json_t *value, const struct decoded *d, size_t at)
{
    if (!json_is_array(value)) {
        check(at < d->count);
        check(near(json_is_boolean(value) ? json_is_true(value) : json_number_value(value), value_of(d, at)));
        return at + 1;
    }
    for (size_t i = 0; i < json_array_size(value); i++)
        at = compare(json_array_get(value, i), d, at);
    return at;
}

/* The numbers of nested arrays in the order of the text, rounded by strtof. `text` ends with a NUL. */
static void compare_text(const char *text, const struct decoded *d)
{
    size_t count = 0;
    while (*text) {
        char *end;
        if (strchr("-0123456789", *text)) {
            float expected = strtof(text, &end);
            check(count < d->count);
            check((double)expected == value_of(d, count) &&
                  (!d->floats || !signbit(expected) == !signbit(d->floats[count])));
            count++;
            text = end;
        } else if (*text == 't' || *text == 'f') {
            count++;
            text += *text == 't' ? 4 : 5;
        } else {
            text++;
        }
    }
    check(count == d->count);
}

static void compare_accepted(const json_t *value, const struct decoded *d, const char *text)
{
    size_t shape[8] = {0}, product = 1;
    check(d->rank > 0);
    for (unsigned i = 0; i < d->rank; i++)
        product *= d->shape[i];
    check(product == d->count && d->count > 0);
    for (size_t i = 0; i < d->count; i++)
        check(d->floats ? isfinite(d->floats[i]) : d->bytes[i] <= 1);
    if (json_is_array(value)) {
        check(shape_of(value, shape, TENSOR_MAX_RANK) == d->rank &&
              memcmp(shape, d->shape, d->rank * sizeof *shape) == 0);
        check(compare(value, d, 0) == d->count);
        compare_text(text, d);
        return;
    }
    const json_t *stated = json_object_get(value, "shape"), *numbers = json_object_get(value, "data");
    check(json_array_size(stated) == d->rank);
    for (unsigned i = 0; i < d->rank; i++)
        check(json_number_value(json_array_get(stated, i)) == (double)d->shape[i]);
    if (numbers)
        check(compare(numbers, d, 0) == d->count);
    else
        check(json_is_string(json_object_get(value, "base64")));
}

/* What the generic instruction set makes of the body. */
static void compare_generic(const char *body, size_t length, unsigned member, bool accepted,
                            const struct forward_request *best, const struct error *best_error)
{
    struct forward_request request = {0};
    struct arena arena = {0};
    struct error error = {0};
    check(isa_choose("generic", &error) && arena_reserve(&arena, forward_request_decoded_bytes(length)));
    check(forward_request_decode(&(struct request_body){BODY_JSON, body, length}, &arena, &request, &error) == accepted);
    if (accepted) {
        struct decoded a = member_of(&request, member), b = member_of(best, member);
        check(a.rank == b.rank && a.count == b.count && memcmp(a.shape, b.shape, a.rank * sizeof *a.shape) == 0);
        check(a.count == 0 || (a.floats ? memcmp(a.floats, b.floats, a.count * sizeof *a.floats) == 0
                                        : memcmp(a.bytes, b.bytes, a.count) == 0));
    } else {
        check(error.code == best_error->code && strcmp(error.message, best_error->message) == 0);
        check(error.has_pointer == best_error->has_pointer);
        check(!error.has_pointer || strcmp(error.pointer, best_error->pointer) == 0);
    }
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || memchr(data + 1, 0, size - 1))
        return 0;
    unsigned member = data[0] % MEMBERS;
    char *text = malloc(size), *body = malloc(size + 64);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    size_t length = (size_t)sprintf(body, "{%s\"%s\":%s}", MEMBER[member].before, MEMBER[member].name, text);
    body = realloc(body, length); /* a sanitizer sees a read behind the end */

    struct forward_request request = {0};
    struct arena arena = {0};
    struct error error = {0};
    check(isa_choose(NULL, &error) && arena_reserve(&arena, forward_request_decoded_bytes(length)));
    bool accepted = forward_request_decode(&(struct request_body){BODY_JSON, body, length}, &arena, &request, &error);
    json_t *root = json_loadb(body, length, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
    bool alone = !root || json_object_size(root) == (member ? 2 : 1); /* the value did not bring members of its own */
    const json_t *value = json_object_get(root, MEMBER[member].name);
    if (alone && accepted) {
        check(root != NULL);
        struct decoded d = member_of(&request, member);
        compare_accepted(value, &d, text);
    } else if (alone && root && json_is_array(value)) {
        size_t shape[8] = {0};
        unsigned rank = shape_of(value, shape, MEMBER[member].max_rank);
        check(error.code != ERROR_NOT_JSON);
        check(!rank || !fits(value, shape, rank, member == 1));
    }
    compare_generic(body, length, member, accepted, &request, &error);
    check(accepted || (error.code != ERROR_NONE && error.message[0] && error.code != ERROR_OUT_OF_MEMORY));
    json_decref(root);
    arena_free(&arena);
    free(text);
    free(body);
    return 0;
}
