#include "expect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

char *small_request(void)
{
    char *text = malloc(4096);
    size_t length = (size_t)sprintf(text, "{\"input\":[[");
    for (size_t token = 0; token < 4; token++) {
        length += (size_t)sprintf(text + length, token ? ",[" : "[");
        for (size_t i = 0; i < 64; i++)
            length += (size_t)sprintf(text + length, i ? ",0.5" : "0.5");
        length += (size_t)sprintf(text + length, "]");
    }
    sprintf(text + length, "]]}");
    return text;
}

char *heavy_request(size_t tokens)
{
    float *input = malloc(tokens * 64 * sizeof *input);
    for (size_t i = 0; i < tokens * 64; i++)
        input[i] = 0.25F;
    char *base64 = base64_text(input, tokens * 64 * sizeof *input);
    char *text =
        quoted("{'weights':'plain64','input':{'shape':[1,%zu,64],'dtype':'f32','base64':'%s'},'return':['output'],"
               "'encoding':'base64'}",
               tokens, base64);
    free(base64);
    free(input);
    return text;
}

void expect_served(const struct server_process *server)
{
    char *body = small_request();
    struct reply reply = http_post(server, FORWARD, body);
    ck_assert_msg(reply.failure == CURLE_OK, "no answer: %s", curl_easy_strerror(reply.failure));
    ck_assert_msg(reply.status == 200, "status %ld: %.300s", reply.status, reply.body);
    ck_assert_ptr_nonnull(strstr(reply.body, "\"output\""));
    reply_free(&reply);
    free(body);
}

void expect_served_in_time(const struct server_process *server)
{
    char *body = small_request();
    struct reply reply = http_post(server, FORWARD, body);
    for (size_t try = 1;
         try < TRIES && (reply.failure || reply.status == 408 || reply.status == 503 || reply.status == 504); try++) {
        reply_free(&reply);
        reply = http_post(server, FORWARD, body);
    }
    ck_assert_msg(reply.failure == CURLE_OK, "no answer: %s", curl_easy_strerror(reply.failure));
    ck_assert_msg(reply.status == 200, "status %ld: %.300s", reply.status, reply.body);
    reply_free(&reply);
    free(body);
}

void expect_problem(const struct reply *reply, long status, const char *pointer, const char *word, const char *name)
{
    char type[128], id[256];
    ck_assert_msg(reply->failure == CURLE_OK, "%s: no answer: %s", name, curl_easy_strerror(reply->failure));
    ck_assert_msg(reply->status == status, "%s: status %ld, expected %ld: %.300s", name, reply->status, status,
                  reply->body);
    reply_header(reply, "content-type", type, sizeof type);
    ck_assert_msg(strcmp(type, "application/problem+json") == 0, "%s: content-type is \"%s\"", name, type);
    ck_assert_msg(reply_header(reply, "x-request-id", id, sizeof id), "%s: no x-request-id", name);
    json_t *document = reply_json(reply);
    static const char *const texts[] = {"type", "title", "detail", "instance", "error"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = json_string_value(json_object_get(document, texts[i]));
        ck_assert_msg(text && *text, "%s: no member %s: %.300s", name, texts[i], reply->body);
    }
    const char *detail = json_string_value(json_object_get(document, "detail"));
    ck_assert_str_eq(json_string_value(json_object_get(document, "error")), detail);
    ck_assert_str_eq(json_string_value(json_object_get(document, "instance")), id);
    ck_assert_int_eq(json_integer_value(json_object_get(document, "status")), status);
    const char *found = json_string_value(json_object_get(document, "pointer"));
    if (pointer)
        ck_assert_msg(found && strcmp(found, pointer) == 0, "%s: pointer %s, expected %s: %s", name,
                      found ? found : "(none)", pointer, detail);
    if (word)
        ck_assert_msg(strstr(detail, word) != NULL, "%s: the detail does not name \"%s\": %s", name, word, detail);
    json_decref(document);
}

void expect_close(const json_t *got, const json_t *wanted, bool exact_zeros, const char *name)
{
    if (!json_is_array(wanted)) {
        double g = json_number_value(got), w = json_number_value(wanted);
        ck_assert_msg(json_is_number(got), "%s: not a number", name);
        ck_assert_msg(fabs(g - w) <= 1e-5 + 1e-5 * fabs(w), "%s: %.9g, expected %.9g", name, g, w);
        ck_assert_msg(!exact_zeros || w != 0 || g == 0, "%s: %.9g, expected exactly 0", name, g);
        return;
    }
    ck_assert_msg(json_is_array(got) && json_array_size(got) == json_array_size(wanted),
                  "%s: an extent of %zu, expected %zu", name, json_array_size(got), json_array_size(wanted));
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        char place[256];
        snprintf(place, sizeof place, "%.200s/%zu", name, i);
        expect_close(json_array_get(got, i), json_array_get(wanted, i), exact_zeros, place);
    }
}

void expect_shape(const json_t *got, const size_t *shape, size_t rank, const char *name)
{
    if (rank == 0) {
        ck_assert_msg(json_is_number(got), "%s: not a number where one was expected", name);
        return;
    }
    ck_assert_msg(json_array_size(got) == shape[0], "%s: an extent of %zu, expected %zu", name, json_array_size(got),
                  shape[0]);
    for (size_t i = 0; i < shape[0]; i++)
        expect_shape(json_array_get(got, i), shape + 1, rank - 1, name);
}

static void collect(const json_t *nested, double **numbers, size_t *count)
{
    if (json_is_array(nested)) {
        for (size_t i = 0; i < json_array_size(nested); i++)
            collect(json_array_get(nested, i), numbers, count);
        return;
    }
    ck_assert_msg(json_is_number(nested), "not a number");
    if ((*count & (*count - 1)) == 0)
        *numbers = realloc(*numbers, (*count ? 2 * *count : 1) * sizeof **numbers);
    (*numbers)[(*count)++] = json_number_value(nested);
}

double *flat_numbers(const json_t *nested, size_t *count)
{
    double *numbers = NULL;
    *count = 0;
    collect(nested, &numbers, count);
    return numbers;
}

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_text(const void *data, size_t length)
{
    const unsigned char *from = data;
    char *text = malloc((length + 2) / 3 * 4 + 1), *to = text;
    for (size_t i = 0; i < length; i += 3) {
        uint32_t three = (uint32_t)from[i] << 16 | (i + 1 < length ? (uint32_t)from[i + 1] << 8 : 0) |
                         (i + 2 < length ? (uint32_t)from[i + 2] : 0);
        *to++ = alphabet[three >> 18];
        *to++ = alphabet[three >> 12 & 63];
        *to++ = i + 1 < length ? alphabet[three >> 6 & 63] : '=';
        *to++ = i + 2 < length ? alphabet[three & 63] : '=';
    }
    *to = '\0';
    return text;
}

unsigned char *base64_bytes(const char *text, size_t *length)
{
    size_t letters = strlen(text);
    unsigned char *bytes = malloc(letters / 4 * 3 + 3);
    *length = 0;
    ck_assert_uint_eq(letters % 4, 0);
    for (size_t i = 0; i < letters; i += 4) {
        uint32_t three = 0;
        size_t padding = 0;
        for (size_t j = 0; j < 4; j++) {
            const char *at = text[i + j] == '=' ? NULL : strchr(alphabet, text[i + j]);
            if (!at && (text[i + j] != '=' || i + 4 != letters)) /* a check by itself costs microseconds */
                ck_abort_msg("not base64 at %zu", i + j);
            three = three << 6 | (at ? (uint32_t)(at - alphabet) : 0);
            padding += !at;
        }
        for (size_t j = 0; j < 3 - padding; j++)
            bytes[(*length)++] = (unsigned char)(three >> (16 - 8 * j));
    }
    return bytes;
}

json_t *golden_case(const char *name)
{
    char path[512];
    json_error_t fault;
    const char *folder = getenv("ATTND_GOLDEN");
    ck_assert_ptr_nonnull(folder);
    snprintf(path, sizeof path, "%s/forward/%s%s", folder, name, strstr(name, ".json") ? "" : ".json");
    json_t *golden = json_load_file(path, 0, &fault);
    ck_assert_msg(golden != NULL, "%s: %s", path, fault.text);
    return golden;
}

char *golden_request(const json_t *golden)
{
    const json_t *weights = json_object_get(golden, "weights");
    const char *source = json_string_value(json_object_get(weights, "source"));
    const char *name = strcmp(source, "numpy") == 0                                     ? "demo"
                       : json_integer_value(json_object_get(weights, "d_model")) == 512 ? "plain512"
                                                                                        : "plain64";
    json_t *request = json_copy(json_object_get(golden, "request"));
    json_object_set_new(request, "weights", json_string(name));
    char *text = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    ck_assert_ptr_nonnull(text);
    return text;
}

char *numbers_text(const float *numbers, size_t count)
{
    char *text = malloc(count * 24 + 3);
    size_t length = (size_t)sprintf(text, "[");
    for (size_t i = 0; i < count; i++)
        length += (size_t)sprintf(text + length, i ? ",%.9g" : "%.9g", (double)numbers[i]);
    sprintf(text + length, "]");
    return text;
}
