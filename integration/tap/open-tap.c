/*
 * Attaches to an existing tap, like the monitor of a virtual machine: open-tap DEVICE NAME FLAGS. Prints "attached".
 * Then it sends each line of hexadecimal digits from stdin as a frame, and prints each received frame as such a line,
 * until stdin ends. If it cannot attach, it exits with the errno.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int main(int count, char **arguments) {
    struct ifreq request = {0};
    char line[4096];
    unsigned char frame[2048];
    if (count < 4) return 1;
    int tap = open(arguments[1], O_RDWR);
    if (tap == -1) return errno;
    strncpy(request.ifr_name, arguments[2], IFNAMSIZ - 1);
    request.ifr_flags = (short)strtol(arguments[3], NULL, 0);
    if (ioctl(tap, TUNSETIFF, &request) == -1) return errno;
    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stdin, NULL, _IONBF, 0);
    puts("attached");
    for (;;) {
        struct pollfd ready[2] = {{.fd = 0, .events = POLLIN}, {.fd = tap, .events = POLLIN}};
        if (poll(ready, 2, -1) == -1) return errno;
        if (ready[0].revents) {
            if (!fgets(line, sizeof line, stdin)) return 0;
            size_t length = 0;
            for (unsigned byte; sscanf(line + 2 * length, "%2x", &byte) == 1; length++) frame[length] = (unsigned char)byte;
            if (write(tap, frame, length) == -1) perror("write");
        }
        if (ready[1].revents) {
            ssize_t length = read(tap, frame, sizeof frame);
            for (ssize_t at = 0; at < length; at++) printf("%02x", frame[at]);
            puts("");
        }
    }
}
