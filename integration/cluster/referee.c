/*
 * Reads the addresses of all containers from the kernel, again and again, and notes an address that two of them have at one instant.
 *
 *   referee PREFIX LABEL INTERVAL_MS
 *
 * A container is a namespace in /run/netns whose name begins with PREFIX and ends with LABEL. The addresses are those of glibc's or
 * musl's getifaddrs(3): nothing here is the project's own netlink. A line "twice ADDRESS ONE OTHER" for each finding; SIGTERM ends it with
 * a last line "looks N containers N addresses N", where the numbers of containers and addresses are the highest of any look.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 65536, NAME = 128 };

struct held {
  char address[INET6_ADDRSTRLEN];
  char container[NAME];
};

static struct held held[MOST];
static atomic_int ended;

/* Enters the namespace; 0 where it is gone. */
static int enter(const char *name) {
  char path[NAME + 16];
  snprintf(path, sizeof path, "/run/netns/%s", name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  int entered = setns(fd, CLONE_NEWNET) == 0;
  close(fd);
  return entered;
}

/* The text of an address that a container may not share: not of lo, and no link-local one. */
static int text_of(const struct ifaddrs *each, char *text) {
  if (!each->ifa_addr || (each->ifa_flags & IFF_LOOPBACK)) return 0;
  if (each->ifa_addr->sa_family == AF_INET) {
    const struct sockaddr_in *v4 = (const void *)each->ifa_addr;
    return inet_ntop(AF_INET, &v4->sin_addr, text, INET6_ADDRSTRLEN) != NULL;
  }
  if (each->ifa_addr->sa_family != AF_INET6) return 0;
  const struct sockaddr_in6 *v6 = (const void *)each->ifa_addr;
  if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) return 0;
  return inet_ntop(AF_INET6, &v6->sin6_addr, text, INET6_ADDRSTRLEN) != NULL;
}

/* Whether the container has the address now. */
static int has(const char *name, const char *address) {
  struct ifaddrs *all = NULL;
  int found = 0;
  if (!enter(name) || getifaddrs(&all) != 0) return 0;
  for (const struct ifaddrs *each = all; each && !found; each = each->ifa_next) {
    char text[INET6_ADDRSTRLEN];
    found = text_of(each, text) && strcmp(text, address) == 0;
  }
  freeifaddrs(all);
  return found;
}

/* One look at all containers: how many there are. */
static int look(const char *prefix, const char *label, int *addresses) {
  DIR *directory = opendir("/run/netns");
  if (!directory) return 0;
  int containers = 0, count = 0;
  for (struct dirent *entry; (entry = readdir(directory));) {
    const char *name = entry->d_name;
    size_t length = strlen(name), ending = strlen(label);
    if (strncmp(name, prefix, strlen(prefix)) != 0 || length >= NAME) continue;
    if (length < ending || strcmp(name + length - ending, label) != 0 || !enter(name)) continue;
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) continue;
    containers++;
    for (const struct ifaddrs *each = all; each && count < MOST; each = each->ifa_next) {
      struct held *mine = &held[count];
      if (!text_of(each, mine->address)) continue;
      snprintf(mine->container, NAME, "%s", name);
      for (int at = 0; at < count; at++) {
        if (strcmp(held[at].address, mine->address) != 0 || strcmp(held[at].container, name) == 0) continue;
        /* The other one was read some time ago: both have it at one instant if it has it before and after this one. */
        if (has(held[at].container, mine->address) && has(name, mine->address) && has(held[at].container, mine->address)) {
          printf("twice %s %s %s\n", mine->address, held[at].container, name);
          fflush(stdout);
        }
      }
      count++;
    }
    freeifaddrs(all);
  }
  closedir(directory);
  if (count > *addresses) *addresses = count;
  return containers;
}

struct order {
  const char *prefix;
  const char *label;
  long interval;
};

static void *watch(void *argument) {
  const struct order *order = argument;
  struct timespec pause = {.tv_sec = order->interval / 1000, .tv_nsec = order->interval % 1000 * 1000000};
  int looks = 0, containers = 0, addresses = 0;
  while (!ended) {
    int seen = look(order->prefix, order->label, &addresses);
    if (seen > containers) containers = seen;
    looks++;
    nanosleep(&pause, NULL);
  }
  printf("looks %d containers %d addresses %d\n", looks, containers, addresses);
  return NULL;
}

/* The thread that enters namespaces is not the first one: what removes a container ends each process whose first thread is in it. */
int main(int argc, char **argv) {
  if (argc != 4) return 2;
  struct order order = {argv[1], argv[2], atol(argv[3])};
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, NULL);
  pthread_t watcher;
  if (pthread_create(&watcher, NULL, watch, &order) != 0) return 1;
  int received;
  sigwait(&term, &received);
  ended = 1;
  pthread_join(watcher, NULL);
  return 0;
}
