// Starts a new flow every millisecond, and counts those that are answered. Each new flow passes all rules. A TCP
// connection counts as answered if it is established before the kernel repeats its first packet. The source port is
// that of the millisecond, so that it differs from all flows of the last minute, which the kernel may still track. At
// the end of stdin, waits a second for answers and prints JSON.
//
//   flows udp|tcp ADDRESS PORT
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 200000, OPEN = 16000, LAST_MS = 1000, AGAIN_MS = 950, FIRST_PORT = 1100, PORTS = 64000 };

static double sent_at[MOST];
static char answered[MOST];
static int sockets[MOST];

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static int is_tcp;

union address {
  struct sockaddr any;
  struct sockaddr_in in;
  struct sockaddr_in6 in6;
};

static int send_one(const union address *to, int watch, uint32_t number, double due_ms) {
  int fd = socket(to->any.sa_family, (is_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  struct linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  union address own = {.any = {.sa_family = to->any.sa_family}};
  own.in.sin_port = htons((uint16_t)(FIRST_PORT + (uint64_t)due_ms % PORTS)); // sockaddr_in6 has its port at the same offset
  socklen_t size = to->any.sa_family == AF_INET ? sizeof to->in : sizeof to->in6;
  sent_at[number] = now_ms();
  if (bind(fd, &own.any, size) != 0 || (connect(fd, &to->any, size) != 0 && errno != EINPROGRESS)) {
    close(fd);
    return -1;
  }
  struct epoll_event event = {.events = is_tcp ? EPOLLOUT : EPOLLIN, .data = {.u32 = number}};
  epoll_ctl(watch, EPOLL_CTL_ADD, fd, &event);
  if (!is_tcp) (void)!send(fd, "flow", 4, MSG_NOSIGNAL); // a refused packet is not answered
  return fd;
}

static int is_answered(int fd, uint32_t number) {
  char answer[2048];
  int error = 0;
  socklen_t size = sizeof error;
  if (!is_tcp) return recv(fd, answer, sizeof answer, 0) > 0;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0 && now_ms() - sent_at[number] < AGAIN_MS;
}

static void receive(int watch, int timeout_ms) {
  struct epoll_event events[64];
  int count = epoll_wait(watch, events, 64, timeout_ms);
  for (int at = 0; at < count; at++) {
    uint32_t number = events[at].data.u32;
    answered[number] = (char)is_answered(sockets[number], number);
    close(sockets[number]); // an answer or an ICMP error
    sockets[number] = -1;
  }
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  is_tcp = strcmp(argv[1], "tcp") == 0;
  uint16_t port = htons((uint16_t)atoi(argv[3]));
  union address to = {.in = {.sin_family = AF_INET, .sin_port = port}};
  if (inet_pton(AF_INET, argv[2], &to.in.sin_addr) != 1) {
    to = (union address){.in6 = {.sin6_family = AF_INET6, .sin6_port = port}};
    if (inet_pton(AF_INET6, argv[2], &to.in6.sin6_addr) != 1) return 2;
  }
  int watch = epoll_create1(EPOLL_CLOEXEC);
  uint32_t count = 0;
  printf("begun\n");
  fflush(stdout);
  for (double next = now_ms(); count < MOST;) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    char end;
    if (poll(&input, 1, 0) > 0 && read(0, &end, 1) <= 0) break;
    double left = next - now_ms();
    if (left > 0) {
      receive(watch, (int)left + 1);
      continue;
    }
    if (left < -100) next = now_ms(); // this program was delayed, so these flows are not lost
    next += 1;
    if (count >= OPEN && sockets[count - OPEN] >= 0) close(sockets[count - OPEN]);
    sockets[count] = send_one(&to, watch, count, next);
    if (sockets[count] >= 0) count++;
    receive(watch, 0);
  }
  for (double end = now_ms() + LAST_MS; now_ms() < end;) receive(watch, 50);
  uint32_t lost = 0;
  double longest = 0, from = -1;
  for (uint32_t at = 0; at < count; at++) {
    if (!answered[at]) {
      lost++;
      if (from < 0) from = sent_at[at];
    } else if (from >= 0) {
      if (sent_at[at] - from > longest) longest = sent_at[at] - from;
      from = -1;
    }
  }
  printf("{\"sent\":%u,\"lost\":%u,\"longestMs\":%.1f,\"isBack\":%s}\n", count, lost, longest, from < 0 ? "true" : "false");
  return 0;
}
