// Parsing of numbers on the command line, and the median.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// Ends the job, naming the option, unless `text` is a whole number from `least` to `most`.
long parse_number(const char* option, const char* text, long least, long most);

// Sorts the values.
double median(double* values, int count);

#ifdef __cplusplus
}
#endif
