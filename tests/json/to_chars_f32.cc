// std::to_chars for a program in C: an implementation of the shortest digits that is not ours.
#include <charconv>

extern "C" void to_chars_f32(float value, char to[64]);

void to_chars_f32(float value, char to[64])
{
    *std::to_chars(to, to + 63, value, std::chars_format::scientific).ptr = '\0';
}
