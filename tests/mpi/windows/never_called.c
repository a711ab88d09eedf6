// A library with a reference to another one's function.
void NEVER_CALLED(void);
void never_called_here(void);

void never_called_here(void) {
  NEVER_CALLED();
}
