import { type Json, leaves, parseList, type Source, words } from "./source.ts"

/** JSON keys whose values the kernel numbers, counts or negotiates without configuration. */
const volatile = new Set([
  ...["ifindex", "link_index", "link_netnsid", "operstate", "id", "no", "bridge_id", "root_id", "designated_port"],
  ...["hello_timer", "tcn_timer", "topology_change_timer", "gc_timer", "hold_timer", "message_age_timer"],
  ...["forward_delay_timer", "topology_change", "topology_change_detected", "topology_change_ack", "state"],
  ...[
    "num_tx_queues",
    "num_rx_queues",
    "tso_max_size",
    "tso_max_segs",
    "valid_life_time",
    "preferred_life_time",
    "tentative",
    "refcnt",
    "expires",
  ],
])

/** Flags of links and routes that depend on the carrier. */
const carrierFlags = new Set(["LOWER_UP", "NO-CARRIER", "RUNNING", "linkdown", "dead"])

/** Returns a copy without the keys and flags above, at every depth. */
function stable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(stable)
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !volatile.has(key))
      .map(([key, child]) => [key, key === "flags" && Array.isArray(child) ? configuredFlags(child) : stable(child)]),
  )
}

function configuredFlags(flags: readonly unknown[]): unknown[] {
  return flags.filter((flag) => !carrierFlags.has(String(flag)))
}

/**
 * Reports whether the kernel created an address or route by itself. The kernel adds link-local addresses and multicast
 * routes to every link that is up, some of them after seconds.
 */
function isKernelMade(object: Json): boolean {
  return /^(fe80:|ff00::\/8)/i.test(String(object.local ?? object.dst)) && object.protocol !== "static"
}

function stableList(stdout: string): Json[] {
  return parseList(stdout).map((object) => stable(object) as Json)
}

const links: Source = {
  command: ["ip", "-j", "-d", "link", "show"],
  lines: (stdout) =>
    stableList(stdout)
      .flatMap(({ ifname, ...link }) => leaves(link).map((leaf) => `${ifname} ${leaf}`))
      .sort(),
}

const addresses: Source = {
  command: ["ip", "-j", "address", "show"],
  lines: (stdout) =>
    stableList(stdout)
      .flatMap(({ ifname, addr_info }) =>
        (addr_info as Json[])
          .filter((address) => !isKernelMade(address))
          .map(
            (address) => `${ifname} ${address.local}/${address.prefixlen} ${words(address, ["local", "prefixlen"])}`,
          ),
      )
      .sort(),
}

function routes(family: "-4" | "-6"): Source {
  return {
    command: ["ip", "-j", family, "route", "show", "table", "all"],
    lines: (stdout) =>
      stableList(stdout)
        .filter((route) => !isKernelMade(route))
        .map((route) => `${route.dst} ${words(route, ["dst"])}`)
        .sort(),
  }
}

function rules(family: "-4" | "-6"): Source {
  // The kernel adds its rule for VRFs with the first VRF of a namespace, and never removes it.
  const isForVrfs = ({ priority, l3mdev }: Json) => priority === 1000 && l3mdev !== undefined
  return {
    command: ["ip", "-j", family, "rule", "show"],
    lines: (stdout) =>
      stableList(stdout)
        .filter((rule) => !isForVrfs(rule))
        .map((rule) => words(rule)),
  }
}

/** The sysctls that plugins write, and some that plugins must not change. */
const sysctls = [
  ...["ip_forward", "forwarding", "route_localnet", "rp_filter", "proxy_arp", "arp_notify", "arp_filter"],
  ...["accept_ra", "accept_dad", "enhanced_dad", "disable_ipv6", "proxy_ndp"],
]

/**
 * Runs grep(1) until it succeeds, at most five times, because the kernel may delete a link's directory while grep reads
 * it.
 */
const grepAgain =
  'for _ in 1 2 3 4 5; do text=$(grep "$@") && break; done; status=$?; printf "%s\\n" "$text"; exit $status'

/** The values of `sysctls` for the namespace and for each link. */
const sysctlSource: Source = {
  command: [
    ...["sh", "-c", grepAgain, "sh"],
    "-rsH",
    "",
    ...sysctls.map((name) => `--include=${name}`),
    "/proc/sys/net/ipv4",
    "/proc/sys/net/ipv6",
  ],
  lines: (stdout) =>
    stdout
      .split("\n")
      .filter(Boolean)
      .map((line) => line.replace("/proc/sys/", "").replace(":", " = "))
      .sort(),
}

/** Links, addresses, routes of all tables, rules, bridge VLANs and qdiscs, by `ip`, `bridge`, `tc`, and sysctls. */
export const networkSources: Readonly<Record<string, Source>> = {
  links,
  addresses,
  "IPv4 routes": routes("-4"),
  "IPv6 routes": routes("-6"),
  "IPv4 rules": rules("-4"),
  "IPv6 rules": rules("-6"),
  "bridge VLANs": {
    command: ["bridge", "-j", "vlan", "show"],
    lines: (stdout) => stableList(stdout).flatMap(({ ifname, vlans }) => leaves(vlans, String(ifname))),
  },
  queueing: {
    command: ["tc", "-j", "qdisc", "show"],
    lines: (stdout) =>
      stableList(stdout)
        .map((qdisc) => `${qdisc.dev} ${words(qdisc, ["dev"])}`)
        .sort(),
  },
  sysctls: sysctlSource,
}
