/* The members of rules as requests write them: what is kept of each kind, and what is refused where. */
#include "codec/decoded.h"
#include "codec/expect.h"

#include <stdio.h>

static struct arena arena;

static void free_memory(void)
{
    arena_free(&arena);
}

static bool decode(const char *member, struct forward_request *request, struct error *error)
{
    static char body[4096];
    snprintf(body, sizeof body, "{\"input\":[[0]],%s}", member);
    arena_for_body(&arena, strlen(body));
    return forward_request_decode(&(struct request_body){BODY_JSON, body, strlen(body)}, &arena, request, error);
}

static const struct rules_asked *decode_right(const char *member)
{
    static struct forward_request request;
    struct error error;
    ck_assert_msg(decode(member, &request, &error), "%s: %s at %s", member, error.message, error.pointer);
    ck_assert_ptr_nonnull(request.rules);
    ck_assert_uint_eq(arena.used, BEFORE_BODY + held_bytes(&request));
    return &request.rules->asked;
}

START_TEST(test_positions)
{
    const struct rules_asked *a = decode_right("\"position\":{\"kind\":\"sinusoidal\"}");
    const struct position_rule *p = &a->rules.position;
    ck_assert_uint_eq(a->named, RULE_POSITION);
    ck_assert_int_eq(p->kind, POSITION_SINUSOIDAL);
    ck_assert_double_eq(p->base, 10000);
    a = decode_right("\"position\":{\"base\":0.5,\"kind\":\"sinusoidal\"}");
    ck_assert_double_eq(a->rules.position.base, 0.5);

    a = decode_right("\"position\":{\"kind\":\"learned\",\"P\":[[1,2],[3,4],[5,6]],\"offset\":2.0}");
    ck_assert_int_eq(a->rules.position.kind, POSITION_LEARNED);
    ck_assert_uint_eq(a->table.rank, 2);
    ck_assert_uint_eq(a->table.shape[0], 3);
    ck_assert_float_eq(a->table.data[5], 6);
    ck_assert_uint_eq(a->rules.position.offset, 2);

    a = decode_right("\"position\":{\"kind\":\"rope\"}");
    ck_assert(a->rules.position.kind == POSITION_ROPE && !a->has_dims && a->rules.position.dims == 0 &&
              !a->rules.position.interleaved && a->rules.position.scaling == ROPE_UNSCALED);
    a = decode_right("\"position\":{\"kind\":\"rope\",\"dims\":4,\"style\":\"interleaved\",\"base\":5e5,"
                     "\"scaling\":{\"factor\":4,\"kind\":\"linear\"}}");
    p = &a->rules.position;
    ck_assert(a->has_dims && p->dims == 4 && p->interleaved && p->base == 5e5 && p->scaling == ROPE_LINEAR &&
              p->factor == 4);
    a = decode_right("\"position\":{\"kind\":\"rope\",\"style\":\"half\",\"scaling\":{\"kind\":\"llama3\",\"factor\":8,"
                     "\"low_freq_factor\":1,\"high_freq_factor\":4,\"original_max_position_embeddings\":8192}}");
    p = &a->rules.position;
    ck_assert(!p->interleaved && p->scaling == ROPE_LLAMA3 && p->factor == 8 && p->low_freq_factor == 1 &&
              p->high_freq_factor == 4 && p->original_max_positions == 8192);
    a = decode_right("\"position\":{\"kind\":\"rope\",\"scaling\":null}");
    ck_assert_int_eq(a->rules.position.scaling, ROPE_UNSCALED);

    ck_assert_int_eq(decode_right("\"position\":{\"kind\":\"alibi\"}")->rules.position.kind, POSITION_ALIBI);
    a = decode_right("\"position\":{\"kind\":\"t5\",\"R\":{\"shape\":[4,1],\"data\":[1,2,3,4]}}");
    p = &a->rules.position;
    ck_assert(p->kind == POSITION_T5 && p->max_distance == 128 && p->bidirectional && a->table.shape[0] == 4);
    a = decode_right("\"position\":{\"kind\":\"t5\",\"max_distance\":5,\"bidirectional\":false,"
                     "\"R\":{\"shape\":[2,1],\"dtype\":\"f32\",\"base64\":\"AACAPwAAAEA=\"}}");
    p = &a->rules.position;
    ck_assert(p->max_distance == 5 && !p->bidirectional && a->table.data[1] == 2);
    a = decode_right("\"position\":{\"kind\":\"t5\",\"R\":[[1],[2]],\"max_distance\":9007199254740992}");
    ck_assert_uint_eq(a->rules.position.max_distance, 9007199254740992u);
    a = decode_right("\"position\":{\"kind\":\"relative\",\"R\":[[1],[2],[3]]}");
    ck_assert(a->rules.position.kind == POSITION_RELATIVE && a->table.shape[0] == 3);
}
END_TEST

START_TEST(test_patterns)
{
    const struct pattern_rule *p =
        &decode_right("\"pattern\":{\"kind\":\"window\",\"left\":0,\"right\":7}")->rules.pattern;
    ck_assert(p->kind == PATTERN_WINDOW && p->left == 0 && p->right == 7 && p->n_global == 0 && !p->global);
    p = &decode_right("\"pattern\":{\"kind\":\"window\",\"left\":9007199254740992,\"right\":1e2}")->rules.pattern;
    ck_assert(p->left == 9007199254740992u && p->right == 100);
    p = &decode_right("\"pattern\":{\"global\":[7,0,7,9007199254740992,3,0],\"kind\":\"dilated\",\"window\":2,"
                      "\"step\":3}")
             ->rules.pattern;
    ck_assert(p->kind == PATTERN_DILATED && p->window == 2 && p->step == 3 && p->n_global == 3);
    ck_assert(p->global[0] == 0 && p->global[1] == 3 && p->global[2] == 7);
    p = &decode_right("\"pattern\":{\"kind\":\"block\",\"size\":5,\"global\":[]}")->rules.pattern;
    ck_assert(p->kind == PATTERN_BLOCK && p->size == 5 && p->n_global == 0);
    p = &decode_right("\"pattern\":{\"kind\":\"strided\",\"stride\":6}")->rules.pattern;
    ck_assert(p->kind == PATTERN_STRIDED && p->size == 6);
    p = &decode_right("\"pattern\":{\"kind\":\"bigbird\",\"block\":4}")->rules.pattern;
    ck_assert(p->kind == PATTERN_BIGBIRD && p->size == 4 && p->window_blocks == 3 && p->global_blocks == 1 &&
              p->random_blocks == 0 && p->seed == 0);
    p = &decode_right("\"pattern\":{\"kind\":\"bigbird\",\"block\":4,\"window_blocks\":1,\"global_blocks\":0,"
                      "\"random_blocks\":2,\"seed\":9007199254740991}")
             ->rules.pattern;
    ck_assert(p->window_blocks == 1 && p->global_blocks == 0 && p->random_blocks == 2 && p->seed == 9007199254740991u);
    p = &decode_right("\"pattern\":{\"kind\":\"bigbird\",\"block\":4,\"window_blocks\":9007199254740991}")
             ->rules.pattern;
    ck_assert_uint_eq(p->window_blocks, 9007199254740991u);
    p = &decode_right("\"pattern\":{\"kind\":\"top_k\",\"k\":3}")->rules.pattern;
    ck_assert(p->kind == PATTERN_TOP_K && p->k == 3);
    p = &decode_right("\"pattern\":{\"kind\":\"full\",\"global\":[1]}")->rules.pattern;
    ck_assert_int_eq(p->kind, PATTERN_FULL);
}
END_TEST

START_TEST(test_others)
{
    const struct rules_asked *a =
        decode_right("\"low_rank\":{\"kind\":\"linformer\",\"E\":[[1,2]],\"F\":[[[3]],[[4]]]}");
    ck_assert(a->rules.low_rank.kind == LOW_RANK_LINFORMER && a->e.rank == 2 && a->e.data[1] == 2 && a->f.rank == 3 &&
              a->f.data[1] == 4);
    a = decode_right("\"low_rank\":{\"kind\":\"nystrom\",\"landmarks\":1024}");
    ck_assert(a->rules.low_rank.kind == LOW_RANK_NYSTROM && a->rules.low_rank.landmarks == 1024 &&
              a->rules.low_rank.iterations == 6);
    ck_assert_uint_eq(decode_right("\"low_rank\":{\"kind\":\"nystrom\",\"landmarks\":1,\"iterations\":32}")
                          ->rules.low_rank.iterations,
                      32);

    const struct keep_heads_rule *k = &decode_right("\"keep_heads\":{\"count\":2}")->rules.keep_heads;
    ck_assert(k->kind == KEEP_COUNT && k->count == 2 && k->by == KEEP_BY_NORM);
    k = &decode_right("\"keep_heads\":{\"by\":\"importance\",\"mass\":1}")->rules.keep_heads;
    ck_assert(k->kind == KEEP_MASS && k->mass == 1 && k->by == KEEP_BY_IMPORTANCE);
    k = &decode_right("\"keep_heads\":{\"by\":\"confidence\",\"mass\":1e-9}")->rules.keep_heads;
    ck_assert(k->kind == KEEP_MASS && k->by == KEEP_BY_CONFIDENCE);
    k = &decode_right("\"keep_heads\":{\"entropy_below\":0}")->rules.keep_heads;
    ck_assert(k->kind == KEEP_ENTROPY_BELOW && k->entropy_below == 0);

    const struct dropout_rule *d = &decode_right("\"dropout\":{\"rate\":0}")->rules.dropout;
    ck_assert(d->rate == 0 && d->seed == 0 && d->samples == 32);
    d = &decode_right("\"dropout\":{\"rate\":0.25,\"seed\":4503599627382841,\"samples\":1024}")->rules.dropout;
    ck_assert(d->rate == 0.25 && d->seed == 4503599627382841u && d->samples == 1024);
}
END_TEST

START_TEST(test_off)
{
    const struct rules_asked *a =
        decode_right("\"position\":null,\"pattern\":null,\"low_rank\":null,\"keep_heads\":null,\"dropout\":null");
    ck_assert_uint_eq(a->named, (1u << RULE_COUNT) - 1);
    ck_assert(a->rules.position.kind == POSITION_NONE && a->rules.pattern.kind == PATTERN_FULL &&
              a->rules.low_rank.kind == LOW_RANK_NONE && a->rules.keep_heads.kind == KEEP_ALL_HEADS &&
              a->rules.dropout.samples == 0);
    a = decode_right("\"position\":{\"kind\":\"none\"},\"pattern\":{\"kind\":\"full\"}");
    ck_assert_uint_eq(a->named, RULE_POSITION | RULE_PATTERN);
    ck_assert(a->rules.position.kind == POSITION_NONE && a->rules.pattern.kind == PATTERN_FULL);
}
END_TEST

START_TEST(test_request_without)
{
    struct forward_request request;
    struct error error;
    ck_assert(decode("\"causal\":true", &request, &error));
    ck_assert(!request.rules && request.has_causal && request.causal && !request.compare);
    ck_assert(decode("\"causal\":null", &request, &error));
    ck_assert(request.has_causal && !request.causal);
    ck_assert(decode("\"compare\":\"full\"", &request, &error));
    ck_assert(!request.rules && !request.has_causal && request.compare);
}
END_TEST

static const struct {
    const char *member;
    enum error_code code;
    const char *pointer, *words;
} WRONG[] = {
    {"\"position\":{\"kind\":\"ropee\"}", ERROR_INVALID, "/position/kind", "ropee mean rope"},
    {"\"position\":{}", ERROR_INVALID, "/position", "kind"},
    {"\"position\":[]", ERROR_INVALID, "/position", "object null"},
    {"\"position\":\"rope\"", ERROR_INVALID, "/position", "object string"},
    {"\"position\":{\"kind\":1}", ERROR_INVALID, "/position/kind", "string"},
    {"\"position\":{\"kind\":\"rope\",\"kind\":\"rope\"}", ERROR_DUPLICATE_MEMBER, NULL, "kind twice"},
    {"\"position\":{\"kind\":\"rope\",\"dims\":2,\"dims\":2}", ERROR_DUPLICATE_MEMBER, NULL, "dims twice"},
    {"\"position\":null,\"position\":null", ERROR_DUPLICATE_MEMBER, NULL, "position twice"},
    {"\"position\":{\"kind\":\"none\",\"base\":1}", ERROR_UNKNOWN_MEMBER, "/position/base", "none base kind"},
    {"\"position\":{\"kind\":\"rope\",\"dim\":2}", ERROR_UNKNOWN_MEMBER, "/position/dim", "dim mean dims"},
    {"\"position\":{\"kind\":\"alibi\",\"R\":[[1]]}", ERROR_UNKNOWN_MEMBER, "/position/R", "alibi R"},
    {"\"position\":{\"kind\":\"rope\",\"dims\":0}", ERROR_INVALID, "/position/dims", "1 0"},
    {"\"position\":{\"kind\":\"rope\",\"dims\":1.5}", ERROR_INVALID, "/position/dims", "integer 1.5"},
    {"\"position\":{\"kind\":\"rope\",\"dims\":null}", ERROR_INVALID, "/position/dims", "integer null"},
    {"\"position\":{\"kind\":\"rope\",\"base\":0}", ERROR_INVALID, "/position/base", "base 0"},
    {"\"position\":{\"kind\":\"rope\",\"base\":-1}", ERROR_INVALID, "/position/base", "base"},
    {"\"position\":{\"kind\":\"rope\",\"base\":1e999}", ERROR_INVALID, "/position/base", "1e999"},
    {"\"position\":{\"kind\":\"rope\",\"style\":\"haf\"}", ERROR_INVALID, "/position/style", "haf mean half"},
    {"\"position\":{\"kind\":\"rope\",\"scaling\":{\"kind\":\"yarn\",\"factor\":2}}", ERROR_INVALID,
     "/position/scaling/kind", "yarn linear llama3"},
    {"\"position\":{\"kind\":\"rope\",\"scaling\":{\"kind\":\"linear\"}}", ERROR_INVALID, "/position/scaling",
     "linear factor"},
    {"\"position\":{\"kind\":\"rope\",\"scaling\":{\"kind\":\"linear\",\"factor\":0}}", ERROR_INVALID,
     "/position/scaling/factor", "factor 0"},
    {"\"position\":{\"kind\":\"rope\",\"scaling\":{\"kind\":\"linear\",\"factor\":2,\"low_freq_factor\":1}}",
     ERROR_UNKNOWN_MEMBER, "/position/scaling/low_freq_factor", "linear"},
    {"\"position\":{\"kind\":\"rope\",\"scaling\":2}", ERROR_INVALID, "/position/scaling", "object"},
    {"\"position\":{\"kind\":\"rope\",\"scaling\":{\"kind\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,"
     "\"high_freq_factor\":4,\"original_max_position_embeddings\":32}}",
     ERROR_INVALID, "/position/scaling/high_freq_factor", "low_freq_factor 4"},
    {"\"position\":{\"kind\":\"rope\",\"scaling\":{\"kind\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
     "\"high_freq_factor\":4,\"original_max_position_embeddings\":0}}",
     ERROR_INVALID, "/position/scaling/original_max_position_embeddings", "1 0"},
    {"\"position\":{\"kind\":\"learned\"}", ERROR_INVALID, "/position", "learned P"},
    {"\"position\":{\"kind\":\"learned\",\"P\":\"P\"}", ERROR_INVALID, "/position/P", "tensor"},
    {"\"position\":{\"kind\":\"learned\",\"P\":[[1],[2,3]]}", ERROR_INVALID, "/position/P/1", "ragged"},
    {"\"position\":{\"kind\":\"learned\",\"P\":[[1e39]]}", ERROR_NOT_FINITE, "/position/P/0/0", "1e39"},
    {"\"position\":{\"kind\":\"learned\",\"P\":[[[1]]]}", ERROR_INVALID, "/position/P", "3 2"},
    {"\"position\":{\"kind\":\"learned\",\"P\":[[1]],\"offset\":-1}", ERROR_INVALID, "/position/offset", "0 -1"},
    {"\"position\":{\"kind\":\"relative\"}", ERROR_INVALID, "/position", "relative R"},
    {"\"position\":{\"kind\":\"t5\",\"R\":[[1]],\"max_distance\":0}", ERROR_INVALID, "/position/max_distance", "1 0"},
    {"\"position\":{\"kind\":\"t5\",\"R\":[[1]],\"bidirectional\":1}", ERROR_INVALID, "/position/bidirectional",
     "number"},
    {"\"pattern\":{\"kind\":\"windw\"}", ERROR_INVALID, "/pattern/kind", "windw mean window"},
    {"\"pattern\":{\"kind\":\"window\",\"left\":1}", ERROR_INVALID, "/pattern", "window right"},
    {"\"pattern\":{\"kind\":\"window\",\"left\":-1,\"right\":0}", ERROR_INVALID, "/pattern/left", "0 -1"},
    {"\"pattern\":{\"kind\":\"window\",\"left\":9007199254740993,\"right\":0}", ERROR_INVALID, "/pattern/left",
     "9007199254740992"},
    {"\"pattern\":{\"kind\":\"window\",\"left\":1,\"right\":1,\"size\":3}", ERROR_UNKNOWN_MEMBER, "/pattern/size",
     "window size left"},
    {"\"pattern\":{\"kind\":\"window\",\"left\":1,\"right\":1,\"global\":[-1]}", ERROR_INVALID, "/pattern/global/0",
     "0 -1"},
    {"\"pattern\":{\"kind\":\"window\",\"left\":1,\"right\":1,\"global\":[0,1.5]}", ERROR_INVALID, "/pattern/global/1",
     "1.5"},
    {"\"pattern\":{\"kind\":\"window\",\"left\":1,\"right\":1,\"global\":3}", ERROR_INVALID, "/pattern/global",
     "array"},
    {"\"pattern\":{\"kind\":\"top_k\",\"k\":0}", ERROR_INVALID, "/pattern/k", "1 0"},
    {"\"pattern\":{\"kind\":\"top_k\",\"k\":2,\"global\":[0]}", ERROR_UNKNOWN_MEMBER, "/pattern/global", "top_k"},
    {"\"pattern\":{\"kind\":\"block\",\"size\":0}", ERROR_INVALID, "/pattern/size", "1 0"},
    {"\"pattern\":{\"kind\":\"dilated\",\"window\":1,\"step\":0}", ERROR_INVALID, "/pattern/step", "1 0"},
    {"\"pattern\":{\"kind\":\"dilated\",\"window\":1}", ERROR_INVALID, "/pattern", "step"},
    {"\"pattern\":{\"kind\":\"strided\",\"stride\":0}", ERROR_INVALID, "/pattern/stride", "1 0"},
    {"\"pattern\":{\"kind\":\"bigbird\",\"block\":2,\"window_blocks\":2,\"random_blocks\":1}", ERROR_INVALID,
     "/pattern/window_blocks", "odd"},
    {"\"pattern\":{\"kind\":\"bigbird\",\"block\":2,\"window_blocks\":9007199254740992}", ERROR_INVALID,
     "/pattern/window_blocks", "odd"},
    {"\"pattern\":{\"kind\":\"bigbird\",\"block\":2,\"window_blocks\":0}", ERROR_INVALID, "/pattern/window_blocks",
     "1 0"},
    {"\"pattern\":{\"kind\":\"bigbird\"}", ERROR_INVALID, "/pattern", "bigbird block"},
    {"\"pattern\":{\"kind\":\"bigbird\",\"block\":2,\"seed\":9007199254740992}", ERROR_INVALID, "/pattern/seed",
     "9007199254740991"},
    {"\"low_rank\":{\"kind\":\"nystroem\",\"landmarks\":3}", ERROR_INVALID, "/low_rank/kind", "mean nystrom"},
    {"\"low_rank\":{\"kind\":\"none\"}", ERROR_INVALID, "/low_rank/kind", "linformer nystrom svd"},
    {"\"low_rank\":{\"kind\":\"svd\",\"rank\":2}", ERROR_INVALID, "/low_rank/kind", "svd configuration"},
    {"\"low_rank\":{\"kind\":\"nystrom\"}", ERROR_INVALID, "/low_rank", "landmarks"},
    {"\"low_rank\":{\"kind\":\"nystrom\",\"landmarks\":0}", ERROR_INVALID, "/low_rank/landmarks", "1 1024 0"},
    {"\"low_rank\":{\"kind\":\"nystrom\",\"landmarks\":1025}", ERROR_INVALID, "/low_rank/landmarks", "1025"},
    {"\"low_rank\":{\"kind\":\"nystrom\",\"landmarks\":2,\"iterations\":33}", ERROR_INVALID, "/low_rank/iterations",
     "33"},
    {"\"low_rank\":{\"kind\":\"linformer\",\"E\":[[1]]}", ERROR_INVALID, "/low_rank", "F"},
    {"\"keep_heads\":{\"by\":\"norm\"}", ERROR_INVALID, "/keep_heads", "count mass entropy_below none"},
    {"\"keep_heads\":{}", ERROR_INVALID, "/keep_heads", "count"},
    {"\"keep_heads\":{\"count\":2,\"mass\":0.5}", ERROR_INVALID, "/keep_heads", "one more"},
    {"\"keep_heads\":{\"count\":0}", ERROR_INVALID, "/keep_heads/count", "1 0"},
    {"\"keep_heads\":{\"mass\":0}", ERROR_INVALID, "/keep_heads/mass", "mass above 0"},
    {"\"keep_heads\":{\"mass\":1.5}", ERROR_INVALID, "/keep_heads/mass", "1.5"},
    {"\"keep_heads\":{\"entropy_below\":1.5}", ERROR_INVALID, "/keep_heads/entropy_below", "1.5"},
    {"\"keep_heads\":{\"entropy_below\":0.5,\"by\":\"norm\"}", ERROR_INVALID, "/keep_heads/by", "entropy_below"},
    {"\"keep_heads\":{\"count\":2,\"by\":\"nrom\"}", ERROR_INVALID, "/keep_heads/by", "mean norm"},
    {"\"keep_heads\":{\"cuont\":2}", ERROR_UNKNOWN_MEMBER, "/keep_heads/cuont", "mean count"},
    {"\"keep_heads\":{\"kind\":\"count\"}", ERROR_UNKNOWN_MEMBER, "/keep_heads/kind", "kind"},
    {"\"keep_heads\":3", ERROR_INVALID, "/keep_heads", "object null"},
    {"\"dropout\":{\"seed\":1}", ERROR_INVALID, "/dropout", "rate"},
    {"\"dropout\":{\"rate\":1}", ERROR_INVALID, "/dropout/rate", "rate 1 below"},
    {"\"dropout\":{\"rate\":-0.1}", ERROR_INVALID, "/dropout/rate", "0"},
    {"\"dropout\":{\"rate\":\"a\"}", ERROR_INVALID, "/dropout/rate", "number"},
    {"\"dropout\":{\"rate\":0.1,\"samples\":0}", ERROR_INVALID, "/dropout/samples", "1 1024"},
    {"\"dropout\":{\"rate\":0.1,\"samples\":1025}", ERROR_INVALID, "/dropout/samples", "1025"},
    {"\"dropout\":{\"rate\":0.1,\"seed\":-1}", ERROR_INVALID, "/dropout/seed", "-1"},
    {"\"dropout\":{\"rate\":0.1,\"seed\":9007199254740992}", ERROR_INVALID, "/dropout/seed", "9007199254740992"},
    {"\"dropout\":0.1", ERROR_INVALID, "/dropout", "object"},
    {"\"compare\":\"ful\"", ERROR_INVALID, "/compare", "mean full"},
    {"\"compare\":true", ERROR_INVALID, "/compare", "string"},
    {"\"pattern\":{\"kind\":\"window\",\"left\":1,\"right\":}", ERROR_NOT_JSON, NULL, NULL},
    {"\"pattern\":{\"kind\":\"window\",\"left\":01,\"right\":1}", ERROR_NOT_JSON, NULL, NULL},
};

START_TEST(test_wrong)
{
    struct forward_request request;
    struct error error;
    ck_assert_msg(!decode(WRONG[_i].member, &request, &error), "%s was accepted", WRONG[_i].member);
    expect_error(&error, WRONG[_i].code, WRONG[_i].pointer, WRONG[_i].words, WRONG[_i].member);
    ck_assert(!request.rules);
    ck_assert_uint_eq(arena.used, BEFORE_BODY);
}
END_TEST

/* The densest texts take no more than is promised: decode() reserves no more. */
START_TEST(test_memory)
{
    enum { COUNT = 900 };
    static char member[4096];
    size_t at = (size_t)sprintf(member, "\"pattern\":{\"kind\":\"window\",\"left\":1,\"right\":1,\"global\":[");
    for (int i = 0; i < COUNT; i++)
        at += (size_t)sprintf(member + at, "%s%d", i ? "," : "", i % 10);
    strcpy(member + at, "]}");
    ck_assert_uint_eq(decode_right(member)->rules.pattern.n_global, 10);
    at = (size_t)sprintf(member, "\"position\":{\"kind\":\"learned\",\"P\":[[");
    for (int i = 0; i < COUNT; i++)
        at += (size_t)sprintf(member + at, "%s%d", i ? "," : "", i % 10);
    strcpy(member + at, "]]}");
    ck_assert_uint_eq(decode_right(member)->table.count, COUNT);
    at = (size_t)sprintf(member, "\"dropout\":{\"rate\":0},\"position_ids\":[");
    for (int i = 0; i < COUNT; i++)
        at += (size_t)sprintf(member + at, "%s%d", i ? "," : "", i % 10);
    strcpy(member + at, "]");
    decode_right(member);
}
END_TEST

/* In an arena of any size it is read whole or not at all. */
START_TEST(test_small_arenas)
{
    static const char body[] =
        "{\"input\":[[0]],\"position\":{\"kind\":\"learned\",\"P\":[[1]]},\"pattern\":{\"kind\":\"block\",\"size\":2,"
        "\"global\":[1,2]},\"low_rank\":{\"kind\":\"linformer\",\"E\":[[1]],\"F\":[[1]]},\"position_ids\":[0]}";
    struct forward_request request;
    struct error error;
    size_t capacity = 0;
    arena_for_body(&arena, sizeof body - 1);
    const size_t most = arena.capacity;
    for (;; capacity += ARENA_ALIGNMENT) {
        ck_assert_uint_le(capacity, most - BEFORE_BODY);
        arena_reset(&arena);
        arena.capacity = capacity;
        if (forward_request_decode(&(struct request_body){BODY_JSON, body, sizeof body - 1}, &arena, &request, &error))
            break;
        expect_error(&error, ERROR_OUT_OF_MEMORY, NULL, "", "a full arena");
        ck_assert(arena.used == 0 && !request.rules && !request.position_ids.data);
    }
    arena.capacity = most;
    ck_assert_uint_gt(capacity, sizeof(struct forward_rules));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("rules_read");
    TCase *c = tcase_create("rules_read");
    tcase_add_checked_fixture(c, NULL, free_memory);
    tcase_add_test(c, test_positions);
    tcase_add_test(c, test_patterns);
    tcase_add_test(c, test_others);
    tcase_add_test(c, test_off);
    tcase_add_test(c, test_request_without);
    tcase_add_loop_test(c, test_wrong, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_test(c, test_memory);
    tcase_add_test(c, test_small_arenas);
    suite_add_tcase(s, c);
    return s;
}
