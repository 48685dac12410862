/* The Open Inference Protocol under /v2. Numbers come from the golden files, or from /v1/forward, whose own tests hold
 * them to those. */
#include "expect.h"
#include "raw_socket.h"
#include "suite.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define INFER       "/v2/models/demo/infer"
#define MAX_NUMBERS ((size_t)1 << 20)

/* JSON and, behind it, bytes: of a request or of an answer. */
struct message {
    char *data;
    size_t length, json_length; /* json_length SIZE_MAX: all is JSON */
};

static struct reply infer(const struct server_process *server, const char *path, const struct message *message)
{
    char header[64];
    const char *const headers[] = {header, "Content-Type:", NULL}; /* as tritonclient: none */
    snprintf(header, sizeof header, "Inference-Header-Content-Length: %zu", message->json_length);
    return http_send(server, (struct http_call){.method = "POST",
                                                .path = path,
                                                .body = message->data,
                                                .length = message->length,
                                                .headers = headers + (message->json_length == SIZE_MAX)});
}

static struct reply infer_text(const struct server_process *server, const char *json)
{
    char *text = quoted("%s", json);
    for (char *c = text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    const struct message message = {text, strlen(text), SIZE_MAX};
    struct reply reply = infer(server, INFER, &message);
    free(text);
    return reply;
}

/* The document of a 200, and where the bytes behind it begin. */
static json_t *document_of(const struct reply *reply, const char **bytes)
{
    char type[64], length[32];
    ck_assert_msg(reply->failure == CURLE_OK, "no answer: %s", curl_easy_strerror(reply->failure));
    ck_assert_msg(reply->status == 200, "status %ld: %.300s", reply->status, reply->body);
    const bool binary = reply_header(reply, "Inference-Header-Content-Length", length, sizeof length);
    const size_t json_length = binary ? strtoull(length, NULL, 10) : reply->length;
    ck_assert(reply_header(reply, "Content-Type", type, sizeof type));
    ck_assert_str_eq(type, binary ? "application/octet-stream" : "application/json");
    ck_assert_uint_le(json_length, reply->length);
    json_error_t fault;
    json_t *document = json_loadb(reply->body, json_length, JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(document != NULL, "%s", fault.text);
    *bytes = reply->body + json_length;
    return document;
}

static const json_t *output_of(const json_t *document, const char *name)
{
    const json_t *outputs = json_object_get(document, "outputs");
    for (size_t i = 0; i < json_array_size(outputs); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(outputs, i), "name")), name) == 0)
            return json_array_get(outputs, i);
    ck_abort_msg("no output %s", name);
    return NULL;
}

/* ---- golden */

static json_t *shape_of(const json_t *nested)
{
    json_t *shape = json_array();
    for (; json_is_array(nested); nested = json_array_get(nested, 0))
        json_array_append_new(shape, json_integer((json_int_t)json_array_size(nested)));
    return shape;
}

/* A request of /v1/forward in this protocol's words: nested data, or FP32 and INT64 bytes and all outputs binary. */
static struct message translate(const json_t *request, bool binary)
{
    json_t *inputs = json_array(), *parameters = json_object(), *value;
    char *bytes = malloc(MAX_NUMBERS * sizeof(float));
    size_t n_bytes = 0;
    const char *name;
    json_object_foreach((json_t *)request, name, value)
    {
        if (!json_is_array(value)) {
            json_object_set(parameters, name, value);
            continue;
        }
        const bool mask = strcmp(name, "attention_mask") == 0;
        json_t *input =
            json_pack("{s:s, s:s, s:o}", "name", name, "datatype", mask ? "INT64" : "FP32", "shape", shape_of(value));
        if (!binary) {
            json_object_set(input, "data", value);
        } else {
            size_t count, before = n_bytes;
            double *numbers = flat_numbers(value, &count);
            for (size_t i = 0; i < count; i++) {
                const float number = (float)numbers[i];
                const long long integer = (long long)numbers[i];
                memcpy(bytes + n_bytes, mask ? (const void *)&integer : &number, mask ? 8 : 4);
                n_bytes += mask ? 8 : 4;
            }
            free(numbers);
            json_object_set_new(input, "parameters",
                                json_pack("{s:I}", "binary_data_size", (json_int_t)(n_bytes - before)));
        }
        json_array_append_new(inputs, input);
    }
    if (binary)
        json_object_set_new(parameters, "binary_data_output", json_true());
    json_t *document = json_pack("{s:o, s:o}", "parameters", parameters, "inputs", inputs);
    char *json = json_dumps(document, JSON_COMPACT);
    const size_t length = strlen(json);
    struct message message = {malloc(length + n_bytes), length + n_bytes, binary ? length : SIZE_MAX};
    memcpy(message.data, json, length);
    memcpy(message.data + length, bytes, n_bytes);
    json_decref(document);
    free(json);
    free(bytes);
    return message;
}

/* Demands the output's shape and numbers, from `data` or from the bytes, which *bytes passes. */
static void expect_output(const json_t *output, const json_t *wanted, const char **bytes, const char *name)
{
    json_t *shape = shape_of(wanted);
    size_t count, n_wanted;
    double *numbers = flat_numbers(wanted, &n_wanted), *got = NULL;
    const json_t *data = json_object_get(output, "data");
    ck_assert_str_eq(json_string_value(json_object_get(output, "datatype")), "FP32");
    ck_assert_msg(json_equal(json_object_get(output, "shape"), shape), "%s: the shape", name);
    if (data) {
        got = flat_numbers(data, &count);
    } else {
        const json_t *size = json_object_get(json_object_get(output, "parameters"), "binary_data_size");
        count = (size_t)json_integer_value(size) / sizeof(float);
        got = malloc(count * sizeof *got);
        for (size_t i = 0; i < count; i++) {
            float number;
            memcpy(&number, *bytes + i * sizeof number, sizeof number);
            got[i] = (double)number;
        }
        *bytes += count * sizeof(float);
    }
    ck_assert_uint_eq(count, n_wanted);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(fabs(got[i] - numbers[i]) <= 1e-5 + 1e-5 * fabs(numbers[i]), "%s/%zu: %.9g, expected %.9g", name,
                      i, got[i], numbers[i]);
    free(got);
    free(numbers);
    json_decref(shape);
}

START_TEST(golden_cases)
{
    struct server_process *server = server_process_start(NULL);
    char folder[512];
    size_t cases = 0;
    snprintf(folder, sizeof folder, "%s/forward", getenv("ATTND_GOLDEN"));
    DIR *directory = opendir(folder);
    ck_assert_ptr_nonnull(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (!strstr(entry->d_name, ".json"))
            continue;
        json_t *golden = golden_case(entry->d_name), *wanted = json_object_get(golden, "expect"), *named;
        char *request = golden_request(golden), path[128];
        named = json_loads(request, 0, NULL);
        snprintf(path, sizeof path, "/v2/models/%s/infer", json_string_value(json_object_get(named, "weights")));
        struct message message = translate(json_object_get(golden, "request"), _i);
        struct reply reply = infer(server, path, &message);
        const char *bytes;
        json_t *got = document_of(&reply, &bytes);
        expect_output(output_of(got, "output"), json_object_get(wanted, "output"), &bytes, entry->d_name);
        expect_output(output_of(got, "attention"), json_object_get(wanted, "attention"), &bytes, entry->d_name);
        ck_assert_ptr_eq(bytes, reply.body + reply.length);
        ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(got, "parameters"), "fully_masked_rows")),
                         json_integer_value(json_object_get(wanted, "fully_masked_rows")));
        json_decref(got);
        reply_free(&reply);
        free(message.data);
        json_decref(named);
        free(request);
        json_decref(golden);
        cases++;
    }
    closedir(directory);
    ck_assert_uint_ge(cases, 10);
    server_process_stop(server);
}
END_TEST

/* ---- the same bits as /v1/forward */

/* [1, tokens, 64] of numbers that differ. */
static float *make_input(size_t tokens)
{
    float *input = malloc(tokens * 64 * sizeof *input);
    for (size_t i = 0; i < tokens * 64; i++)
        input[i] = sinf((float)i * 0.7F);
    return input;
}

static struct message binary_request(const float *input, size_t tokens, const char *outputs)
{
    char *json = quoted("{'inputs':[{'name':'input','datatype':'FP32','shape':[1,%zu,64],'parameters':"
                        "{'binary_data_size':%zu}}],'outputs':[",
                        tokens, tokens * 64 * sizeof *input),
         *asked = quoted("%s", outputs);
    for (char *c = asked; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    const size_t length = strlen(json) + strlen(asked) + 2, bytes = tokens * 64 * sizeof *input;
    struct message message = {malloc(length + bytes + 1), length + bytes, length};
    sprintf(message.data, "%s%s]}", json, asked);
    memcpy(message.data + length, input, bytes);
    free(json);
    free(asked);
    return message;
}

/* A small request, which the polling thread computes, and one whose body and answer are those of a worker: sent from
 * where the results lie, or, as JSON, written while it is sent. */
START_TEST(same_bits_as_forward)
{
    static const size_t lengths[] = {3, 300};
    struct server_process *server = server_process_start(NULL);
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        const size_t tokens = lengths[n], maps = 8 * tokens * tokens;
        float *input = make_input(tokens);
        char *base64 = base64_text(input, tokens * 64 * sizeof *input);
        char *body = quoted("{'input':{'shape':[1,%zu,64],'base64':'%s'},'encoding':'base64'}", tokens, base64);
        struct reply reply = http_post(server, FORWARD, body);
        json_t *forward = reply_json(&reply);
        reply_free(&reply);
        size_t length;
        unsigned char *output = base64_bytes(
                          json_string_value(json_object_get(json_object_get(forward, "output"), "base64")), &length),
                      *attention = base64_bytes(
                          json_string_value(json_object_get(json_object_get(forward, "attention"), "base64")), &length);
        ck_assert_uint_eq(length, maps * sizeof(float));

        struct message message = binary_request(input, tokens,
                                                "{'name':'attention','parameters':{'binary_data':true}},{'name':'"
                                                "output','parameters':{'binary_data':true}}");
        const char *bytes;
        reply = infer(server, INFER, &message);
        json_t *document = document_of(&reply, &bytes);
        ck_assert_uint_eq((size_t)(reply.body + reply.length - bytes), (maps + tokens * 64) * sizeof(float));
        ck_assert_mem_eq(bytes, attention, maps * sizeof(float));
        ck_assert_mem_eq(bytes + maps * sizeof(float), output, tokens * 64 * sizeof(float));
        json_decref(document);
        reply_free(&reply);
        free(message.data);

        message = binary_request(input, tokens, "{'name':'attention'}");
        reply = infer(server, INFER, &message);
        document = document_of(&reply, &bytes);
        const json_t *data = json_object_get(output_of(document, "attention"), "data");
        ck_assert_uint_eq(json_array_size(data), maps);
        size_t same = 0;
        for (size_t i = 0; i < maps; i++) {
            const float number = (float)json_number_value(json_array_get(data, i));
            same += memcmp(&number, attention + i * sizeof number, sizeof number) == 0;
        }
        ck_assert_uint_eq(same, maps);
        json_decref(document);
        reply_free(&reply);
        free(message.data);
        json_decref(forward);
        free(output);
        free(attention);
        free(body);
        free(base64);
        free(input);
    }
    server_process_stop(server);
}
END_TEST

/* Requests of both protocols at once, some of which are computed together. */
START_TEST(shares_batches_with_forward)
{
    enum { CALLS = 24 };
    struct server_process *server = server_process_start(&(struct server_options){
        .server_members = "'drain_delay_s':0,'workers':1", .members = "'limits':{'max_batch_delay_us':50000}"});
    struct http_call calls[CALLS];
    float *input = make_input(4);
    struct message message = binary_request(input, 4, "{'name':'output','parameters':{'binary_data':true}}");
    char *base64 = base64_text(input, 4 * 64 * sizeof *input), header[64];
    char *body = quoted("{'input':{'shape':[1,4,64],'base64':'%s'},'encoding':'base64','return':['output']}", base64);
    const char *const headers[] = {header, NULL};
    snprintf(header, sizeof header, "Inference-Header-Content-Length: %zu", message.json_length);
    for (size_t i = 0; i < CALLS; i++)
        calls[i] = i % 2 ? (struct http_call){.method = "POST", .path = FORWARD, .body = body, .length = strlen(body)}
                         : (struct http_call){.method = "POST",
                                              .path = INFER,
                                              .body = message.data,
                                              .length = message.length,
                                              .headers = headers};
    http_perform_all(server, calls, CALLS);
    size_t length;
    json_t *forward = reply_json(&calls[1].reply);
    unsigned char *wanted =
        base64_bytes(json_string_value(json_object_get(json_object_get(forward, "output"), "base64")), &length);
    for (size_t i = 0; i < CALLS; i++) {
        ck_assert_int_eq(calls[i].reply.status, 200);
        if (i % 2 == 0)
            ck_assert_mem_eq(calls[i].reply.body + calls[i].reply.length - length, wanted, length);
    }
    struct reply reply = http_get(server, "/v2/models/demo/stats");
    json_t *statistics = reply_json(&reply);
    const json_t *model = json_array_get(json_object_get(statistics, "model_stats"), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(model, "inference_count")), CALLS);
    ck_assert_int_lt(json_integer_value(json_object_get(model, "execution_count")), CALLS);
    json_decref(statistics);
    reply_free(&reply);
    for (size_t i = 0; i < CALLS; i++)
        reply_free(&calls[i].reply);
    json_decref(forward);
    free(wanted);
    free(body);
    free(base64);
    free(message.data);
    free(input);
    server_process_stop(server);
}
END_TEST

/* ---- what is told of the models */

static json_t *get(const struct server_process *server, const char *path)
{
    struct reply reply = http_get(server, path);
    ck_assert_msg(reply.status == 200, "%s: status %ld: %.200s", path, reply.status, reply.body);
    json_t *document = reply_json(&reply);
    reply_free(&reply);
    return document;
}

START_TEST(tells_of_itself_and_its_models)
{
    struct server_process *server = server_process_start(NULL);
    const char *name, *version, *platform;
    json_t *inputs, *outputs, *document = get(server, "/v2");
    ck_assert_int_eq(
        json_unpack(document, "{s:s, s:s, s:o!}", "name", &name, "version", &version, "extensions", &inputs), 0);
    ck_assert_str_eq(json_string_value(json_array_get(inputs, 0)), "binary_tensor_data");
    json_decref(document);
    document = get(server, "/v2/models");
    ck_assert_int_eq(json_unpack(document, "{s:[s, s, s!]!}", "models", &name, &version, &platform), 0);
    ck_assert_str_eq(version, "plain512");
    json_decref(document);
    static const char *const paths[] = {"/v2/models/plain512", "/v2/models/plain512/versions/1"};
    for (size_t i = 0; i < 2; i++) {
        document = get(server, paths[i]);
        ck_assert_int_eq(json_unpack(document, "{s:s, s:[s!], s:s, s:o, s:o!}", "name", &name, "versions", &version,
                                     "platform", &platform, "inputs", &inputs, "outputs", &outputs),
                         0);
        ck_assert_str_eq(name, "plain512");
        ck_assert_str_eq(version, "1");
        json_int_t width;
        ck_assert_int_eq(json_unpack(json_array_get(inputs, 0), "{s:s, s:s, s:[I, I, I!]!}", "name", &name, "datatype",
                                     &platform, "shape", &width, &width, &width),
                         0);
        ck_assert_int_eq(width, 512);
        ck_assert_uint_eq(json_array_size(inputs), 7);
        ck_assert_uint_eq(json_array_size(outputs), 8);
        json_decref(document);
    }
    document = get(server, "/v2/models/demo/config");
    int batch;
    ck_assert_int_eq(json_unpack(document, "{s:s, s:i, s:o, s:o}", "name", &name, "max_batch_size", &batch, "input",
                                 &inputs, "output", &outputs),
                     0);
    ck_assert_int_eq(batch, 0);
    ck_assert_int_eq(json_unpack(json_array_get(inputs, 0), "{s:s, s:s, s:b}", "name", &name, "data_type", &platform,
                                 "optional", &batch),
                     0);
    ck_assert_str_eq(platform, "TYPE_FP32");
    ck_assert_int_eq(batch, 0);
    json_decref(document);
    server_process_stop(server);
}
END_TEST

/* Every route that names a set counts, and so do those that fail. */
START_TEST(counts_what_is_asked)
{
    struct server_process *server = server_process_start(NULL);
    char *body = small_request();
    expect_served(server);
    struct reply reply = http_post(server, FORWARD, body);
    reply_free(&reply);
    reply = infer_text(server, "{'inputs':[]}");
    ck_assert_int_eq(reply.status, 400);
    reply_free(&reply);
    reply = http_post(server, "/v2/models/plain64/infer", "{");
    ck_assert_int_eq(reply.status, 400);
    reply_free(&reply);
    json_t *document = get(server, "/v2/models/stats"), *list;
    ck_assert_int_eq(json_unpack(document, "{s:o!}", "model_stats", &list), 0);
    ck_assert_uint_eq(json_array_size(list), 3);
    static const struct {
        const char *name;
        json_int_t succeeded, failed;
    } wanted[] = {{"demo", 2, 1}, {"plain512", 0, 0}, {"plain64", 0, 1}};
    for (size_t i = 0; i < 3; i++) {
        const char *name;
        json_int_t last, inferences, executions, succeeded, ns, failed;
        ck_assert_int_eq(json_unpack(json_array_get(list, i), "{s:s, s:I, s:I, s:I, s:{s:{s:I, s:I!}, s:{s:I}}}",
                                     "name", &name, "last_inference", &last, "inference_count", &inferences,
                                     "execution_count", &executions, "inference_stats", "success", "count", &succeeded,
                                     "ns", &ns, "fail", "count", &failed),
                         0);
        ck_assert_str_eq(name, wanted[i].name);
        ck_assert_int_eq(succeeded, wanted[i].succeeded);
        ck_assert_int_eq(failed, wanted[i].failed);
        ck_assert_int_eq(inferences, wanted[i].succeeded);
        ck_assert_int_eq(executions, wanted[i].succeeded);
        ck_assert_int_eq(ns > 0, succeeded > 0);
        ck_assert_int_eq(last > 0, succeeded + failed > 0);
    }
    json_decref(document);
    free(body);
    server_process_stop(server);
}
END_TEST

/* A set that could not be loaded is in the index, and not ready. */
START_TEST(tells_what_is_not_loaded)
{
    struct server_process *server = server_process_start(&(struct server_options){
        .members = "'default_weights':'demo','weights':["
                   "{'name':'demo','source':'numpy','seed':42,'scale':0.1,'d_model':64,'num_heads':8},"
                   "{'name':'gone','source':'safetensors','path':'gone.safetensors','num_heads':2,'required':false,"
                   "'tensors':{'W_Q':'q','W_K':'k','W_V':'v','W_O':'o'}}]",
        .own_weights = true});
    static const char *const bodies[] = {"", "{}", "{\"ready\":true}"};
    for (size_t i = 0; i < 3; i++) {
        struct reply reply = http_post(server, "/v2/repository/index", bodies[i]);
        ck_assert_int_eq(reply.status, 200);
        json_t *list = reply_json(&reply);
        const char *name, *version, *state, *reason;
        ck_assert_uint_eq(json_array_size(list), i == 2 ? 1 : 2);
        for (size_t m = 0; m < json_array_size(list); m++) {
            ck_assert_int_eq(json_unpack(json_array_get(list, m), "{s:s, s:s, s:s, s:s!}", "name", &name, "version",
                                         &version, "state", &state, "reason", &reason),
                             0);
            ck_assert_str_eq(state, m ? "UNAVAILABLE" : "READY");
            ck_assert_int_eq(*reason != '\0', (int)m);
        }
        json_decref(list);
        reply_free(&reply);
    }
    static const char *const paths[] = {"/v2/models/gone", "/v2/models/gone/ready", "/v2/models/gone/stats"};
    for (size_t i = 0; i < 3; i++) {
        struct reply reply = http_get(server, paths[i]);
        ck_assert_int_eq(reply.status, 503);
        ck_assert_ptr_nonnull(strstr(reply.body, "{\"error\":\""));
        reply_free(&reply);
    }
    struct reply reply = http_get(server, "/v2/health/ready");
    ck_assert_int_eq(reply.status, 200);
    reply_free(&reply);
    server_process_stop(server);
}
END_TEST

/* ---- errors */

/* Demands {"error": text} and nothing else, with `word` in the text. */
static void expect_error(const struct reply *reply, long status, const char *word, const char *what)
{
    char type[64], id[256];
    const char *text;
    ck_assert_msg(reply->failure == CURLE_OK, "%s: no answer: %s", what, curl_easy_strerror(reply->failure));
    ck_assert_msg(reply->status == status, "%s: status %ld: %.300s", what, reply->status, reply->body);
    reply_header(reply, "Content-Type", type, sizeof type);
    ck_assert_str_eq(type, "application/json");
    ck_assert(reply_header(reply, "x-request-id", id, sizeof id));
    json_t *document = reply_json(reply);
    ck_assert_msg(json_unpack(document, "{s:s!}", "error", &text) == 0, "%s: %.300s", what, reply->body);
    ck_assert_msg(strstr(text, word) != NULL, "%s: no \"%s\" in: %s", what, word, text);
    json_decref(document);
}

START_TEST(errors_have_the_protocols_form)
{
    static const struct {
        const char *method, *path, *body, *header;
        long status;
        const char *word;
    } cases[] = {
        {"GET", "/v2/nope", NULL, NULL, 404, "/v2/nope"},
        {"GET", "/v2/models/dmeo", NULL, NULL, 404, "demo"},
        {"GET", "/v2/models/demo/versions/2", NULL, NULL, 404, "version \"2\""},
        {"POST", "/v2/models/dmeo/infer", "{}", NULL, 404, "dmeo"},
        {"POST", "/v2/models/demo/versions/7/infer", "{}", NULL, 404, "version \"7\""},
        {"GET", INFER, NULL, NULL, 405, "POST"},
        {"DELETE", "/v2/health/live", NULL, NULL, 405, "GET"},
        {"POST", INFER, "{}", "Content-Type: text/plain", 415, "text/plain"},
        {"POST", INFER, "{}", "Content-Type: application/x-safetensors", 415, "safetensors"},
        {"POST", INFER, "{}", "Expect: wonders", 417, "wonders"},
        {"POST", INFER, "{}", "Inference-Header-Content-Length: -1", 400, "Inference-Header-Content-Length"},
        {"POST", INFER, "{}", "Inference-Header-Content-Length: 0x2", 400, "0x2"},
        {"POST", INFER, "{}", "Inference-Header-Content-Length: 99999999999999999999", 400, "999"},
        {"POST", INFER, "{}", "Inference-Header-Content-Length: 3", 400, "only 2 bytes"},
        {"POST", INFER, "{}", "Content-Type: application/octet-stream", 400, "/inputs"},
        {"POST", INFER, "[]", NULL, 400, "object"},
        {"POST", "/v2/repository/index", "{\"ready\":1}", NULL, 400, "/ready"},
    };
    struct server_process *server =
        server_process_start(&(struct server_options){.members = "'limits':{'max_body_bytes':100000}"});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const headers[] = {cases[i].header, NULL};
        struct reply reply = http_send(server, (struct http_call){.method = cases[i].method,
                                                                  .path = cases[i].path,
                                                                  .body = cases[i].body,
                                                                  .length = cases[i].body ? strlen(cases[i].body) : 0,
                                                                  .headers = headers});
        expect_error(&reply, cases[i].status, cases[i].word, cases[i].path);
        reply_free(&reply);
    }
    char *large = malloc(100001);
    memset(large, ' ', 100000);
    large[100000] = '\0';
    struct reply reply = http_send(
        server, (struct http_call){.method = "POST", .path = INFER, .body = large, .length = 100000, .headers = NULL});
    expect_error(&reply, 400, "JSON", "a body of spaces");
    reply_free(&reply);
    reply = http_send(
        server, (struct http_call){.method = "POST", .path = "/v2/repository/index", .body = large, .length = 100000});
    expect_error(&reply, 413, "65536", "a long index request");
    reply_free(&reply);
    struct raw_answer answer = raw_exchange_text(
        server, "POST " INFER " HTTP/1.1\r\nHost: a\r\nContent-Length: 100001\r\nExpect: 100-continue\r\n\r\n",
        PATIENCE_SECONDS);
    ck_assert_int_eq(raw_status(&answer), 413);
    ck_assert_uint_eq(raw_count(&answer, "\r\n\r\n{\"error\":\""), 1);
    raw_answer_free(&answer);
    answer = raw_exchange_text(server, "POST " INFER " HTTP/1.1\r\nHost: a\r\n\r\n", PATIENCE_SECONDS);
    ck_assert_int_eq(raw_status(&answer), 400);
    ck_assert_uint_eq(raw_count(&answer, "\r\n\r\n{\"error\":\""), 1);
    raw_answer_free(&answer);
    free(large);
    server_process_stop(server);
}
END_TEST

/* A chunked body that grows over the limit, and an upload that is too slow, are answered in mid-upload. */
START_TEST(errors_in_mid_upload_too)
{
    struct server_process *server =
        server_process_start(&(struct server_options){.members = "'limits':{'max_body_bytes':10}"});
    struct raw_answer answer = raw_exchange_text(
        server, "POST " INFER " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n123456789abc\r\n5\r\n",
        PATIENCE_SECONDS);
    ck_assert_int_eq(raw_status(&answer), 413);
    ck_assert_uint_eq(raw_count(&answer, "Content-Type: application/json\r\n"), 1);
    ck_assert_uint_eq(raw_count(&answer, "\r\n\r\n{\"error\":\""), 1);
    raw_answer_free(&answer);
    server_process_stop(server);

    server = server_process_start(&(struct server_options){.server_members = "'drain_delay_s':0,'upload_timeout_s':1"});
    answer = (struct raw_answer){0};
    for (size_t try = 0; try < TRIES && answer.length == 0; try++) { /* nothing, where its headers were late */
        raw_answer_free(&answer);
        answer = raw_exchange_text(server, "POST " INFER " HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{",
                                   PATIENCE_SECONDS);
    }
    ck_assert_int_eq(raw_status(&answer), 408);
    ck_assert_uint_eq(raw_count(&answer, "Content-Type: application/json\r\n"), 1);
    ck_assert_uint_eq(raw_count(&answer, "\r\n\r\n{\"error\":\""), 1);
    raw_answer_free(&answer);
    server_process_stop(server);
}
END_TEST

/* A body with bytes behind its JSON may be of any type; the header is what tells. */
START_TEST(bytes_are_of_any_type)
{
    static const char *const types[] = {"Content-Type: text/plain", "Content-Type: application/octet-stream",
                                        "Content-Type: application/json", "Content-Type: application/x-safetensors"};
    struct server_process *server = server_process_start(NULL);
    float input[64] = {1};
    struct message message = binary_request(input, 1, "{'name':'output'}");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char header[64];
        const char *const headers[] = {header, types[i], NULL}, *bytes;
        snprintf(header, sizeof header, "inference-header-content-length: %zu", message.json_length);
        struct reply reply = http_send(
            server,
            (struct http_call){
                .method = "POST", .path = INFER, .body = message.data, .length = message.length, .headers = headers});
        json_decref(document_of(&reply, &bytes));
        reply_free(&reply);
    }
    free(message.data);
    server_process_stop(server);
}
END_TEST

/* In a compressed answer the header counts what is compressed, not what is sent. */
START_TEST(compressed_answers_keep_their_header)
{
    struct server_process *server = server_process_start(NULL);
    float *input = make_input(40);
    struct message message =
        binary_request(input, 40, "{'name':'output','parameters':{'binary_data':true}},{'name':'heads'}");
    char header[64], coding[32], length[32];
    const char *const headers[] = {header, "Accept-Encoding: gzip", NULL}, *bytes;
    snprintf(header, sizeof header, "Inference-Header-Content-Length: %zu", message.json_length);
    struct reply plain = infer(server, INFER, &message);
    json_decref(document_of(&plain, &bytes));
    struct reply reply = http_send(
        server,
        (struct http_call){
            .method = "POST", .path = INFER, .body = message.data, .length = message.length, .headers = headers});
    ck_assert_int_eq(reply.status, 200);
    ck_assert(reply_header(&reply, "Content-Encoding", coding, sizeof coding));
    ck_assert_str_eq(coding, "gzip");
    ck_assert(reply_header(&reply, "Inference-Header-Content-Length", length, sizeof length));
    ck_assert_uint_eq(strtoull(length, NULL, 10), (size_t)(bytes - plain.body));
    unsigned char *text = malloc(plain.length);
    z_stream z = {.next_in = (Bytef *)reply.body,
                  .avail_in = (uInt)reply.length,
                  .next_out = text,
                  .avail_out = (uInt)plain.length};
    ck_assert_int_eq(inflateInit2(&z, 31), Z_OK);
    ck_assert_int_eq(inflate(&z, Z_FINISH), Z_STREAM_END);
    ck_assert_uint_eq(z.total_out, plain.length);
    ck_assert_mem_eq(text, plain.body, plain.length);
    inflateEnd(&z);
    free(text);
    reply_free(&reply);
    reply_free(&plain);
    free(message.data);
    free(input);
    server_process_stop(server);
}
END_TEST

START_TEST(faults_of_a_request_say_where)
{
    static const struct {
        const char *json, *word;
    } cases[] = {
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[1,2],'data':[1,2]}]}", "(at /inputs/0)"},
        {"{'inputs':[{'name':'input','datatype':'FP32','shape':[1,2],'data':[1,2,3]}]}", "(at /inputs/0/data)"},
        {"{'inputs':[{'name':'inptu','datatype':'FP32','shape':[1,2],'data':[1,2]}]}", "did you mean \"input\""},
        {"{'inputs':[],'outputs':[{'name':'attentoin'}]}", "did you mean \"attention\""},
    };
    struct server_process *server = server_process_start(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reply reply = infer_text(server, cases[i].json);
        expect_error(&reply, 400, cases[i].word, cases[i].json);
        reply_free(&reply);
    }
    server_process_stop(server);
}
END_TEST

/* A result beyond float32 goes in bytes, and not in JSON. */
START_TEST(what_is_not_finite_goes_in_bytes)
{
    struct server_process *server = server_process_start(NULL);
    float input[64], first;
    for (size_t i = 0; i < 64; i++)
        input[i] = 3e38F;
    struct message message = binary_request(input, 1, "{'name':'output'}");
    struct reply reply = infer(server, INFER, &message);
    expect_error(&reply, 400, "output[0][0]", "an infinite output in JSON");
    reply_free(&reply);
    free(message.data);
    message = binary_request(input, 1, "{'name':'output','parameters':{'binary_data':true}}");
    reply = infer(server, INFER, &message);
    const char *bytes;
    json_decref(document_of(&reply, &bytes));
    bool finite = true;
    for (size_t i = 0; i < 64; i++) {
        memcpy(&first, bytes + i * sizeof first, sizeof first);
        finite = finite && isfinite(first);
    }
    ck_assert(!finite);
    reply_free(&reply);
    free(message.data);
    server_process_stop(server);
}
END_TEST

START_TEST(is_not_ready_once_it_drains)
{
    struct server_process *server =
        server_process_start(&(struct server_options){.server_members = "'drain_delay_s':3"});
    struct reply reply = http_get(server, "/v2/health/ready");
    ck_assert_str_eq(reply.body, "{\"ready\":true}");
    reply_free(&reply);
    server_process_signal(server, SIGTERM);
    const double until = seconds_now() + PATIENCE_SECONDS;
    for (reply = http_get(server, "/v2/health/ready"); reply.status == 200 && seconds_now() < until;
         reply = http_get(server, "/v2/health/ready")) {
        reply_free(&reply);
        sleep_ms(10);
    }
    expect_error(&reply, 503, "stopping", "/v2/health/ready");
    reply_free(&reply);
    reply = http_get(server, "/v2/health/live");
    ck_assert_str_eq(reply.body, "{\"live\":true}");
    reply_free(&reply);
    reply = http_get(server, "/v2/models/demo/ready");
    ck_assert_str_eq(reply.body, "{\"name\":\"demo\",\"ready\":true}");
    reply_free(&reply);
    ck_assert_int_eq(server_process_wait(server, PATIENCE_SECONDS), 0);
    server_process_stop(server);
}
END_TEST

/* The log names the pattern and the set, never the path. */
START_TEST(log_has_the_pattern)
{
    struct server_process *server = server_process_start(NULL);
    char *line;
    struct reply reply = infer_text(server, "{'inputs':[]}");
    reply_free(&reply);
    ck_assert(server_process_logs(server, "\"/v2/models/{model}/infer\"", PATIENCE_SECONDS, &line));
    ck_assert_ptr_nonnull(strstr(line, "\"weights\":\"demo\""));
    ck_assert_ptr_nonnull(strstr(line, "\"status\":400"));
    ck_assert_ptr_nonnull(strstr(line, "\"error\":\"invalid\""));
    free(line);
    server_process_stop(server);
}
END_TEST

/* Where the JSON ends is said once: of two lengths another reader may take the other. */
START_TEST(two_lengths_of_the_json)
{
    struct server_process *server = server_process_start(NULL);
    float *input = make_input(1);
    struct message message = binary_request(input, 1, "{'name':'output','parameters':{'binary_data':true}}");
    char right[64], other[64], blanks[sizeof right + 2];
    const char *const lines[][3] = {{right, other}, {other, right}, {right, right}, {blanks}};
    snprintf(right, sizeof right, "Inference-Header-Content-Length: %zu", message.json_length);
    snprintf(other, sizeof other, "Inference-Header-Content-Length: %zu", message.json_length - 1);
    snprintf(blanks, sizeof blanks, "%s \t", right);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct reply reply = http_send(
            server,
            (struct http_call){
                .method = "POST", .path = INFER, .body = message.data, .length = message.length, .headers = lines[i]});
        ck_assert_int_eq(reply.status, lines[i][1] ? 400 : 200);
        if (lines[i][1])
            ck_assert_ptr_nonnull(strstr(reply.body, "2 Inference-Header-Content-Length headers"));
        reply_free(&reply);
    }
    free(message.data);
    free(input);
    server_process_stop(server);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("e2e/oip");
    TCase *c = tcase_create("oip");
    tcase_add_loop_test(c, golden_cases, 0, 2);
    tcase_add_test(c, same_bits_as_forward);
    tcase_add_test(c, shares_batches_with_forward);
    tcase_add_test(c, tells_of_itself_and_its_models);
    tcase_add_test(c, counts_what_is_asked);
    tcase_add_test(c, tells_what_is_not_loaded);
    tcase_add_test(c, errors_have_the_protocols_form);
    tcase_add_test(c, errors_in_mid_upload_too);
    tcase_add_test(c, bytes_are_of_any_type);
    tcase_add_test(c, two_lengths_of_the_json);
    tcase_add_test(c, compressed_answers_keep_their_header);
    tcase_add_test(c, faults_of_a_request_say_where);
    tcase_add_test(c, what_is_not_finite_goes_in_bytes);
    tcase_add_test(c, is_not_ready_once_it_drains);
    tcase_add_test(c, log_has_the_pattern);
    suite_add_tcase(s, c);
    return s;
}
