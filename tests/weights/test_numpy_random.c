/* The generator against numbers that NumPy printed (golden/weights/make.py). */
#include "suite.h"

#include "golden.h"
#include "weights/numpy_random.h"

/* Bit for bit, before any rounding to float32: the first and last five draws of each matrix. */
START_TEST(same_bits_as_numpy)
{
    static const char *const names[] = {"W_Q", "W_K", "W_V", "W_O"};
    json_t *document = golden_load("weights/numpy.json"),
           *one = json_array_get(json_object_get(document, "cases"), (size_t)_i);
    const json_t *d_model = json_object_get(one, "d_model"), *heads = json_object_get(one, "num_heads");
    size_t d = (size_t)json_integer_value(d_model), h = (size_t)json_integer_value(heads);
    size_t kv = (size_t)json_integer_value(json_object_get(one, "num_kv_heads"));
    size_t d_k = (size_t)json_integer_value(json_object_get(one, "d_k")),
           d_v = (size_t)json_integer_value(json_object_get(one, "d_v"));
    const size_t counts[] = {d * h * d_k, d * kv * d_k, d * kv * d_v, d * h * d_v};
    double scale = json_number_value(json_object_get(one, "scale"));
    struct numpy_random random;
    numpy_random_seed(&random, (uint32_t)json_integer_value(json_object_get(one, "seed")));
    for (size_t m = 0; m < 4; m++) {
        const json_t *first = json_object_get(json_object_get(one, "first"), names[m]);
        const json_t *last = json_object_get(json_object_get(one, "last"), names[m]);
        ck_assert_uint_eq(json_array_size(first), 5);
        ck_assert_uint_eq(json_array_size(last), 5);
        for (size_t i = 0; i < counts[m]; i++) {
            double drawn = numpy_random_normal(&random) * scale;
            if (i < 5)
                ck_assert_double_eq(drawn, json_number_value(json_array_get(first, i)));
            if (i + 5 >= counts[m])
                ck_assert_double_eq(drawn, json_number_value(json_array_get(last, i + 5 - counts[m])));
        }
    }
    json_decref(document);
}
END_TEST

START_TEST(seeding_again_begins_again)
{
    struct numpy_random random;
    numpy_random_seed(&random, 5);
    double first = numpy_random_normal(&random);
    /* An odd count leaves half of a pair behind, which must not survive. */
    numpy_random_seed(&random, 5);
    ck_assert_double_eq(numpy_random_normal(&random), first);
    ck_assert_double_ne(numpy_random_normal(&random), first);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/numpy_random");
    TCase *tcase = tcase_create("randn");
    tcase_add_loop_test(tcase, same_bits_as_numpy, 0, 5);
    tcase_add_test(tcase, seeding_again_begins_again);
    suite_add_tcase(suite, tcase);
    return suite;
}
