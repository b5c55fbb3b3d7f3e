/*
 * Attaches an XDP program that drops all packets to an interface, like `ip link set dev IF xdpgeneric obj …`: xdp-drop
 * IF
 */
#include <err.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int load(void) {
  static const struct bpf_insn program[] = {
    { .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_DROP },
    { .code = BPF_JMP | BPF_EXIT },
  };
  union bpf_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.prog_type = BPF_PROG_TYPE_XDP;
  attr.insns = (uint64_t)(uintptr_t)program;
  attr.insn_cnt = sizeof program / sizeof program[0];
  attr.license = (uint64_t)(uintptr_t) "GPL";
  long fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr);
  if (fd < 0) err(1, "BPF_PROG_LOAD");
  return (int)fd;
}

int main(int argc, char **argv) {
  unsigned index = argc == 2 ? if_nametoindex(argv[1]) : 0;
  if (index == 0) errx(2, "expected the name of an interface");
  struct {
    struct nlmsghdr head;
    struct ifinfomsg link;
    struct nlattr xdp, fd_head;
    int32_t fd;
    struct nlattr flags_head;
    uint32_t flags;
  } request = {
    .head = { sizeof request, RTM_SETLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0 },
    .link = { .ifi_index = (int)index },
    .xdp = { 4 + 8 + 8, IFLA_XDP | NLA_F_NESTED },
    .fd_head = { 8, IFLA_XDP_FD },
    .fd = load(),
    .flags_head = { 8, IFLA_XDP_FLAGS },
    .flags = XDP_FLAGS_SKB_MODE,
  };
  struct {
    struct nlmsghdr head;
    struct nlmsgerr error;
    char more[512];
  } answer;
  int netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  if (netlink < 0 || send(netlink, &request, sizeof request, 0) < 0 || recv(netlink, &answer, sizeof answer, 0) < 0)
    err(1, "RTM_SETLINK");
  if (answer.error.error != 0) errx(1, "RTM_SETLINK: %s", strerror(-answer.error.error));
  return 0;
}
