/* A process that does nothing. It measures the cost of starting and ending a process. */
int main(void) { return 0; }
