// A row of numbers as std::to_chars prints them, a comma behind each; 16 bytes a number are enough.
#include <charconv>
#include <cstddef>

extern "C" char *to_chars_row(char *to, const float *numbers, std::size_t count);

char *to_chars_row(char *to, const float *numbers, std::size_t count)
{
    for (std::size_t i = 0; i < count; i++) {
        to = std::to_chars(to, to + 16, numbers[i]).ptr;
        *to++ = ',';
    }
    return to;
}
