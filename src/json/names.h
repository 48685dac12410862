/* Members' names: comparing them, and remembering them to find duplicates. One thread at a time for a reader. */
#ifndef ATTND_JSON_NAMES_H
#define ATTND_JSON_NAMES_H

#include "json/reader.h"

/* Adds the name of the innermost open object's next member. False: ERROR_DUPLICATE_MEMBER, or ERROR_NOT_JSON past
 * JSON_MAX_MEMBERS. */
bool names_add(struct json_reader *r, const struct json_key *key, struct error *error);

/* As json_next_member, but the name is not remembered: for a caller that finds duplicates itself. */
enum json_step names_next_unremembered(struct json_reader *r, struct json_key *key, struct error *error);

/* The name as a message shows it: cut to the buffer, control characters replaced by '?', NUL-terminated. */
#define NAMES_SHOWN_BYTES 72
void names_show(const struct json_key *key, char shown[NAMES_SHOWN_BYTES]);

/* The same for a name that is plain text, NUL-terminated. */
void names_show_plain(const char *name, char shown[NAMES_SHOWN_BYTES]);

/* What to say of a name that is none of `known` [count], into text [size], cut where it does not fit: "unknown WHAT",
 * and the one that was probably meant or all there are. */
void names_unknown(const char *what, const char *shown, const char *const *known, size_t count, char *text,
                   size_t size);

/* ERROR_DUPLICATE_MEMBER for the member that is being read. Always false. */
bool names_duplicate_error(const struct json_reader *r, const struct json_key *key, struct error *error);

#endif
