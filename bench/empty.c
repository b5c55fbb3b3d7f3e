/* A process that does nothing: what it takes to start and to end one. */
int main(void) { return 0; }
