/* Which body reads rows: that of the instruction set that is used. */
#include "json/read_row/read_row.h"

read_row_function *read_row_of(enum isa isa)
{
    switch (isa) {
#if defined(__x86_64__)
    case ISA_x86_64_v4:
    case ISA_x86_64_v3:
        return read_row_x86_64_v3;
#elif defined(__aarch64__)
    case ISA_neon:
        return read_row_neon;
#endif
    default:
        return NULL;
    }
}
