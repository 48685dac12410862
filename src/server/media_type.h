/* The media types of bodies and answers: Content-Type, and what a client takes (Accept; RFC 9110, section 12.5.1). */
#ifndef ATTND_SERVER_MEDIA_TYPE_H
#define ATTND_SERVER_MEDIA_TYPE_H

#include <stdbool.h>

/* X(code, name): what a body or an answer may be. JSON comes first: it is sent where the client has no wish. */
#define MEDIA_TYPES(X)                \
    X(MEDIA_JSON, "application/json") \
    X(MEDIA_SAFETENSORS, "application/x-safetensors")

#define MEDIA_TYPE_ENUM(code, name) code,
enum media_type { MEDIA_TYPES(MEDIA_TYPE_ENUM) MEDIA_TYPE_COUNT };
#undef MEDIA_TYPE_ENUM

const char *media_type_name(enum media_type type);

/* The type that a Content-Type names, whatever its parameters; MEDIA_TYPE_COUNT: none of these. */
enum media_type media_type_of(const char *content_type);

/* Whether it names bytes of no type that is known: application/octet-stream. */
bool media_type_is_octets(const char *content_type);

/* What has been read of Accept. */
struct accept {
    struct {
        unsigned precision; /* how precisely it was named; 0: not at all */
        short weight;       /* its q in thousandths; 0: not acceptable */
    } types[MEDIA_TYPE_COUNT];
};

/* Reads one header line of several into *accept, which is zero at first. What is no element of such a list is passed
 * over. */
void accept_read(struct accept *accept, const char *value);

/* The type that is wanted most; of several, the one that was named most precisely, then JSON. JSON where there was no
 * header, or nothing that it names can be had. */
enum media_type accept_choose(const struct accept *accept);

#endif
