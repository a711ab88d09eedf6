// Replaces the real library while fake_exports is linked. Never loaded.
