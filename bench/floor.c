/*
 * The kernel floor: floor ADD|DEL NETNS DIRECTORY
 *
 * Makes the same changes as the chain bridge+ipMasq+host-local, tuning, portmap for one pod on a node with another pod,
 * and removes them: files, links, addresses, routes, sysctls and set elements. It knows all names and addresses
 * beforehand. It reads no state, checks nothing, and undoes nothing after a failure.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BRIDGE "bench0"
#define VETH "vethfloor"
#define OWNER "bench/floor/eth0"
#define ADDRESS "10.88.200.200"
#define GATEWAY "10.88.0.1"
#define NETWORK "10.88.0.0"
#define INDEX 1000000 /* of both ends: a new link may ask for it */

static _Alignas(4) char buffer[8192];
static size_t used;

static void must(int worked, const char *what) {
    if (worked) return;
    perror(what);
    exit(1);
}

static void append(const void *data, size_t length) {
    must(used + length + 4 <= sizeof buffer, "buffer");
    memcpy(buffer + used, data, length);
    used += length;
    while (used % 4) buffer[used++] = 0;
}

/* Begins a message or a nested attribute. `end` writes its length. */
static size_t begin_message(int type, int flags, const void *header, size_t length) {
    size_t at = used;
    struct nlmsghdr message = {.nlmsg_type = (uint16_t)type, .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags)};
    append(&message, sizeof message);
    append(header, length);
    return at;
}

static void end_message(size_t at) { *(uint32_t *)(void *)(buffer + at) = (uint32_t)(used - at); }

static size_t begin(int type) {
    size_t at = used;
    append(&(struct nlattr){.nla_type = (uint16_t)type}, sizeof(struct nlattr));
    return at;
}

static void end(size_t at) { *(uint16_t *)(void *)(buffer + at) = (uint16_t)(used - at); }

static void attribute(int type, const void *data, size_t length) {
    append(&(struct nlattr){.nla_len = (uint16_t)(sizeof(struct nlattr) + length), .nla_type = (uint16_t)type}, sizeof(struct nlattr));
    append(data, length);
}

static void text(int type, const char *value) { attribute(type, value, strlen(value) + 1); }
static void number(int type, uint32_t value) { attribute(type, &value, 4); }
static void address(int type, const char *value) { number(type, inet_addr(value)); }

/* Sends all appended messages and reads the one acknowledgment. Exits if it reports an error. */
static void send_all(int fd) {
    struct {
        struct nlmsghdr header;
        int error;
        char rest[256];
    } answer = {0};
    must(send(fd, buffer, used, 0) == (ssize_t)used, "send");
    must(recv(fd, &answer, sizeof answer, 0) > 0, "recv");
    errno = -answer.error;
    must(answer.header.nlmsg_type == NLMSG_ERROR && answer.error == 0, "netlink");
    used = 0;
}

static int netlink(int family) {
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, family);
    must(fd >= 0, "socket");
    return fd;
}

static void write_file(const char *path, int flags, const char *content) {
    int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0600);
    must(fd >= 0 && write(fd, content, strlen(content)) >= 0, path);
    close(fd);
}

/* Appends an element of a set, or of a map if there is a value. An added element has its owner as comment. */
static void element(int adds, int is_last, const char *table, const char *set, const void *key, size_t length, const void *value) {
    struct nfgenmsg header = {.nfgen_family = AF_INET};
    int flags = (adds ? NLM_F_CREATE | NLM_F_EXCL : 0) | (is_last ? NLM_F_ACK : 0);
    size_t message = begin_message(NFNL_SUBSYS_NFTABLES << 8 | (adds ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM), flags, &header, sizeof header);
    text(NFTA_SET_ELEM_LIST_TABLE, table);
    text(NFTA_SET_ELEM_LIST_SET, set);
    size_t list = begin(NLA_F_NESTED | NFTA_SET_ELEM_LIST_ELEMENTS), item = begin(NLA_F_NESTED | NFTA_LIST_ELEM);
    size_t inner = begin(NLA_F_NESTED | NFTA_SET_ELEM_KEY);
    attribute(NFTA_DATA_VALUE, key, length);
    end(inner);
    if (adds && value) {
        inner = begin(NLA_F_NESTED | NFTA_SET_ELEM_DATA);
        attribute(NFTA_DATA_VALUE, value, 8);
        end(inner);
    }
    if (adds) attribute(NFTA_SET_ELEM_USERDATA, "\0\x11" OWNER, sizeof "\0\x11" OWNER);
    end(item), end(list);
    end_message(message);
}

static void batch(int type) {
    struct nfgenmsg header = {.res_id = htons(NFNL_SUBSYS_NFTABLES)};
    end_message(begin_message(type, 0, &header, sizeof header));
}

static void masquerade(int fd, int adds) {
    uint32_t both[] = {inet_addr(ADDRESS), inet_addr(NETWORK)};
    batch(NFNL_MSG_BATCH_BEGIN);
    element(adds, 0, "cni_masquerade", "containers", both, 4, NULL);
    element(adds, 1, "cni_masquerade", "networks_16", both, 8, NULL);
    batch(NFNL_MSG_BATCH_END);
    send_all(fd);
}

static void map_port(int fd, int adds) {
    uint32_t both[] = {inet_addr(NETWORK), inet_addr(ADDRESS)};
    uint32_t from[] = {htonl(IPPROTO_TCP << 24), htonl(8080U << 16)}, to[] = {both[1], htonl(80U << 16)};
    batch(NFNL_MSG_BATCH_BEGIN);
    element(adds, 0, "cni_hostports", "ports", from, 8, to);
    element(adds, 0, "cni_hostports", "hairpin", both, 8, NULL);
    element(adds, 1, "cni_hostports", "localhost", both + 1, 4, NULL);
    batch(NFNL_MSG_BATCH_END);
    send_all(fd);
}

static void add_pair(int fd, int netns) {
    struct ifinfomsg host = {.ifi_index = INDEX};
    size_t message = begin_message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &host, sizeof host);
    text(IFLA_IFNAME, VETH);
    number(IFLA_MASTER, if_nametoindex(BRIDGE));
    number(IFLA_NUM_TX_QUEUES, 1);
    number(IFLA_NUM_RX_QUEUES, 1);
    size_t info = begin(NLA_F_NESTED | IFLA_LINKINFO);
    text(IFLA_INFO_KIND, "veth");
    size_t data = begin(NLA_F_NESTED | IFLA_INFO_DATA), peer = begin(VETH_INFO_PEER);
    append(&host, sizeof host);
    text(IFLA_IFNAME, "eth0");
    number(IFLA_NUM_TX_QUEUES, 1);
    number(IFLA_NUM_RX_QUEUES, 1);
    number(IFLA_NET_NS_FD, (uint32_t)netns);
    end(peer), end(data), end(info);
    end_message(message);
    send_all(fd);
}

static void set_up(int fd, const char *alias) {
    struct ifinfomsg link = {.ifi_index = INDEX, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    size_t message = begin_message(RTM_NEWLINK, NLM_F_ACK, &link, sizeof link);
    if (alias) attribute(IFLA_IFALIAS, alias, strlen(alias));
    end_message(message);
    send_all(fd);
}

static void add_address(int fd) {
    struct ifaddrmsg header = {.ifa_family = AF_INET, .ifa_prefixlen = 16, .ifa_index = INDEX};
    size_t message = begin_message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &header, sizeof header);
    address(IFA_LOCAL, ADDRESS);
    address(IFA_ADDRESS, ADDRESS);
    address(IFA_BROADCAST, "10.88.255.255");
    end_message(message);
    send_all(fd);
}

static void add_default_route(int fd) {
    struct rtmsg header = {.rtm_family = AF_INET, .rtm_table = RT_TABLE_MAIN, .rtm_protocol = RTPROT_BOOT, .rtm_type = RTN_UNICAST};
    size_t message = begin_message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_APPEND | NLM_F_ACK, &header, sizeof header);
    number(RTA_OIF, INDEX);
    address(RTA_GATEWAY, GATEWAY);
    end_message(message);
    send_all(fd);
}

static void add(int netns, int host) {
    write_file(".floor", O_CREAT | O_EXCL, "floor\r\neth0");
    must(link(".floor", ADDRESS) == 0, "link");
    write_file("last_reserved_ip.0", O_CREAT, ADDRESS);
    must(unlink(".floor") == 0, "unlink");

    int route = netlink(NETLINK_ROUTE), filter = netlink(NETLINK_NETFILTER);
    add_pair(route, netns);
    write_file("/proc/sys/net/ipv6/conf/" VETH "/accept_ra", 0, "0");
    set_up(route, OWNER);
    masquerade(filter, 1);
    map_port(filter, 1);

    write_file(".settings", O_CREAT | O_EXCL, "{ \"net/core/somaxconn\": { \"was\": \"4096\", \"set\": \"500\" } }");
    must(rename(".settings", "settings") == 0, "rename");
    must(setns(netns, CLONE_NEWNET) == 0, "setns");
    int inside = netlink(NETLINK_ROUTE);
    write_file("/proc/sys/net/ipv4/conf/eth0/arp_notify", 0, "1");
    write_file("/proc/sys/net/ipv6/conf/eth0/accept_dad", 0, "0");
    write_file("/proc/sys/net/ipv6/conf/eth0/accept_ra", 0, "0");
    write_file("/proc/sys/net/ipv6/conf/eth0/autoconf", 0, "0");
    write_file("/proc/sys/net/core/somaxconn", 0, "500");
    add_address(inside);
    set_up(inside, NULL);
    add_default_route(inside);
    must(setns(host, CLONE_NEWNET) == 0, "setns");
}

static void del(int netns, int host) {
    int route = netlink(NETLINK_ROUTE), filter = netlink(NETLINK_NETFILTER);
    must(setns(netns, CLONE_NEWNET) == 0, "setns");
    write_file("/proc/sys/net/core/somaxconn", 0, "4096");
    must(setns(host, CLONE_NEWNET) == 0, "setns");
    must(unlink("settings") == 0, "unlink");
    map_port(filter, 0);
    masquerade(filter, 0);
    struct ifinfomsg link = {.ifi_index = INDEX};
    end_message(begin_message(RTM_DELLINK, NLM_F_ACK, &link, sizeof link));
    send_all(route);
    must(unlink(ADDRESS) == 0, "unlink");
}

int main(int count, char **arguments) {
    must(count == 4 && chdir(arguments[3]) == 0, "floor ADD|DEL NETNS DIRECTORY");
    int netns = open(arguments[2], O_RDONLY | O_CLOEXEC), host = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    must(netns >= 0 && host >= 0, arguments[2]);
    (strcmp(arguments[1], "ADD") ? del : add)(netns, host);
}
