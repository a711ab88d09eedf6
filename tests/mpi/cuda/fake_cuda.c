/* Has an accelerator's library name: a program that has loaded it may have buffers in its memory. */
int outrigger_fake_cuda(void) {
  return 0;
}
