/* What routes share that answer with the results of a forward themselves. */
#ifndef ATTND_SERVER_FORWARD_H
#define ATTND_SERVER_FORWARD_H

#include "server/forward_job.h"

/* Takes the memory of what job->asked returns. */
bool forward_reserve(struct forward_job *job, struct error *error);

#endif
