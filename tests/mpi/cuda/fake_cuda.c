/* The library of an accelerator, by its name alone: a program that has loaded it may have buffers in its memory. */
int outrigger_fake_cuda(void) {
  return 0;
}
