/* The server under mixed load for long, watched from outside.
 *
 * usage: soak [--no-rss] BINARY COUNT     COUNT requests, or as long as COUNT says when it ends in s ("600s")
 *        soak --starve SECONDS BINARY     small requests beside heavy ones: does any of them wait too long?
 *
 * Right and wrong requests on 64 connections; some clients leave in the middle. Fails when a status is not as expected,
 * an output is not the golden one or not the same as before, or resident memory grows by more than 5 % once it is warm.
 * Exit code 0: passed. */
#include "expect.h"

#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS      64
#define WARM_REQUESTS    20000
#define MAX_GROWTH       1.05
#define MAX_WAIT_SECONDS 10.0
#define MAX_KINDS        64

enum leaving { STAYS, LEAVES_BEFORE_ANSWER, LEAVES_IN_ANSWER };

struct kind {
    char name[256];
    const char *method, *path;
    char *body; /* NULL: none */
    long status;
    enum leaving leaving;
    char *same;     /* what every answer must be up to its timing; NULL: not looked at yet */
    json_t *golden; /* what the first one is compared with; NULL: nothing */
    unsigned weight;
};

struct slot {
    struct http_call call;
    const struct kind *kind;
};

struct soak {
    struct server_process *server;
    struct kind kinds[MAX_KINDS];
    size_t n_kinds, draw[1024], n_draw;
    uint32_t random;
    size_t started, finished, wrong, left;
    double worst_small;
};

static uint32_t drawn(struct soak *soak)
{
    soak->random ^= soak->random << 13;
    soak->random ^= soak->random >> 17;
    soak->random ^= soak->random << 5;
    return soak->random;
}

static struct kind *add_kind(struct soak *soak, const char *name, const char *method, const char *path, char *body,
                             long status, unsigned weight)
{
    if (soak->n_kinds == MAX_KINDS)
        abort();
    struct kind *kind = &soak->kinds[soak->n_kinds];
    *kind = (struct kind){.method = method, .path = path, .body = body, .status = status, .weight = weight};
    snprintf(kind->name, sizeof kind->name, "%s", name);
    for (unsigned i = 0; i < weight && soak->n_draw < 1024; i++)
        soak->draw[soak->n_draw++] = soak->n_kinds;
    soak->n_kinds++;
    return kind;
}

static void add_golden(struct soak *soak)
{
    char folder[512];
    const char *golden = getenv("ATTND_GOLDEN");
    snprintf(folder, sizeof folder, "%s/forward", golden ? golden : "tests/golden");
    setenv("ATTND_GOLDEN", golden ? golden : "tests/golden", 1);
    DIR *directory = opendir(folder);
    if (!directory) {
        fprintf(stderr, "soak: no golden files in %s; set ATTND_GOLDEN, or run it in the repository's folder\n",
                folder);
        exit(2);
    }
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (strstr(entry->d_name, ".json")) {
            json_t *whole = golden_case(entry->d_name);
            struct kind *kind = add_kind(soak, entry->d_name, "POST", FORWARD, golden_request(whole), 200, 4);
            kind->golden = json_incref(json_object_get(whole, "expect"));
            json_decref(whole);
        }
    closedir(directory);
}

static void add_kinds(struct soak *soak)
{
    static const struct {
        const char *name, *body;
        long status;
    } wrong[] = {{"not JSON", "{", 400},
                 {"NaN", "{\"input\":[[NaN]]}", 400},
                 {"wrong width", "{\"input\":[[[1,2,3]]]}", 422},
                 {"ragged", "{\"input\":[[[1,2,3],[1]]]}", 422},
                 {"unknown member", "{\"inptu\":[[1]]}", 422},
                 {"unknown weights", "{\"weights\":\"nope\",\"input\":[[1]]}", 404}};
    add_golden(soak);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        add_kind(soak, wrong[i].name, "POST", FORWARD, strdup(wrong[i].body), wrong[i].status, 3);
    add_kind(soak, "healthz", "GET", "/healthz", NULL, 200, 6);
    add_kind(soak, "weights", "GET", "/v1/weights", NULL, 200, 3);
    add_kind(soak, "no route", "GET", "/v1/nope", NULL, 404, 3);
    add_kind(soak, "wrong method", "GET", FORWARD, NULL, 405, 3);
    add_kind(soak, "heavy", "POST", FORWARD, heavy_request(300), 200, 2);
    add_kind(soak, "leaves before the answer", "POST", FORWARD, heavy_request(400), 0, 2)->leaving =
        LEAVES_BEFORE_ANSWER;
    char *heavy = heavy_request(200), *end = strstr(heavy, ",\"return\"");
    *end = '\0';
    add_kind(soak, "leaves in the answer", "POST", FORWARD, quoted("%s}", heavy), 0, 2)->leaving = LEAVES_IN_ANSWER;
    free(heavy);
}

static size_t leave(char *part, size_t one, size_t size, void *context)
{
    (void)part;
    (void)one;
    (void)size;
    (void)context;
    return 0;
}

static void begin(struct soak *soak, CURLM *multi, struct slot *slot, const struct kind *kind)
{
    slot->kind = kind;
    slot->call = (struct http_call){
        .method = kind->method, .path = kind->path, .body = kind->body, .length = kind->body ? strlen(kind->body) : 0};
    CURL *easy = http_prepare(server_process_port(soak->server), &slot->call, drawn(soak) % 16 == 0);
    if (kind->leaving == LEAVES_BEFORE_ANSWER)
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 1L + (long)(drawn(soak) % 20));
    if (kind->leaving == LEAVES_IN_ANSWER)
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, leave);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, slot);
    curl_multi_add_handle(multi, easy);
    soak->started++;
}

/* The first answer against the golden one; false with a line on stderr when a number is off. */
static bool close_to(const json_t *got, const json_t *wanted)
{
    if (!json_is_array(wanted)) {
        double w = json_number_value(wanted);
        return json_is_number(got) && fabs(json_number_value(got) - w) <= 1e-5 + 1e-5 * fabs(w);
    }
    bool same = json_array_size(got) == json_array_size(wanted);
    for (size_t i = 0; same && i < json_array_size(wanted); i++)
        same = close_to(json_array_get(got, i), json_array_get(wanted, i));
    return same;
}

static bool is_golden(const struct kind *kind, const struct reply *reply)
{
    json_t *document = json_loadb(reply->body, reply->length, JSON_REJECT_DUPLICATES, NULL);
    bool same = document && close_to(json_object_get(document, "output"), json_object_get(kind->golden, "output")) &&
                close_to(json_object_get(document, "attention"), json_object_get(kind->golden, "attention"));
    json_decref(document);
    return same;
}

static void finish(struct soak *soak, CURL *easy, struct slot *slot, CURLcode result, double seconds)
{
    struct kind *kind = &soak->kinds[slot->kind - soak->kinds];
    struct reply *reply = &slot->call.reply;
    http_release(easy, &slot->call, result);
    soak->finished++;
    if (kind->leaving != STAYS) {
        soak->left += result != CURLE_OK;
        if (result == CURLE_OK || result == CURLE_OPERATION_TIMEDOUT || result == CURLE_WRITE_ERROR)
            goto done;
    }
    const char *fault = NULL;
    char *timing = reply->status == 200 && kind->body ? strstr(reply->body, "\"timing_us\"") : NULL;
    if (timing)
        *timing = '\0';
    if (result != CURLE_OK)
        fault = curl_easy_strerror(result);
    else if (reply->status != kind->status)
        fault = "another status";
    else if (kind->status == 200 && kind->body && !timing)
        fault = "no timing_us";
    else if (kind->status == 200 && kind->same && strcmp(kind->same, reply->body) != 0)
        fault = "another answer than the first time";
    else if (timing && kind->golden && !kind->same) {
        *timing = '"';
        if (!is_golden(kind, reply))
            fault = "not the golden numbers";
        *timing = '\0';
    }
    if (fault && ++soak->wrong <= 20)
        fprintf(stderr, "soak: %s: %s (status %ld, expected %ld, after %.3f s): %.300s\n", kind->name, fault,
                reply->status, kind->status, seconds, reply->body);
    if (!fault && kind->status == 200 && !kind->same)
        kind->same = strdup(reply->body);
done:
    reply_free(reply);
}

/* Runs until `requests` have begun (0: any number) or `seconds` are over, all slots busy; `pick` chooses what a slot
 * does. */
static void run(struct soak *soak, size_t requests, double seconds,
                const struct kind *(*pick)(struct soak *soak, size_t slot), long *warm_rss)
{
    static struct slot slots[CONNECTIONS];
    CURLM *multi = curl_multi_init();
    double begun = seconds_now();
    int running = 0, left;
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS);
    for (size_t i = 0; i < CONNECTIONS; i++)
        begin(soak, multi, &slots[i], pick(soak, i));
    do {
        curl_multi_perform(multi, &running);
        for (CURLMsg *message; (message = curl_multi_info_read(multi, &left)) != NULL;) {
            CURL *easy = message->easy_handle;
            CURLcode result = message->data.result;
            struct slot *slot;
            double took;
            curl_easy_getinfo(easy, CURLINFO_PRIVATE, &slot);
            curl_easy_getinfo(easy, CURLINFO_TOTAL_TIME, &took);
            if (!slot->kind->body && took > soak->worst_small)
                soak->worst_small = took;
            curl_multi_remove_handle(multi, easy);
            finish(soak, easy, slot, result, took);
            if (requests ? soak->started < requests : seconds_now() - begun < seconds)
                begin(soak, multi, slot, pick(soak, (size_t)(slot - slots)));
            bool half = requests ? 2 * soak->finished >= requests : 2 * (seconds_now() - begun) >= seconds;
            if (warm_rss && !*warm_rss && (soak->finished >= WARM_REQUESTS || half)) {
                *warm_rss = server_process_rss(soak->server);
                printf("after %zu requests: %ld KiB resident\n", soak->finished, *warm_rss);
                fflush(stdout);
            }
        }
        if (server_process_wait(soak->server, 0) >= 0) {
            fprintf(stderr, "soak: the server has ended with exit code %d\n", server_process_wait(soak->server, 0));
            soak->wrong++;
            break;
        }
        curl_multi_poll(multi, NULL, 0, 100, NULL);
    } while (soak->finished < soak->started);
    printf("%zu requests in %.1f s (%.0f a second), %zu clients left in the middle\n", soak->finished,
           seconds_now() - begun, (double)soak->finished / (seconds_now() - begun), soak->left);
    curl_multi_cleanup(multi);
}

static const struct kind *pick_any(struct soak *soak, size_t slot)
{
    (void)slot;
    return &soak->kinds[soak->draw[drawn(soak) % soak->n_draw]];
}

/* The first four slots post heavy requests one after the other; the others ask for little. */
static const struct kind *pick_starving(struct soak *soak, size_t slot)
{
    return &soak->kinds[slot < 4 ? 0 : 1 + drawn(soak) % (soak->n_kinds - 1)];
}

static void free_kinds(struct soak *soak)
{
    for (size_t i = 0; i < soak->n_kinds; i++) {
        free(soak->kinds[i].body);
        free(soak->kinds[i].same);
        json_decref(soak->kinds[i].golden);
    }
}

/* What the command line asks for. */
static struct {
    const char *binary;
    bool starve, watch_rss;
    size_t requests; /* 0: `seconds` count */
    double seconds;
} asked = {.watch_rss = true};

static bool parse(int argc, char **argv)
{
    int next = 1;
    if (next < argc && strcmp(argv[next], "--no-rss") == 0) {
        asked.watch_rss = false;
        next++;
    } else if (next + 1 < argc && strcmp(argv[next], "--starve") == 0) {
        asked.starve = true;
        asked.seconds = strtod(argv[next + 1], NULL);
        next += 2;
    }
    if (argc - next != (asked.starve ? 1 : 2))
        return false;
    asked.binary = argv[next];
    if (!asked.starve) {
        char *end;
        double number = strtod(argv[next + 1], &end);
        if (strcmp(end, "s") == 0)
            asked.seconds = number;
        else if (!*end && number >= 1)
            asked.requests = (size_t)number;
    }
    return asked.requests > 0 || asked.seconds > 0;
}

START_TEST(soak_passes)
{
    static struct soak soak = {.random = 2463534242U};
    long warm_rss = 0;
    soak.server = server_process_start(&(struct server_options){
        .binary = asked.binary,
        .server_members = asked.starve ? "'drain_delay_s':0,'request_timeout_s':300" : "'drain_delay_s':0"});
    if (asked.starve) {
        add_kind(&soak, "heavy", "POST", FORWARD, heavy_request(2000), 200, 1);
        add_kind(&soak, "healthz", "GET", "/healthz", NULL, 200, 1);
        add_kind(&soak, "weights", "GET", "/v1/weights", NULL, 200, 1);
        run(&soak, 0, asked.seconds, pick_starving, NULL);
        printf("the longest wait of a small request: %.3f s\n", soak.worst_small);
    } else {
        add_kinds(&soak);
        run(&soak, asked.requests, asked.seconds, pick_any, asked.watch_rss ? &warm_rss : NULL);
    }
    long rss = server_process_rss(soak.server);
    printf("at the end: %ld KiB resident, %zu wrong answers\n", rss, soak.wrong);
    fflush(stdout);
    free_kinds(&soak);
    server_process_stop(soak.server);
    ck_assert_msg(soak.wrong == 0, "%zu wrong answers", soak.wrong);
    ck_assert_msg(!asked.starve || soak.worst_small <= MAX_WAIT_SECONDS,
                  "a small request waited %.3f s, more than %g s", soak.worst_small, MAX_WAIT_SECONDS);
    ck_assert_msg(warm_rss == 0 || (double)rss <= (double)warm_rss * MAX_GROWTH,
                  "resident memory grew from %ld to %ld KiB, by more than 5 %%", warm_rss, rss);
}
END_TEST

/* The harness reports through check, so this is a suite of one test, in this very process. */
int main(int argc, char **argv)
{
    if (!parse(argc, argv)) {
        fputs("usage: soak [--no-rss] BINARY REQUESTS\n       soak [--no-rss] BINARY SECONDSs\n       soak --starve "
              "SECONDS BINARY\n",
              stderr);
        return 2;
    }
    Suite *suite = suite_create("soak");
    TCase *soak = tcase_create("soak");
    tcase_add_test(soak, soak_passes);
    suite_add_tcase(suite, soak);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
