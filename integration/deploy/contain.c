/*
 * Runs a program like a container runtime: contain ROOT CAPABILITIES NO_NEW_PRIVS PROGRAM [ARGUMENT…]. CAPABILITIES is
 * a hexadecimal mask.
 */
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

static int fail(const char *what) {
  perror(what);
  return 126;
}

int main(int count, char **words) {
  if (count < 5) return 2;
  unsigned long long mask = strtoull(words[2], NULL, 16);
  if (chroot(words[1]) != 0 || chdir("/") != 0) return fail(words[1]);
  for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
    if (!(mask >> cap & 1) && prctl(PR_CAPBSET_DROP, cap) != 0) return fail("PR_CAPBSET_DROP");
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2] = {{0}};
  for (int at = 0; at < 2; at++) data[at].effective = data[at].permitted = (unsigned)(mask >> (32 * at));
  if (syscall(SYS_capset, &header, data) != 0) return fail("capset");
  if (words[3][0] == '1' && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail("PR_SET_NO_NEW_PRIVS");
  execve(words[4], words + 4, environ);
  return fail(words[4]);
}
