/* Faults of the files that a weight set is made of, as errors of its entry in the configuration. Any thread. */
#ifndef ATTND_WEIGHTS_FILE_FAULT_H
#define ATTND_WEIGHTS_FILE_FAULT_H

#include "base/error.h"
#include "json/reader.h"

/* Puts "FILE: " before the message, and the pointer to /path. An error that says memory ran out stays as it is. Always
 * false. */
bool file_fault(const char *file, struct error *error);

/* The same for a fault that `r` found in a JSON file: "FILE:LINE: " and the place in the file, where there is one.
 * Syntax faults become ERROR_BAD_ENCODING. */
bool file_fault_json(const struct json_reader *r, const char *file, struct error *error);

#endif
