#include "numbers.h"

#include <errno.h>
#include <stdlib.h>

#include "fail.h"

long parse_number(const char* option, const char* text, long least, long most) {
  char* end;
  errno = 0;
  const long value = strtol(text, &end, 10);
  if (errno || end == text || *end || value < least || value > most) {
    fail("%s: '%s' is not a number from %ld to %ld", option, text, least, most);
  }
  return value;
}

static int ascending(const void* left, const void* right) {
  const double a = *(const double*)left;
  const double b = *(const double*)right;
  return (a > b) - (a < b);
}

double median(double* values, int count) {
  qsort(values, (size_t)count, sizeof(double), ascending);
  return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}
