/* All sets of a configuration: the order, the places of faults, and what a name finds. */
#include "suite.h"

#include "weights/registry.h"

#include <stdlib.h>
#include <string.h>

static char demo[] = "demo", plain64[] = "plain64", plain512[] = "plain512", broken[] = "broken", file[] = "attnd.json";
static char path[] = "/nowhere/at/all/model.safetensors", w_q[] = "q", w_k[] = "k", w_v[] = "v", w_o[] = "o";

static struct weights_config sets[4];
static struct config config;

static void start(void)
{
    struct error error;
    if (!engine_init(NULL, &error))
        abort();
    sets[0] = (struct weights_config){demo,           WEIGHTS_NUMPY, .required = true, .d_model = 64,
                                      .num_heads = 8, .scale = 0.1,  .seed = 42,       .line = 4};
    sets[1] = (struct weights_config){plain512,       WEIGHTS_IDENTITY, .required = true,
                                      .d_model = 512, .num_heads = 8,   .line = 5};
    sets[2] = (struct weights_config){
        broken,       WEIGHTS_SAFETENSORS,
        .path = path, .num_heads = 8,
        .line = 6,    .tensors = {[TENSOR_W_Q] = w_q, [TENSOR_W_K] = w_k, [TENSOR_W_V] = w_v, [TENSOR_W_O] = w_o}};
    sets[3] =
        (struct weights_config){plain64, WEIGHTS_IDENTITY, .required = true, .d_model = 64, .num_heads = 8, .line = 7};
    config = (struct config){.file = file, .default_weights = demo, .weights = sets, .weights_count = 4};
}

START_TEST(one_that_need_not_load)
{
    struct weights_registry registry;
    struct faults faults = {0}, warnings = {0};
    struct error error;
    ck_assert(registry_load(&config, &registry, &faults, &warnings));
    ck_assert_uint_eq(faults.count, 0);
    ck_assert_uint_eq(warnings.count, 1);
    ck_assert_str_eq(warnings.items[0].where, "attnd.json:6");
    ck_assert_str_eq(warnings.items[0].pointer, "/weights/2/path");
    ck_assert_ptr_nonnull(strstr(warnings.items[0].message, "\"broken\""));
    ck_assert_ptr_nonnull(strstr(warnings.items[0].message, path));
    ck_assert_uint_eq(registry.count, 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert_str_eq(registry.sets[i]->name, sets[i].name);

    ck_assert_ptr_eq(registry_find(&registry, NULL, &error), registry.sets[0]);
    ck_assert_ptr_eq(registry_find(&registry, "plain64", &error), registry.sets[3]);
    ck_assert_ptr_null(registry_find(&registry, "broken", &error));
    ck_assert_int_eq(error.code, ERROR_NOT_READY);
    ck_assert_ptr_nonnull(strstr(error.message, "\"broken\""));
    ck_assert_ptr_nonnull(strstr(error.message, "model.safetensors"));
    /* Clients see this text: it tells them nothing of the folders. */
    ck_assert_ptr_null(strstr(error.message, "/nowhere"));
    ck_assert_ptr_null(strstr(registry.sets[2]->failure, "/nowhere"));

    ck_assert_ptr_null(registry_find(&registry, "dmeo", &error));
    ck_assert_int_eq(error.code, ERROR_UNKNOWN_WEIGHTS);
    ck_assert_str_eq(error.pointer, "/weights");
    ck_assert_ptr_nonnull(strstr(error.message, "no weight set \"dmeo\""));
    ck_assert_ptr_nonnull(strstr(error.message, "demo, plain512, broken, plain64"));
    ck_assert_ptr_nonnull(strstr(error.message, "did you mean \"demo\"?"));
    ck_assert_ptr_null(registry_find(&registry, "something-else", &error));
    ck_assert_ptr_null(strstr(error.message, "did you mean"));
    registry_free(&registry);
    faults_free(&faults);
    faults_free(&warnings);
}
END_TEST

START_TEST(one_that_must)
{
    struct weights_registry registry;
    struct faults faults = {0}, warnings = {0};
    sets[2].required = true;
    sets[1].num_heads = 7;
    ck_assert(!registry_load(&config, &registry, &faults, &warnings));
    ck_assert_uint_eq(warnings.count, 0);
    ck_assert_uint_eq(faults.count, 2);
    ck_assert_str_eq(faults.items[0].where, "attnd.json:5");
    ck_assert_str_eq(faults.items[0].pointer, "/weights/1/num_heads");
    ck_assert_str_eq(faults.items[1].pointer, "/weights/2/path");
    registry_free(&registry);
    faults_free(&faults);
    faults_free(&warnings);
}
END_TEST

START_TEST(no_default)
{
    struct weights_registry registry;
    struct faults faults = {0}, warnings = {0};
    struct error error;
    config.default_weights = NULL;
    config.weights_count = 2;
    ck_assert(registry_load(&config, &registry, &faults, &warnings));
    ck_assert_ptr_null(registry_find(&registry, NULL, &error));
    ck_assert_int_eq(error.code, ERROR_INVALID);
    ck_assert_str_eq(error.pointer, "/weights");
    ck_assert_ptr_nonnull(strstr(error.message, "demo, plain512"));
    registry_free(&registry);

    config.weights_count = 0;
    ck_assert(registry_load(&config, &registry, &faults, &warnings));
    ck_assert_ptr_null(registry_find(&registry, "demo", &error));
    ck_assert_int_eq(error.code, ERROR_UNKNOWN_WEIGHTS);
    registry_free(&registry);
    faults_free(&faults);
    faults_free(&warnings);
}
END_TEST

START_TEST(the_default_failed)
{
    struct weights_registry registry;
    struct faults faults = {0}, warnings = {0};
    struct error error;
    config.default_weights = broken;
    ck_assert(registry_load(&config, &registry, &faults, &warnings));
    ck_assert_ptr_null(registry_find(&registry, NULL, &error));
    ck_assert_int_eq(error.code, ERROR_NOT_READY);
    registry_free(&registry);
    faults_free(&faults);
    faults_free(&warnings);
}
END_TEST

/* One token of demo (d_model 64, 8 heads of 8) in floats: rows of Q, K, V and Z of 64 + 16, and for each lane the
 * packed key and value of a head, the tile, its row of Z. The least bound is well above what a lane-free count gives,
 * the largest far below a megabyte. */
START_TEST(a_budget_below_a_single_token)
{
    struct weights_registry registry;
    struct faults faults = {0}, warnings = {0};
    ck_assert(registry_load(&config, &registry, &faults, &warnings));
    ck_assert_uint_eq(warnings.count, 1); /* the broken one */
    ck_assert(registry_check_memory(&registry, &config, 2, 1 << 20, &faults, &warnings));
    ck_assert_uint_eq(faults.count, 0);
    ck_assert_uint_eq(warnings.count, 1);

    ck_assert(!registry_check_memory(&registry, &config, 2, 4 * 80 * sizeof(float), &faults, &warnings));
    ck_assert_uint_ge(faults.count, 1);
    ck_assert_str_eq(faults.items[0].where, "attnd.json:4");
    ck_assert_str_eq(faults.items[0].pointer, "/weights/0");
    ck_assert_ptr_nonnull(strstr(faults.items[0].message, "limits.memory_budget_bytes"));
    ck_assert_ptr_nonnull(strstr(faults.items[0].message, "1280"));

    sets[0].required = false;
    const size_t before = faults.count;
    registry_check_memory(&registry, &config, 2, 4 * 80 * sizeof(float), &faults, &warnings);
    sets[0].required = true;
    ck_assert_uint_eq(faults.count, 2 * before - 1);
    ck_assert_uint_eq(warnings.count, 2);
    registry_free(&registry);
    faults_free(&faults);
    faults_free(&warnings);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/registry");
    TCase *tcase = tcase_create("sets");
    tcase_add_checked_fixture(tcase, start, NULL);
    tcase_add_test(tcase, one_that_need_not_load);
    tcase_add_test(tcase, one_that_must);
    tcase_add_test(tcase, no_default);
    tcase_add_test(tcase, the_default_failed);
    tcase_add_test(tcase, a_budget_below_a_single_token);
    suite_add_tcase(suite, tcase);
    return suite;
}
