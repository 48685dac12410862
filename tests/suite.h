/* What every unit test program defines: its suite, run by main.c. */
#ifndef ATTND_TESTS_SUITE_H
#define ATTND_TESTS_SUITE_H

#include <check.h>

Suite *suite(void);

#endif
