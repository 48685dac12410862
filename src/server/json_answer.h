/* Answers that are small documents, built whole. */
#ifndef ATTND_SERVER_JSON_ANSWER_H
#define ATTND_SERVER_JSON_ANSWER_H

#include "server/request.h"

#include <jansson.h>

/* Answers 200 with `document`, which it takes over; NULL stands for memory that ran out. */
void request_succeed_document(struct request *request, json_t *document);

#endif
