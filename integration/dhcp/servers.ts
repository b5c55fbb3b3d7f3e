import { mkdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Namespace } from "../lab/mod.ts"
import { Running } from "./running.ts"

/** A DHCP server of another implementation: the running program and its lease file. */
export interface Server extends AsyncDisposable {
  readonly running: Running
  /** Returns the content of the lease file. */
  leases(): Promise<string>
}

/**
 * Starts dnsmasq for the network 10.1.2.0/24 with addresses from 10.1.2.50, or with other options. Its leases are at
 * least two minutes long.
 */
export async function startDnsmasq(
  where: Namespace,
  directory: string,
  options: readonly string[] = [
    "--dhcp-range=10.1.2.50,10.1.2.60,255.255.255.0,2m",
    "--dhcp-option=option:router,10.1.2.1",
  ],
): Promise<Server> {
  const file = join(directory, "dnsmasq.leases")
  const fixed = ["--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--interface=eth0", "--bind-interfaces"]
  const log = ["--log-facility=-", "--log-dhcp", "--pid-file=", "--user=root", "--no-ping", "--dhcp-authoritative"]
  const command = ["dnsmasq", ...fixed, ...log, `--dhcp-leasefile=${file}`, ...options]
  return serverOf(await Running.start(where, command, /bound exclusively to interface/), file)
}

/** The configuration of a subnet in `dhcpd`. */
export interface Subnet {
  /** The first and last address. */
  readonly range?: readonly [string, string]
  readonly leaseSeconds?: number
  /** Further lines of the subnet's declaration. */
  readonly more?: readonly string[]
}

/**
 * Starts ISC's dhcpd for 10.1.2.0/24 with leases of seconds. After a restart with the same directory, dhcpd still knows
 * the leases.
 */
export async function startDhcpd(where: Namespace, directory: string, subnet: Subnet = {}): Promise<Server> {
  const { range = ["10.1.2.50", "10.1.2.60"], leaseSeconds = 4, more = ["option routers 10.1.2.1;"] } = subnet
  const config = `
    authoritative;
    ping-check off;
    dhcp-cache-threshold 0;
    default-lease-time ${leaseSeconds};
    min-lease-time ${leaseSeconds};
    max-lease-time ${leaseSeconds};
    subnet 10.1.2.0 netmask 255.255.255.0 {
      range ${range.join(" ")};
      ${more.join("\n      ")}
    }`
  return startIsc(where, directory, "4", config)
}

/** Starts ISC's dhcpd for DHCPv6 in 2001:db8:2::/64. */
export async function startDhcpd6(where: Namespace, directory: string, seconds: number): Promise<Server> {
  const config = `
    authoritative;
    preferred-lifetime ${seconds};
    default-lease-time ${seconds};
    option dhcp-renewal-time ${Math.ceil(seconds / 2)};
    option dhcp-rebinding-time ${Math.ceil(seconds * 0.8)};
    subnet6 2001:db8:2::/64 { range6 2001:db8:2::50 2001:db8:2::60; }`
  return startIsc(where, directory, "6", config)
}

async function startIsc(where: Namespace, directory: string, family: "4" | "6", config: string): Promise<Server> {
  const path = (name: string) => join(directory, `dhcpd${family}.${name}`)
  await mkdir(directory, { recursive: true })
  await writeFile(path("conf"), config)
  await writeFile(path("leases"), "", { flag: "a" })
  const files = ["-cf", path("conf"), "-lf", path("leases"), "--no-pid"]
  const command = ["dhcpd", `-${family}`, "-d", ...files, "eth0"]
  return serverOf(await Running.start(where, command, /Server starting service/), path("leases"))
}

/**
 * The configuration of leases in Kea for 10.1.2.0/24 or 2001:db8:2::/64. The client renews a lease after half of its
 * time and rebinds it after three quarters.
 */
export interface KeaSubnet {
  readonly leaseSeconds: number
  /** An address of eth0 at which Kea also listens, because IPv6 relays do not use multicast. */
  readonly address?: string
  /** Further keys of the subnet. */
  readonly keys?: object
}

/** A fixed server identifier, because Kea would otherwise save an identifier in /var/lib. */
const keaDuid = { type: "EN", "enterprise-id": 2495, identifier: "0102030405", persist: false }

/** Starts ISC's Kea with leases of seconds. After a restart with the same directory, Kea still knows the leases. */
export async function startKea(
  where: Namespace,
  directory: string,
  family: 4 | 6,
  { leaseSeconds, address, keys = {} }: KeaSubnet,
): Promise<Server> {
  await mkdir(directory, { recursive: true })
  const path = (name: string) => join(directory, `kea${family}.${name}`)
  const network = family === 4 ? "10.1.2." : "2001:db8:2::"
  const subnet = {
    id: 1,
    subnet: family === 4 ? "10.1.2.0/24" : "2001:db8:2::/64",
    pools: [{ pool: `${network}50 - ${network}60` }],
    ...keys,
  }
  const config = {
    "interfaces-config": { interfaces: [address === undefined ? "eth0" : `eth0/${address}`], "re-detect": false },
    "lease-database": { type: "memfile", persist: true, name: path("leases"), "lfc-interval": 0 },
    "expired-leases-processing": { "reclaim-timer-wait-time": 1, "hold-reclaimed-time": 0 },
    "valid-lifetime": leaseSeconds,
    ...(family === 6 ? { "preferred-lifetime": leaseSeconds, "server-id": keaDuid } : {}),
    "renew-timer": leaseSeconds / 2,
    "rebind-timer": (leaseSeconds * 3) / 4,
    [`subnet${family}`]: [subnet],
    loggers: [
      {
        name: `kea-dhcp${family}`,
        output_options: [{ output: "stdout", flush: true }],
        severity: "DEBUG",
        debuglevel: 50,
      },
    ],
  }
  await writeFile(path("conf"), JSON.stringify({ [`Dhcp${family}`]: config }))
  const environment = ["env", `KEA_PIDFILE_DIR=${directory}`, `KEA_LOCKFILE_DIR=${directory}`]
  const command = [...environment, `kea-dhcp${family}`, "-c", path("conf")]
  return serverOf(await Running.start(where, command, new RegExp(`DHCP${family}_STARTED`)), path("leases"))
}

const quiet = [
  "--keep-in-foreground",
  "--conf-file=/dev/null",
  "--port=0",
  "--pid-file=",
  "--user=root",
  "--log-facility=-",
]

/** Starts dnsmasq as a relay between the containers' network and a server in another network. */
export function startRelay(where: Namespace, own: string, server: string): Promise<Running> {
  return Running.start(where, ["dnsmasq", ...quiet, `--dhcp-relay=${own},${server}`], /relay from/)
}

/** Starts dnsmasq as an IPv6 router that sends advertisements. */
export function startAdvertiser(where: Namespace): Promise<Running> {
  const router = ["--interface=eth0", "--enable-ra", "--ra-param=eth0,4,60", "--dhcp-range=2001:db8:2::,ra-only"]
  return Running.start(where, ["dnsmasq", ...quiet, ...router], /router advertisement on/)
}

function serverOf(running: Running, file: string): Server {
  return {
    running,
    leases: () => readFile(file, "utf8"),
    [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
  }
}
