/* Which body does the bulk of base64: that of the instruction set that is used. */
#include "codec/base64_bulk/bulk.h"

const struct base64_bulk *base64_bulk_of(enum isa isa)
{
    switch (isa) {
#if defined(__x86_64__)
    case ISA_x86_64_v4:
        return &base64_bulk_x86_64_v4;
    case ISA_x86_64_v3:
        return &base64_bulk_x86_64_v3;
#elif defined(__aarch64__)
    case ISA_neon:
        return &base64_bulk_neon;
#endif
    default:
        return NULL;
    }
}
