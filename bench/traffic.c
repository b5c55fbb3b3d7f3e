/*
 * Generates the traffic for the rows about the data path, over TCP and IPv4. The client runs here, the server in
 * another network namespace.
 *
 *     traffic connections NETNS SERVER_PORT ADDRESS PORT COUNT    opens connections one after the other; each sends a byte and gets one back
 *     traffic trips ...                                           sends a byte and gets one back, again and again on one connection
 *     traffic megabytes ...                                       sends megabytes, and gets one byte back at the end
 *
 * Both processes run on one processor, and the server is the client's child, so the CPU time that wait4(2) reports for
 * the client includes the cost of all packets. Clients end their connections by a reset, so that no port stays in
 * TIME_WAIT.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static char block[1 << 20];

static void must(int worked, const char *what) {
    if (worked) return;
    perror(what);
    exit(1);
}

static void set(int fd, int level, int option, const void *value, socklen_t length) {
    must(setsockopt(fd, level, option, value, length) == 0, "setsockopt");
}

static void stay_on_one_processor(void) {
    cpu_set_t allowed, one;
    must(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "sched_getaffinity");
    CPU_ZERO(&one);
    for (size_t cpu = CPU_SETSIZE; cpu-- > 0;)
        if (CPU_ISSET(cpu, &allowed) && CPU_COUNT(&one) == 0) CPU_SET(cpu, &one);
    must(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
}

static struct sockaddr_in endpoint(const char *address, const char *port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((in_port_t)atoi(port))};
    must(inet_pton(AF_INET, address, &to.sin_addr) == 1, "address");
    return to;
}

static int open_socket(void) {
    const int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(fd >= 0, "socket");
    set(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return fd;
}

/* Serves one connection to its end. The first byte from the client selects the kind of traffic. */
static void answer(int fd) {
    char what;
    if (read(fd, &what, 1) != 1) return;
    if (what == 'm') {
        while (read(fd, block, sizeof block) > 0) continue;
        if (write(fd, &what, 1) != 1) return;
    } else {
        do
            if (write(fd, &what, 1) != 1) return;
        while (read(fd, &what, 1) == 1);
    }
}

static void serve(int listening) {
    signal(SIGPIPE, SIG_IGN);
    for (;;) {
        int peer = accept(listening, NULL, NULL);
        if (peer < 0) continue;
        answer(peer);
        close(peer);
    }
}

/* Starts the server, which ends with this process. The server is listening when this returns. */
static pid_t start_server(const char *netns, const char *port) {
    const int yes = 1;
    char byte = 0;
    int ready[2];
    must(pipe(ready) == 0, "pipe");
    pid_t server = fork();
    must(server >= 0, "fork");
    if (server > 0) {
        close(ready[1]);
        must(read(ready[0], &byte, 1) == 1, "the server listens");
        return server;
    }
    must(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "prctl");
    int there = open(netns, O_RDONLY | O_CLOEXEC);
    must(there >= 0 && setns(there, CLONE_NEWNET) == 0, netns);
    struct sockaddr_in any = endpoint("0.0.0.0", port);
    int fd = open_socket();
    set(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    must(bind(fd, (struct sockaddr *)&any, sizeof any) == 0 && listen(fd, 128) == 0, "listen");
    must(write(ready[1], &byte, 1) == 1, "write");
    serve(fd);
    return 0;
}

static int begin(const struct sockaddr_in *to, const char *what) {
    const struct linger reset = {.l_onoff = 1};
    int fd = open_socket();
    set(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    must(connect(fd, (const struct sockaddr *)to, sizeof *to) == 0, "connect");
    must(write(fd, what, 1) == 1, "write");
    return fd;
}

static void expect_byte(int fd) {
    char byte;
    must(read(fd, &byte, 1) == 1, "read");
}

static void send_megabyte(int fd) {
    for (size_t sent = 0; sent < sizeof block;) {
        ssize_t length = write(fd, block + sent, sizeof block - sent);
        must(length > 0, "write");
        sent += (size_t)length;
    }
}

int main(int count, char **arguments) {
    if (count != 7) return 2;
    const char *what = arguments[1];
    struct sockaddr_in to = endpoint(arguments[4], arguments[5]);
    int times = atoi(arguments[6]);
    stay_on_one_processor();
    pid_t server = start_server(arguments[2], arguments[3]);
    if (what[0] == 'c')
        for (int i = 0; i < times; i++) {
            int fd = begin(&to, what);
            expect_byte(fd);
            close(fd);
        }
    else {
        int fd = begin(&to, what);
        if (what[0] == 'm') {
            for (int i = 0; i < times; i++) send_megabyte(fd);
            must(shutdown(fd, SHUT_WR) == 0, "shutdown");
        }
        expect_byte(fd);
        for (int i = 1; i < times && what[0] == 't'; i++) {
            must(write(fd, what, 1) == 1, "write");
            expect_byte(fd);
        }
    }
    must(kill(server, SIGKILL) == 0 && waitpid(server, NULL, 0) == server, "the server ends");
    return 0;
}
